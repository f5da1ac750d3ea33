package control

import (
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
	Since time.Time `json:"since,omitzero"` // zero: everything that is kept counts
	// From is when the first session that counts ended, or the start of its day if only the day's sums are kept; zero
	// without any. Summed counts the sessions of which only such sums are kept.
	From   time.Time `json:"from,omitzero"`
	Summed int       `json:"summed,omitempty"`
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
	Since time.Time // zero: all that are kept
	By    []ledger.By
}

// ReadRecordQuery reads the query of GET /v1/report. since is a span before now, such as 7d, or a time in RFC 3339; by
// may be repeated.
func ReadRecordQuery(query url.Values, now time.Time) (q RecordQuery, err error) {
	if said := query.Get("since"); said != "" {
		if q.Since, err = time.Parse(time.RFC3339, said); err != nil {
			span, err := Span(said)
			if err != nil {
				return q, err
			}
			q.Since = now.Add(-span)
		}
	}
	for _, name := range []string{"agent", "thread"} { // an answer about all would be taken for one about it
		if query.Has(name) {
			return q, fmt.Errorf("cannot report on one %s: ask for by=%s", name, name)
		}
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

// RecordOf answers a query from what is kept.
func RecordOf(b *ledger.Books, q RecordQuery) *RecordDocument {
	_, summed, first := b.Counted(q.Since)
	d := &RecordDocument{
		Since: q.Since.UTC(), From: first.UTC(), Summed: summed, Ever: b.Ever, Total: b.Total(q.Since),
		Groups: []RecordGroup{},
	}
	for _, by := range q.By {
		d.Groups = append(d.Groups, RecordGroup{by, b.Tallies(q.Since, by)})
	}
	return d
}

// Counted says which sessions count: "counts 4000 of 25000 sessions: those that ended since ...". It is empty if none
// does.
func (d *RecordDocument) Counted() string {
	n := int64(d.Total.Sessions)
	if n == 0 {
		return ""
	}
	of := Count(d.Total.Sessions, "session")
	switch {
	case d.Ever == n:
		of = "all " + of
	case d.Ever > n:
		of = fmt.Sprintf("%d of %d sessions", n, d.Ever)
	}
	words := fmt.Sprintf("counts %s, from %s UTC on", of, minute(d.From))
	if d.Summed > 0 {
		words += fmt.Sprintf("; of the first %d, sums of whole days", d.Summed)
	}
	return words
}

func minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }

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
