package threads

import (
	"slices"
	"strings"

	"codeberg.org/johba/disinto/forge"
)

// subject is a set of things that a rule can be about. A decision asks a rule only about the items that have one of its
// subjects. Most issues have neither assignees, pull requests, blockers nor a past; to ask each rule about 10,000 of
// them took a third of a plan's time.
type subject uint16

const (
	itself    subject = 1 << iota // any other fact of the item; the rule is asked about every item
	itsLabels                     // on which rules act; backlog is not among them
	itsAssignees
	itsPulls // pull requests for an issue
	itsBlockers
	itsPast     // journalled facts
	itsSessions // on the item, or elsewhere on its chain
	itsPlan     // some role has to plan issues first
	everything  = subject(1<<iota - 1)
)

// concerns reports whether a rule about some subjects has to be asked about the item.
func (w *work) concerns(about subject) bool { return w.subjects&about != 0 }

// subjectsOf returns the subjects of an open issue. attend adds itsSessions later.
func (v *view) subjectsOf(w *work) subject {
	s := itself
	if slices.ContainsFunc(w.issue.Labels, v.steers) {
		s |= itsLabels
	}
	if len(w.issue.Assignees) > 0 {
		s |= itsAssignees
	}
	if len(w.pulls) > 0 {
		s |= itsPulls
	}
	if len(w.issue.Blockers) > 0 {
		s |= itsBlockers
	}
	if v.past(w) != &noChain || w.memo != &noItem {
		s |= itsPast
	}
	if v.plans {
		s |= itsPlan
	}
	return s
}

// steers reports whether rules or traits depend on a label. All issues in the queue have backlog.
func (v *view) steers(label string) bool {
	switch label {
	case forge.LabelBacklog:
		return slices.Contains(v.filters, label)
	case forge.LabelInProgress, forge.LabelPlanFirst, forge.LabelPlanApproved:
		return true
	}
	return forge.Skips(label) || strings.HasPrefix(label, forge.SkillPrefix) || slices.Contains(v.filters, label)
}

// plain reports whether the item is an issue without anything that rules or traits treat specially. All plain issues
// have the same traits, and most issues are plain.
func (w *work) plain() bool { return w.subjects&^itsPlan == itself }
