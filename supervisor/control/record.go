package control

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/threads/ledger"
)

// RecordDocument sums up the costs and results of sessions: the answer of GET /v1/report and of `disinto report
// --json`.
type RecordDocument struct {
	Since time.Time `json:"since"`
	// From is the end of the first session that counts, if sessions after Since are forgotten; absent otherwise. Then
	// the sums are those of the newest ledger.PastLimit sessions.
	From time.Time `json:"from,omitzero"`
	// Ever counts all sessions of the factory, each of which has a receipt, since its first; 0 if unknown.
	Ever   int64         `json:"ever,omitempty"`
	Total  ledger.Tally  `json:"total"`
	Groups []RecordGroup `json:"groups"`
}

// RecordGroup has a row for each key of By, such as each agent or model.
type RecordGroup struct {
	By   ledger.By      `json:"by"`
	Rows []ledger.Tally `json:"rows"` // by key
}

// RecordQuery selects sessions.
type RecordQuery struct {
	Since         time.Time
	By            []ledger.By
	Agent, Thread string // only its sessions; empty: all sessions
}

// recordSpan is the default span of a record: as far back as sessions are remembered.
const recordSpan = "30d"

// ReadRecordQuery reads the query of GET /v1/report. since is a span before now, such as 7d, or a time in RFC 3339;
// by may be repeated; agent and thread are names.
func ReadRecordQuery(query url.Values, now time.Time) (q RecordQuery, err error) {
	q.Agent, q.Thread = query.Get("agent"), query.Get("thread")
	said := cmp.Or(query.Get("since"), recordSpan)
	if q.Since, err = time.Parse(time.RFC3339, said); err != nil {
		span, err := Span(said)
		if err != nil {
			return q, err
		}
		q.Since = now.Add(-span)
	}
	for _, name := range query["by"] {
		by := ledger.By(name)
		if !slices.Contains(ledger.Bys, by) {
			return q, fmt.Errorf("cannot group sessions by %q: want %s", name, Groupings())
		}
		if !slices.Contains(q.By, by) {
			q.By = append(q.By, by)
		}
	}
	return q, nil
}

// Groupings lists the ways to group sessions, for people.
func Groupings() string {
	var names []string
	for _, by := range ledger.Bys {
		names = append(names, string(by))
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// RecordOf answers a query from the remembered sessions and merges.
func RecordOf(past []ledger.Past, merges []ledger.Merged, ever int64, q RecordQuery) *RecordDocument {
	var from time.Time
	if len(past) >= ledger.PastLimit && past[0].End.After(q.Since) {
		from = past[0].End.UTC()
	}
	past = slices.DeleteFunc(slices.Clone(past), func(p ledger.Past) bool {
		return q.Agent != "" && p.Agent != q.Agent || q.Thread != "" && p.Thread != q.Thread
	})
	d := &RecordDocument{
		Since: q.Since.UTC(), From: from, Ever: ever, Total: ledger.Total(past, merges, q.Since), Groups: []RecordGroup{},
	}
	for _, by := range q.By {
		d.Groups = append(d.Groups, RecordGroup{by, ledger.Tallies(past, merges, q.Since, by)})
	}
	return d
}

// Counted says which sessions count, if earlier ones of the time are forgotten; empty if none is.
func (d *RecordDocument) Counted() string {
	if d.From.IsZero() {
		return ""
	}
	of := ""
	if d.Ever > ledger.PastLimit {
		of = fmt.Sprintf(" of %d", d.Ever)
	}
	return fmt.Sprintf("counts the newest %d%s sessions, which ended since %s UTC: earlier ones are forgotten",
		ledger.PastLimit, of, d.From.UTC().Format("2006-01-02 15:04"))
}

// Rows returns the rows of one group; nil if the query did not ask for it.
func (d *RecordDocument) Rows(by ledger.By) []ledger.Tally {
	for _, g := range d.Groups {
		if g.By == by {
			return g.Rows
		}
	}
	return nil
}

// maxSpan is 30 years: a longer one is a typing error.
const maxSpan = 30 * 365 * 24 * time.Hour

// Span reads a duration such as 90m, 24h or 7d.
func Span(said string) (time.Duration, error) {
	text, most, unit := said, maxSpan, time.Duration(1)
	if days, isDays := strings.CutSuffix(said, "d"); isDays {
		text, most, unit = days+"h", maxSpan/24, 24
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > most {
		return 0, fmt.Errorf("cannot read %q as a time: write it as 90m, 24h or 7d", said)
	}
	return d * unit, nil
}
