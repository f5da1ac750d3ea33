package audit

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// Journal holds a journal's facts about receipts.
type Journal struct {
	Newest Head              // of the sessions whose end the journal has
	Pruned Pruned            // the receipts that were removed
	Hashes map[string]string // by run, of the sessions that the journal remembers
	Open   map[string]bool   // by run, the sessions whose end the journal does not have
	// Ended has the ends of the sessions in Hashes, Without counts those that ended without a receipt.
	Ended   map[string]time.Time
	Without int
	// Sessions has the sessions in Hashes, in the order of their ends, and Owed the pull requests whose comments are not
	// written yet. Forgot reports that there may have been earlier sessions.
	Sessions []Session
	Owed     map[forge.Ref]bool
	Forgot   bool
}

// Report is the result of a check of receipts.
type Report struct {
	Version    int       `json:"version"`
	OK         bool      `json:"ok"`
	Receipts   int64     `json:"receipts"`
	First      int64     `json:"first,omitempty"`
	From       time.Time `json:"from,omitzero"`  // the end of the first receipt's session
	To         time.Time `json:"to,omitzero"`    // the end of the last receipt's session
	Head       Head      `json:"head"`           // the newest receipt that holds
	Pruned     int64     `json:"pruned"`         // number of receipts that were removed because of their age
	Journalled int64     `json:"journalled"`     // number of the newest receipt in the journal; 0 without any
	Without    int       `json:"without"`        // sessions in the journal that have no receipt
	Torn       string    `json:"torn,omitempty"` // the last file, which a crash left unfinished
	Break      *Break    `json:"break,omitempty"`
	Pulls      *Pulls    `json:"pulls,omitempty"` // nil if they were not compared
}

// Break is the first receipt, or other file, that does not hold.
type Break struct {
	File string `json:"file"`
	Why  string `json:"why"`
}

// Chain checks receipts, one after the other.
type Chain struct {
	report  Report
	journal Journal
	noted   Head // from the file of removed receipts
	prev    string
	last    string // the name of the last receipt that holds
	torn    *Break // the break to report if another file follows
	old     int64  // number of the first receipt that should have been removed but exists
	foreign int64  // receipts whose sessions are unknown to a journal without receipts
	seen    map[string]bool
}

// PrunedFile is the name of the file with the newest receipt that was removed because of its age.
const PrunedFile = "pruned.json"

// journalFile is the file of a break in the journal itself.
const journalFile = "journal.jsonl"

// NewChain starts a check of the receipts in a state directory, after those that were removed according to the
// journal. noted is the head in PrunedFile. The check does not rely on it, and only compares it with the journal.
func NewChain(instance string, noted Head, j Journal) *Chain {
	c := &Chain{journal: j, noted: noted, prev: Genesis(instance), seen: make(map[string]bool)}
	base := j.Pruned.Head
	if base.N > 0 {
		c.prev = base.Hash
	}
	c.report = Report{Version: Version, Head: base, Pruned: base.N, Journalled: j.Newest.N, Without: j.Without}
	if j.Newest.N == 0 && noted.N > 0 {
		c.broken(journalFile, fmt.Sprintf("it knows no receipt, and receipts up to %d were removed", noted.N))
	}
	return c
}

// Next checks the next file, in the order of names. After a break it does nothing.
func (c *Chain) Next(name string, text []byte) {
	n, run, ok := ReadName(name)
	if !ok || c.report.Break != nil {
		return
	}
	if c.torn != nil {
		c.report.Break = c.torn
		return
	}
	hash := Hash(text)
	if base := c.journal.Pruned.Head; n <= base.N {
		if c.old == 0 {
			c.old = n
		}
		if n == base.N && hash != base.Hash {
			c.broken(name, "it is not the receipt that was removed last: the journal has another hash")
		}
		return
	}
	switch want := c.report.Head.N + 1; {
	case n > want:
		c.broken(name, missing(want, n-1)+" before it")
		return
	case n < want:
		c.broken(name, "another receipt has the same number")
		return
	}
	r, err := Read(text)
	switch {
	case err != nil:
		c.unreadable(name, n, err)
	case r.N != n || r.Run != run:
		c.broken(name, fmt.Sprintf("it has receipt %d, of run %s", r.N, r.Run))
	case n > c.journal.Newest.N && c.journal.Newest.N > 0 && !c.journal.Open[run]:
		c.broken(name, "the journal does not know its session")
	case c.changed(n, run, hash):
		c.broken(name, "it was changed: the journal has another hash of it")
	case r.Prev != c.prev && c.last == "":
		c.broken(name, "it does not follow from the beginning, "+c.prev)
	case r.Prev != c.prev:
		c.broken(c.last, "it was changed: "+name+" follows from another one")
	default:
		c.add(name, hash, r)
	}
}

