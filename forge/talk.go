package forge

import "strings"

// Talk has the comments below an item whose labels say that it waits, or waited, for the words of people.
type Talk struct {
	// Known says that the comments were read after the item's last change.
	Known bool
	// Remarks are our last plan and question, and what those wrote since who may write to the repository, or who filed the
	// issue. They are sorted by ID, which is the order in which they were written. See Relevant.
	Remarks []Remark
	// ApprovedBy is the account that set the label plan-approved; empty where the item lacks it.
	ApprovedBy string
}

// Remark is a comment as the scheduler sees it. The words are for those who work on the item.
type Remark struct {
	ID     int64
	Author string
	Writer bool // Author may write to the repository
	// Key is that of a question or plan of ours, by which it was written once; see QuestionKey. Empty for other accounts'.
	Key string
	// Likes are the accounts that may write and gave the plan a thumbs-up, sorted. They are read from plans only.
	Likes []string
}

// The beginnings of the keys of our comments that people answer.
const (
	QuestionKey = "question-"
	PlanKey     = "plan-"
)

// The beginnings of the keys of our comments that change again and again: those that show the receipts of sessions, and
// those that tell when an issue is expected to be done. They are for people, and not for agents to read: a prompt that
// differs from the last one's finds less in a cache.
const (
	ReceiptsKey = "receipts-"
	ETAKey      = "eta-"
)

// IsForPeople reports whether a comment says that it is one of these.
func IsForPeople(body string) bool {
	return strings.Contains(body, "<!-- disinto:"+ReceiptsKey) || strings.Contains(body, "<!-- disinto:"+ETAKey)
}

// IsTalkKey reports whether a comment with this key is a question or a plan.
func IsTalkKey(key string) bool {
	return strings.HasPrefix(key, QuestionKey) || strings.HasPrefix(key, PlanKey)
}

// MaxRemarks bounds the remarks after our last plan, and those after a question that follows it: the oldest count.
const MaxRemarks = 100

// Relevant returns the remarks that still matter, of all below an item in their order: from our last plan on, and
// without one from our last question on. Other comments of ours have a key too, and are left out.
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

// IsCommand reports whether a comment begins with a command for the supervisor, and so is no answer.
func IsCommand(body string) bool {
	first, _, _ := strings.Cut(strings.TrimSpace(body), "\n")
	_, is := CommandIn(first)
	return is
}
