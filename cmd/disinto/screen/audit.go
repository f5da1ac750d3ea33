package screen

import (
	"fmt"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads/audit"
)

// Audit shows the range of intact receipts. The first mismatch is the command's error.
func (v View) Audit(r *audit.Report) string {
	p := v.page()
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	holds := good
	if !r.OK {
		holds = wrong
	}
	switch {
	case r.Receipts > 0:
		p.line(fmt.Sprintf("%s intact, %d to %d, of sessions that ended from %s to %s",
			control.Count(int(r.Receipts), "receipt"), r.First, r.Head.N, at(r.From), at(r.To)), holds)
		p.line("SHA-256 of the newest intact receipt: "+r.Head.Hash, plain)
	case r.OK:
		p.line("no receipts yet", plain)
	}
	if r.Pruned > 0 {
		p.line(fmt.Sprintf("%d older receipts were deleted because of their age", r.Pruned), faint)
	}
	if r.Without > 0 {
		p.line(control.Count(r.Without, "session")+" in the journal without a receipt", wrong)
	}
	if r.Torn != "" {
		p.line("a crash left "+Clean(r.Torn)+" unfinished; its session has another receipt", faint)
	}
	if q := r.Pulls; q != nil {
		p.line(fmt.Sprintf("%s on %s with the hash of their receipts", control.Count(q.Matching, "row"),
			control.Count(q.Comments, "pull request")), holds)
		if q.Others > 0 {
			p.line(control.Count(q.Others, "row")+" of other supervisors, or of an earlier identity of this one", faint)
		}
		for _, f := range q.Faults {
			p.line(fmt.Sprintf("%s: %s: %s", Clean(f.Pull), Clean(f.Run), f.Why), wrong)
		}
	}
	return p.text.String()
}
