package screen

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Record shows the cost and effort per merged issue, with a line for each group and one for all.
func (v View) Record(d *control.RecordDocument) string {
	p := v.page()
	if d.Total.Sessions == 0 && d.Total.Merged.Issues == 0 {
		return "no session ended in that time\n"
	}
	for _, g := range d.Groups {
		rows := [][]cell{v.recordColumns(row(faint, strings.ToUpper(string(g.By)), "MERGED", "FIRST PASS", "ROUNDS",
			"TOKENS/MERGE", "COST/MERGE", "COST", "MIN/MERGE", "SESSIONS", "TOKENS", "CACHE HITS"))}
		for i := range g.Rows {
			rows = append(rows, v.recordRow(keyName(g.By, g.Rows[i].Key), &g.Rows[i]))
		}
		rows = append(rows, v.recordRow("all", &d.Total))
		if d.Total.Verified > 0 { // no column where nothing is verified
			rows[0] = slices.Insert(rows[0], 3, cell{"GREEN", faint})
			for i := range g.Rows {
				rows[i+1] = slices.Insert(rows[i+1], 3, cell{greenFirst(&g.Rows[i]), plain})
			}
			rows[len(rows)-1] = slices.Insert(rows[len(rows)-1], 3, cell{greenFirst(&d.Total), plain})
		}
		p.table(0, rows)
	}
	if counted := d.Counted(); counted != "" {
		fmt.Fprintf(&p.text, "\n%s\n", counted)
	}
	return p.text.String()
}

// greenFirst returns how many of the sessions whose work was verified passed at the first try.
func greenFirst(t *ledger.Tally) string {
	if t.Verified == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", t.GreenFirst, t.Verified)
}

// recordColumns omits the last four columns on a narrow screen.
func (v View) recordColumns(line []cell) []cell {
	if v.Width > 0 && v.Width < slotWidth {
		return line[:len(line)-4]
	}
	return line
}

func (v View) recordRow(name string, t *ledger.Tally) []cell {
	line := []string{name, strconv.Itoa(t.Merged.Issues), approvedFirst(t), "-", "-", "-", usdText(t.USD, t.Unpriced), "-"}
	if r := t.PerIssue; r != nil {
		line[3], line[7] = fmt.Sprintf("%.1f", r.Rounds), fmt.Sprintf("%.0f", r.Minutes)
		line[4], line[5] = tokensText(r.Tokens, t.Merged.Untold), usdText(r.USD, t.Merged.Unpriced)
	}
	return v.recordColumns(row(plain, append(line, strconv.Itoa(t.Sessions), tokensText(t.Tokens, t.Untold),
		control.Hit(t.CacheHit))...))
}

// approvedFirst returns how many of the merged issues with an agent's review were approved in the first round.
func approvedFirst(t *ledger.Tally) string {
	if t.Merged.Reviewed == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", t.Merged.FirstRound, t.Merged.Reviewed)
}

// keyName returns the name of a group for people.
func keyName(by ledger.By, key string) string {
	switch {
	case key != "":
		return key
	case by == ledger.BySkill, by == ledger.ByIssue:
		return "(none)"
	}
	return "(unknown)"
}

// atLeast marks a sum as a lower bound if some sessions did not report their part.
func atLeast(missing int) string {
	if missing > 0 {
		return ">= "
	}
	return ""
}

func tokensText(n *int64, missing int) string {
	if n == nil {
		return "-"
	}
	return atLeast(missing) + control.Tokens(*n)
}

func usdText(usd *float64, missing int) string {
	if usd == nil {
		return "-"
	}
	return atLeast(missing) + fmt.Sprintf("$%.2f", *usd)
}

// RecordCSV writes a record as comma-separated values, one line per group. An unknown value is an empty field.
func (v View) RecordCSV(d *control.RecordDocument) string {
	var text strings.Builder
	w := csv.NewWriter(&text)
	_ = w.Write([]string{
		"by", "key", "merged", "reviewed", "first_round", "rounds_each", "minutes_each", "tokens_each", "usd_each",
		"sessions", "minutes", "tokens", "usd", "untold", "unpriced", "busy", "cache_hit", "cold", "verified", "green_first",
	})
	for _, g := range d.Groups {
		for i := range g.Rows {
			_ = w.Write(recordFields(g.By, &g.Rows[i]))
		}
	}
	w.Flush()
	return text.String()
}

func recordFields(by ledger.By, t *ledger.Tally) []string {
	each := []string{"", "", "", ""}
	if r := t.PerIssue; r != nil {
		each = []string{number(r.Rounds), number(r.Minutes), optional(r.Tokens), optional(r.USD)}
	}
	fields := []string{
		escapeFormula(string(by)), escapeFormula(t.Key), strconv.Itoa(t.Merged.Issues), strconv.Itoa(t.Merged.Reviewed),
		strconv.Itoa(t.Merged.FirstRound),
	}
	fields = append(fields, each...)
	return append(fields, strconv.Itoa(t.Sessions), number(t.Minutes), optional(t.Tokens), optional(t.USD),
		strconv.Itoa(t.Untold), strconv.Itoa(t.Unpriced), number(t.Busy),
		optional(t.CacheHit), strconv.Itoa(t.Cold), strconv.Itoa(t.Verified), strconv.Itoa(t.GreenFirst))
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func optional[N int64 | float64](n *N) string {
	if n == nil {
		return ""
	}
	return number(float64(*n))
}

// escapeFormula prevents a spreadsheet from evaluating a text as a formula, because skills are untrusted labels of the
// forge.
func escapeFormula(text string) string {
	text = Clean(text)
	if text != "" && strings.ContainsRune("=+-@", rune(text[0])) {
		return "'" + text
	}
	return text
}
