package screen

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Record shows the cost of work and what came of it, with a line for each group and one for all.
func (v View) Record(d *control.RecordDocument) string {
	p := v.page()
	if d.Total.Sessions == 0 && d.Total.Merged.Pulls == 0 {
		return "no session ended in that time\n"
	}
	for _, g := range d.Groups {
		switch {
		case g.By == ledger.ByCause && len(g.Rows) == 0:
			p.text.WriteString("no session failed in that time\n")
			continue
		case g.By == ledger.ByCause:
			p.table(4, causeRows(g.Rows, &d.Total))
			continue
		}
		head := []string{
			strings.ToUpper(string(g.By)), "MERGED", "FAILED", "SESSIONS", "COST", "WASTED", "COST/MERGE",
			"MIN/MERGE", "TOKENS", "FIRST PASS", "ROUNDS", "CACHE",
		}
		if d.Total.Verified > 0 { // no column where nothing is verified
			head = append(head, "GREEN")
		}
		rows := [][]cell{v.recordColumns(row(faint, head...))}
		for i := range g.Rows {
			rows = append(rows, v.recordRow(keyName(g.By, g.Rows[i].Key), &g.Rows[i], len(head)))
		}
		rows = append(rows, v.recordRow("all", &d.Total, len(head)))
		p.table(0, rows)
	}
	if counted := d.Counted(); counted != "" {
		unpriced := ""
		if n := d.Total.Unpriced; n > 0 {
			unpriced = "the cost of " + control.Count(n, "session") + " is unknown: local models and some CLIs tell none\n"
		}
		fmt.Fprintf(&p.text, "\n%s%s\n", unpriced, counted)
	}
	return p.text.String()
}

// causeRows are the failures by cause, the most frequent first.
func causeRows(list []ledger.Tally, total *ledger.Tally) [][]cell {
	rows := [][]cell{row(faint, "FAILED", "WASTED", "BY", "ON", "CAUSE")}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b ledger.Tally) int { return b.Failed.Sessions - a.Failed.Sessions })
	for i := range list {
		f := &list[i].Failed
		var on []string
		for _, ref := range f.On {
			on = append(on, forge.Ref(ref).String())
		}
		rows = append(rows, row(plain, strconv.Itoa(f.Sessions), usdText(f.USD, f.Unpriced), strings.Join(f.FailedBy, ", "),
			strings.Join(on, ", "), list[i].Key))
	}
	f := &total.Failed
	of := fmt.Sprintf("all, of %s", control.Count(total.Sessions, "session"))
	return append(rows, row(plain, strconv.Itoa(f.Sessions), usdText(f.USD, f.Unpriced), "", "", of))
}

// partOf returns how many of all had something at the first try.
func partOf(first, all int) string {
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d", first, all)
}

// recordColumns omits all columns after COST/MERGE on a narrow screen.
func (v View) recordColumns(line []cell) []cell {
	if v.Width > 0 && v.Width < slotWidth {
		return line[:7]
	}
	return line
}

// recordRow returns the first n cells of a row.
func (v View) recordRow(name string, t *ledger.Tally, n int) []cell {
	each, minutes, rounds := "-", "-", "-"
	if r := t.PerMerge; r != nil {
		each, minutes, rounds = usdText(r.USD, t.Unpriced), fmt.Sprintf("%.0f", r.Minutes), fmt.Sprintf("%.1f", r.Rounds)
	}
	line := row(plain, name, strconv.Itoa(t.Merged.Pulls), strconv.Itoa(t.Failed.Sessions), strconv.Itoa(t.Sessions),
		usdText(t.USD, t.Unpriced), wasted(&t.Failed), each, minutes, tokensText(t.Tokens, t.Untold),
		partOf(t.Merged.FirstRound, t.Merged.Reviewed), rounds, control.Hit(t.CacheHit), partOf(t.GreenFirst, t.Verified))
	return v.recordColumns(line[:n])
}

// wasted returns the cost of failed sessions.
func wasted(f *ledger.Waste) string {
	if f.Sessions == 0 {
		return "-"
	}
	return usdText(f.USD, f.Unpriced)
}

