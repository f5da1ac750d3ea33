package supervisor

import (
	"cmp"
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/forge/plan"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads/ledger"
)

const howToApprove = "To approve it, give this comment a thumbs-up, or label the issue `plan-approved`. To have it " +
	"changed, say in a comment below what should be different. Those who may write to this repository can."

// splitComment shows what a person approves: a table, and every word that would be filed.
func splitComment(c *chore, each ledger.Rate) comment {
	d := &c.dialogue
	p, _ := plan.ParseSplit(d.Words, c.ref) // checked when the session ended
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s would split this into %s:\n\n", greeting(c.mark.Reason.Person), d.Agent,
		control.Count(len(p.Tasks), "issue"))
	b.WriteString("| id | issue | depends on | skills | priority | expected cost |\n|---|---|---|---|---|---|\n")
	for i := range p.Tasks {
		t := &p.Tasks[i]
		priority := ""
		if t.Priority > 0 {
			priority = fmt.Sprint(t.Priority)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", code(p.Called(i)), code(t.Title),
			code(strings.Join(t.After, ", ")), code(strings.Join(t.Skills, ", ")), priority, costOf(each, 1))
	}
	fmt.Fprintf(&b, "\nExpected cost of all: %s, from the average of the merged issues. "+
		"Longest chain: %s, one after the other.\n\nThis is what would be filed:\n\n%s\n\n%s",
		costOf(each, len(p.Tasks)), control.Count(p.LongestChain(), "issue"), fence(d.Words), howToApprove+
			" Once it is approved, the issues are filed, and this one becomes their batch.")
	return comment{d.Key(), b.String()}
}

// costOf returns the expected cost of some issues, in dollars and tokens as far as these are known.
func costOf(each ledger.Rate, issues int) string {
	var parts []string
	if each.USD != nil {
		parts = append(parts, fmt.Sprintf("$%.2f", *each.USD*float64(issues)))
	}
	if each.Tokens != nil {
		parts = append(parts, control.Tokens(*each.Tokens*int64(issues))+" tokens")
	}
	return cmp.Or(strings.Join(parts, ", "), "not known")
}

// code quotes an agent's words in a cell of a table, where nothing in them has an effect.
func code(text string) string {
	text = strings.NewReplacer("`", "'", "|", "¦", "<!--", "<! --").Replace(strings.Join(strings.Fields(text), " "))
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}
