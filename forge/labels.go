package forge

import (
	"slices"
	"strconv"
	"strings"
)

// The labels that the scheduler acts on. Each comment says who sets the label, and what the label means. The names are
// upstream's, so that a repository used with the bash scheduler needs no migration.
const (
	LabelBacklog    = "backlog"     // people, planners: agents can work on it
	LabelInProgress = "in-progress" // supervisor: a claim
	LabelBlocked    = "blocked"     // supervisor: agents used up their attempts
	LabelNeedsHuman = "needs-human" // supervisor: a person must act
	LabelConvoy     = "convoy"      // supervisor: a tracking issue, never worked on itself
	LabelStaged     = "staged"      // people; supervisor for a convoy that is not launched: not to be started
	LabelCancelled  = "cancelled"   // supervisor: skipped, and never unblocks what depends on it
	LabelStolen     = "stolen"      // supervisor: moved to another agent, and never moved again
	LabelReview     = "review"      // people: agents can review a stranger's pull request

	LabelNeedsAnswer  = "needs-answer"  // supervisor, when an agent asks: waits for the answer
	LabelPlanFirst    = "plan-first"    // people; supervisor for roles with plan: a plan first, then code
	LabelPlanApproved = "plan-approved" // people; supervisor after a thumbs-up: the plan can be carried out
	LabelSplitFirst   = "split-first"   // people; planners: the plan is a batch of issues, which the supervisor files
)

// SkillPrefix is the start of a label that names a skill: only agents with all skills of an issue work on it.
const SkillPrefix = "skill/"

// DefaultPriority is the priority of an issue without a priority label; 1 is the most urgent, 10 the least.
const DefaultPriority = 5

// Label is a label that a repository must have before we work in it: Forgejo silently ignores unknown label names, both
// in filters and when labels are added.
type Label struct {
	Name, Color, Description string
}

// RequiredLabels returns the labels that every repository must have; Prepare creates the missing ones.
func RequiredLabels() []Label {
	return []Label{
		{LabelBacklog, "0e8a16", "may be worked on by an agent"},
		{LabelInProgress, "1d76db", "an agent works on it"},
		{LabelBlocked, "b60205", "agents used up their attempts; see the last comment"},
		{LabelNeedsHuman, "d93f0b", "needs a person"},
		{LabelCancelled, "cccccc", "cancelled; does not unblock what depends on it"},
		{LabelStaged, "fbca04", "not to be started yet"},
		{LabelConvoy, "5319e7", "tracks other issues"},
		{LabelStolen, "c5def5", "moved from a busy agent to an idle one"},
		{LabelReview, "bfd4f2", "agents may review this, although its author may not write here"},
		{LabelNeedsAnswer, "d93f0b", "an agent asked a question; see the last comment"},
		{LabelPlanFirst, "fbca04", "an agent writes a plan first, and no code"},
		{LabelPlanApproved, "0e8a16", "the plan is approved, or none is needed"},
		{LabelSplitFirst, "fbca04", "an agent proposes to split this into issues, and writes no code"},
		{"priority", "ff7619", "before everything of the default priority"},
	}
}

// skipLabels keep an issue from being dispatched. Upstream's agents set those in the second line.
var skipLabels = []string{
	LabelBlocked, LabelNeedsHuman, LabelNeedsAnswer, LabelConvoy, LabelStaged, LabelCancelled,
	"underspecified", "vision", "formula", "bug-report", "in-triage", "rejected", "awaiting-live-verification",
}

// longestHost keeps the result of StolenFrom within the 50 characters that Forgejo allows for a label.
const longestHost = 50 - len("fleet::stolen")

// StolenFrom returns the label that says from which host an issue was moved: fleet:HOST:stolen. It is set beside
// LabelStolen. In HOST every character becomes a dash unless it is a letter, digit, dot, dash or underscore.
func StolenFrom(host string) string {
	host = strings.Map(func(r rune) rune {
		if validName(string(r)) || r == '.' {
			return r
		}
		return '-'
	}, host)
	return "fleet:" + host[:min(len(host), longestHost)] + ":stolen"
}

// Ours reports whether the scheduler gives the label a meaning that changes while an issue is worked on.
func Ours(label string) bool {
	return Skips(label) || strings.HasPrefix(label, "fleet:") ||
		slices.ContainsFunc(RequiredLabels(), func(l Label) bool { return l.Name == label && label != "priority" })
}

// SkipLabel returns the first of labels that keeps an item from being dispatched, or "".
func SkipLabel(labels []string) string {
	if i := slices.IndexFunc(labels, Skips); i >= 0 {
		return labels[i]
	}
	return ""
}

// Skips reports whether the label keeps an item from being worked on.
func Skips(label string) bool {
	return slices.Contains(skipLabels, label) || strings.HasPrefix(label, "prediction/")
}

// Priority returns the most urgent priority that the labels set: 1 to 10 for priority/1 to priority/10, and 2 for the
// label priority. Without any of them it returns DefaultPriority.
func Priority(labels []string) int { return PriorityOr(labels, DefaultPriority) }

// PriorityOr is Priority with another value for labels that set none.
func PriorityOr(labels []string, unset int) int {
	best := 0
	for _, l := range labels {
		n := 0
		if l == "priority" {
			n = 2
		} else if s, ok := strings.CutPrefix(l, "priority/"); ok {
			n, _ = strconv.Atoi(s)
		}
		if n >= 1 && n <= 10 && (best == 0 || n < best) {
			best = n
		}
	}
	if best == 0 {
		return unset
	}
	return best
}

// Skills returns the names after skill/ in labels, in the order of labels.
func Skills(labels []string) []string {
	var skills []string
	for _, l := range labels {
		if s, ok := strings.CutPrefix(l, SkillPrefix); ok && s != "" {
			skills = append(skills, s)
		}
	}
	return skills
}
