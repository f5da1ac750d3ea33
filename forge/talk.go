package forge

import "strings"

// Talk holds the comments on an item whose labels say that it waits, or waited, for people's answers.
type Talk struct {
	// Known means that the comments were read after the item's last change.
	Known bool
	// Remarks are our last plan and question, and the later comments by the author and by accounts with write
	// access. They are sorted by ID, which is the order in which they were written. See Relevant.
	Remarks []Remark
	// ApprovedBy is the account that set the label plan-approved; empty when the item does not carry the label.
	ApprovedBy string
}

// Remark is a comment as the scheduler sees it. It has no text, because the scheduler does not need one.
type Remark struct {
	ID     int64
	Author string
	Writer bool // Author has write access to the repository
	// Key is the hidden key in one of our comments. With it we avoid writing the comment twice: see QuestionKey and
	// PlanKey. Empty for comments of other accounts.
	Key string
	// Likes are the accounts with write access that gave the plan a thumbs-up, sorted. They are read for plans only.
	Likes []string
}

// The prefixes of the keys of our comments that people answer.
const (
	QuestionKey = "question-"
	PlanKey     = "plan-"
)

// ReceiptsKey is the prefix of the keys of our comments that show the receipts of sessions. We edit them again and
// again. They are for people only. Agents do not read them, because a prompt that differs from the last one finds less
// in a cache.
const ReceiptsKey = "receipts-"

// etaKey is the prefix of the keys of comments in which older versions told when an issue was expected to be done. They
// stay on the forge, and their times are past.
const etaKey = "eta-"

// IsForPeople reports whether a comment shows receipts or, from an older version, expected times.
func IsForPeople(body string) bool {
	return strings.Contains(body, "<!-- disinto:"+ReceiptsKey) || strings.Contains(body, "<!-- disinto:"+etaKey)
}

// IsTalkKey reports whether key is that of a question or a plan.
func IsTalkKey(key string) bool {
	return strings.HasPrefix(key, QuestionKey) || strings.HasPrefix(key, PlanKey)
}

// MaxRemarks bounds the remarks after our last plan, and those after a question that follows the plan. The oldest ones
// are returned.
const MaxRemarks = 100

// Relevant returns the remarks that still matter: those from our last plan on or, without a plan, from our last
// question on. all must be every remark on the item, in order. Our other comments also have a key and are left out.
func Relevant(all []Remark) []Remark {
	plan, question := -1, -1
	for i := range all {
		switch {
		case strings.HasPrefix(all[i].Key, PlanKey):
			plan, question = i, -1
		case strings.HasPrefix(all[i].Key, QuestionKey):
			question = i
		}
	}
	var some []Remark
	take := func(part []Remark) {
		for i := range part[:min(len(part), MaxRemarks+1)] {
			if part[i].Key == "" || IsTalkKey(part[i].Key) {
				some = append(some, part[i])
			}
		}
	}
	switch {
	case plan >= 0 && question >= 0:
		take(all[plan:question])
		take(all[question:])
	case plan >= 0 || question >= 0:
		take(all[max(plan, question):])
	}
	return some
}

// IsCommand reports whether a comment begins with a command for the supervisor. Such a comment answers no question.
func IsCommand(body string) bool {
	first, _, _ := strings.Cut(strings.TrimSpace(body), "\n")
	_, is := CommandIn(first)
	return is
}