// keyName returns the name of a group for people.
func keyName(by ledger.By, key string) string {
	switch {
	case key != "":
		return key
	case by == ledger.ByLabel, by == ledger.ByIssue:
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
	lines := [][]string{{
		"by", "key", "merged", "reviewed", "first_round", "rounds_each", "minutes_each", "tokens_each", "usd_each",
		"sessions", "minutes", "tokens", "usd", "failed", "failed_usd", "untold", "unpriced", "cache_hit", "cold",
		"verified", "green_first",
	}}
	for _, g := range d.Groups {
		for i := range g.Rows {
			lines = append(lines, recordFields(g.By, &g.Rows[i]))
		}
	}
	return writeCSV(lines)
}

func recordFields(by ledger.By, t *ledger.Tally) []string {
	each := []string{"", "", "", ""}
	if r := t.PerMerge; r != nil {
		each = []string{number(r.Rounds), number(r.Minutes), optional(r.Tokens), optional(r.USD)}
	}
	fields := []string{
		string(by), t.Key, strconv.Itoa(t.Merged.Pulls), strconv.Itoa(t.Merged.Reviewed), strconv.Itoa(t.Merged.FirstRound),
	}
	fields = append(fields, each...)
	return append(fields, strconv.Itoa(t.Sessions), number(t.Minutes), optional(t.Tokens), optional(t.USD),
		strconv.Itoa(t.Failed.Sessions), optional(t.Failed.USD), strconv.Itoa(t.Untold), strconv.Itoa(t.Unpriced),
		optional(t.CacheHit), strconv.Itoa(t.Cold), strconv.Itoa(t.Verified), strconv.Itoa(t.GreenFirst))
}

// HistoryCSV writes ended sessions as comma-separated values, one line each. An unknown value is an empty field.
func (v View) HistoryCSV(d *control.HistoryDocument) string {
	lines := [][]string{{
		"start", "end", "agent", "role", "thread", "model", "kind", "repo", "number", "title", "labels", "attempt",
		"outcome", "reason", "verdict", "input_tokens", "cached_tokens", "output_tokens", "usd", "estimated", "run",
	}}
	for i := range d.Sessions {
		s := &d.Sessions[i]
		fields := []string{
			s.Start.UTC().Format(time.RFC3339), s.End.UTC().Format(time.RFC3339), s.Agent, s.Role, s.Thread, s.Model,
			string(s.Kind), s.Ref.Repo, strconv.FormatInt(s.Ref.Number, 10), s.Title, strings.Join(s.AllLabels(), " "),
			strconv.Itoa(s.Attempt), string(s.Outcome), s.Reason, string(s.Verdict),
		}
		used := []string{"", "", "", "", ""}
		if u := s.Usage; u != nil {
			used = []string{
				optional(&u.InputTokens), optional(&u.CachedTokens), optional(&u.OutputTokens), "", strconv.FormatBool(u.Estimated),
			}
			if u.CostUSD > 0 {
				used[3] = number(u.CostUSD)
			}
		}
		lines = append(lines, slices.Concat(fields, used, []string{s.Run}))
	}
	return writeCSV(lines)
}

// writeCSV writes lines of which no field is a formula for a spreadsheet, or a command for a terminal.
func writeCSV(lines [][]string) string {
	var text strings.Builder
	w := csv.NewWriter(&text)
	for _, fields := range lines {
		for i := range fields {
			fields[i] = escapeFormula(fields[i])
		}
		_ = w.Write(fields)
	}
	w.Flush()
	return text.String()
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

func optional[N int64 | float64](n *N) string {
	if n == nil {
		return ""
	}
	return number(float64(*n))
}

// escapeFormula prevents a spreadsheet from evaluating a text as a formula, because labels and reasons are untrusted.
func escapeFormula(text string) string {
	text = Clean(text)
	if text != "" && strings.ContainsRune("=+-@", rune(text[0])) {
		return "'" + text
	}
	return text
}