// changed reports whether the journal has another hash of a receipt.
func (c *Chain) changed(n int64, run, hash string) bool {
	known := c.journal.Hashes[run]
	if n == c.journal.Newest.N {
		known = c.journal.Newest.Hash
	}
	return known != "" && known != hash
}

// unreadable reports a break. If the journal does not have the end of the receipt's session, there is a break only if
// another file follows.
func (c *Chain) unreadable(name string, n int64, err error) {
	b := &Break{name, err.Error()}
	if n <= c.journal.Newest.N {
		c.report.Break = b
		return
	}
	c.torn, c.report.Torn = b, name
}

func (c *Chain) add(name, hash string, r *Receipt) {
	if c.report.Receipts++; c.report.First == 0 {
		c.report.First, c.report.From = r.N, r.EndedAt
	}
	c.seen[r.Run] = true
	c.report.To, c.report.Head = r.EndedAt, Head{r.N, hash}
	if c.prev, c.last = hash, name; c.journal.Newest.N == 0 && !c.journal.Open[r.Run] {
		c.foreign++
	}
}

func (c *Chain) broken(name, why string) { c.report.Break = &Break{name, why} }

// End returns the report, after the last file.
func (c *Chain) End() Report {
	newest := c.journal.Newest
	switch head := c.report.Head; {
	case c.report.Break != nil:
		c.report.Torn = ""
	case newest.N > head.N:
		c.broken(Name(head.N+1, "*"), missing(head.N+1, newest.N)+" at the end")
	case c.foreign > 0:
		c.broken(journalFile, fmt.Sprintf("it knows no receipt, and %d exist", c.foreign))
	default:
		if c.reused(); c.report.Break == nil {
			c.pruning()
		}
	}
	c.report.OK = c.report.Break == nil
	return c.report
}

// pruneSlack is how far the ends of two sessions can lie apart from the order of their receipts.
const pruneSlack = time.Minute

// reused finds sessions whose receipts are gone although no number is missing: an older copy of the receipts was put
// back, and other sessions got their numbers.
func (c *Chain) reused() {
	var gone []string
	for run := range c.journal.Hashes {
		if !c.seen[run] && c.report.First > 0 && c.journal.Ended[run].After(c.report.From.Add(pruneSlack)) {
			gone = append(gone, run)
		}
	}
	if len(gone) > 0 {
		slices.Sort(gone)
		others := ""
		if len(gone) > 1 {
			others = fmt.Sprintf(" and %d more", len(gone)-1)
		}
		c.broken(journalFile, fmt.Sprintf("it knows the receipt of %s%s, which is gone, and whose number was used again: "+
			"the receipts come from an older copy", gone[0], others))
	}
}

// pruning compares the file of removed receipts with the journal.
func (c *Chain) pruning() {
	base := c.journal.Pruned
	switch {
	case c.noted.N > base.N:
		c.broken(PrunedFile, "the journal has no record of the removal of "+span(base.N+1, c.noted.N))
	case c.noted.N == base.N && c.noted.Hash != base.Hash:
		c.broken(PrunedFile, fmt.Sprintf("the journal has another hash of receipt %d", base.N))
	case c.noted.N < base.N && c.old != c.noted.N+1: // after a crash, the receipts to be removed all exist
		c.broken(PrunedFile, "it has no record of the removal of "+span(c.noted.N+1, base.N)+", and the journal has")
	case base.Lost > 0:
		c.broken(PrunedFile, fmt.Sprintf("%d of %s were missing or changed before the others were removed for their age",
			base.Lost, span(1, base.N)))
	}
}

func missing(first, last int64) string {
	if first == last {
		return span(first, last) + " is missing"
	}
	return span(first, last) + " are missing"
}

func span(first, last int64) string {
	if first == last {
		return fmt.Sprintf("receipt %d", first)
	}
	return fmt.Sprintf("receipts %d to %d", first, last)
}
