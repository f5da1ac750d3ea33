package threads

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// Reason says why an item waits, a session is stopped or a mark is written. The code decides which operands are set.
type Reason struct {
	Code   Code
	Agent  string
	Thread string
	Repo   string
	Refs   []forge.Ref // of SkipLabel: its cancelled blockers
	Count  int
	Limit  int
	Until  time.Time // of NotRead: when it was read last
	Note   string    // a label, a login, or words of the forge or of an agent
	Person string    // the login of the person who was asked, or who answered
	Why    string    // the cause of the label in Note
}

// Text returns the reason in words, without the item: "blocked by #12".
func (r Reason) Text() string {
	doc, documented := docs[r.Code]
	if !documented {
		return string(r.Code)
	}
	text, other, found := strings.Cut(doc.text, "|")
	if found && (r.Agent != "" || len(r.Refs) > 0) {
		text = other
	}
	return r.expand(text)
}

// Mend returns the remedy for a person; empty if the item should simply wait. The remedy of a code is narrowed to this
// reason: that of one paused agent must not end every pause.
func (r Reason) Mend() string {
	switch r.Code {
	case Paused:
		return "`" + strings.TrimSpace("disinto resume "+cmp.Or(r.Agent, r.Thread, r.Repo)) + "`"
	case SkipLabel:
		switch r.Note {
		case forge.LabelBlocked, forge.LabelNeedsHuman:
			if len(r.Refs) > 0 { // a retry alone would be in vain
				return docs[BlockerCancelled].Mend
			}
			return "settle what its comments ask; then `disinto retry REF`"
		case forge.LabelCancelled:
			return "`disinto retry REF` takes it up again"
		}
		return "remove the label " + r.Note
	case EgressRefused:
		return "add `" + r.Why + "` in factory.toml if it needs them; `disinto retry REF` tries now"
	case CoolDown:
		if r.Count > 0 || !strings.Contains(r.Why, forge.ErrTaken.Error()) { // no other host is known to claim it
			return "`disinto retry REF` tries now"
		}
	}
	return docs[r.Code].Mend
}

// MendFor returns the remedy with a name in place of REF, and of AGENT where the reason has no agent. REPO is the
// repository of that name, OTHER the first item that the reason names, and SERVICE its service. A status with 10,000
// items calls MendFor 10,000 times: a strings.Replacer per call took half of the status's time.
func (r Reason) MendFor(name string) string {
	parts := strings.Split(r.Mend(), "REF")
	for i, part := range parts {
		part = strings.ReplaceAll(part, "AGENT", cmp.Or(r.Agent, name))
		if repo, _, numbered := strings.Cut(name, "#"); numbered && repo != "" {
			part = strings.ReplaceAll(part, "REPO", repo)
		}
		if len(r.Refs) > 0 {
			part = strings.ReplaceAll(part, "OTHER", r.Refs[0].String())
		}
		parts[i] = strings.ReplaceAll(part, "SERVICE", r.Note)
	}
	return strings.Join(parts, name)
}

// NeedsPerson reports whether an item with this reason must be shown to a person: only a person can end the wait, and
// no person chose it.
func (r *Reason) NeedsPerson() bool {
	if r.Code == SkipLabel {
		return r.Note == forge.LabelBlocked || r.Note == forge.LabelNeedsHuman
	}
	d := docs[r.Code]
	return d.Ends == ByPerson || d.Class == Failed
}

// expand replaces the operands in a text, each named in braces.
func (r *Reason) expand(text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		operand, rest, _ := strings.Cut(rest, "}")
		b.WriteString(r.operand(operand))
		text = rest
	}
}

func (r *Reason) operand(name string) string {
	switch name {
	case "agent":
		return r.Agent
	case "thread":
		return r.Thread
	case "who":
		return cmp.Or(r.Agent, r.Thread, r.Repo, "everything")
	case "refs":
		return join(r.Refs, ", ")
	case "circle":
		return join(r.Refs, " -> ")
	case "count":
		return strconv.Itoa(r.Count)
	case "limit":
		return strconv.Itoa(r.Limit)
	case "repo":
		return r.Repo
	case "note":
		return r.Note
	case "person":
		return cmp.Or(prefixed("@", r.Person), "people")
	case "why":
		return prefixed(": ", r.Why)
	case "by":
		return prefixed(" by ", r.Person)
	case "busy":
		return r.busy()
	case "failed":
		return r.failed()
	case "free":
		return r.free()
	case "last":
		if r.Until.IsZero() {
			return ""
		}
		return ", last at " + r.Until.UTC().Format(time.RFC3339)
	case "time":
		return r.Until.Format(time.RFC3339)
	case "until":
		if r.Until.IsZero() {
			return ""
		}
		return " until " + r.Until.Format(time.RFC3339)
	}
	return "{" + name + "}"
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// busy says how many of the agents that could take an item are at work.
func (r *Reason) busy() string {
	switch {
	case r.Count < r.Limit:
		return fmt.Sprintf("no %s can start: %d of %d work", r.Note, r.Count, r.Limit)
	case r.Limit == 2:
		return "both " + r.Note + "s are busy"
	}
	return fmt.Sprintf("all %d %ss are busy", r.Limit, r.Note)
}

// failed says how often the item failed, and why it failed last; empty if it did not.
func (r *Reason) failed() string {
	switch {
	case r.Count == 0:
		return ""
	case r.Note == "":
		return fmt.Sprintf("failed %d of %d; ", r.Count, r.Limit)
	}
	return fmt.Sprintf("failed %d of %d: %s; ", r.Count, r.Limit, r.Note)
}

// free says when an agent is expected to end its session; empty where that is unknown.
func (r *Reason) free() string {
	about := " free about " + r.Until.Format(time.RFC3339)
	switch {
	case r.Until.IsZero():
		return ""
	case r.Agent != "":
		return "," + about
	}
	return ", first" + about
}

// Key identifies the reason among those that were commented, by its code and references. The other operands may change
// while the reason stays the same. It is also the same whichever pull request was handed in last: an agent that opens
// forty, one after the other, must not make us comment on each of the earlier ones forty times.
func (r *Reason) Key() string {
	if r.Code == NotLast {
		return string(r.Code)
	}
	refs := slices.Clone(r.Refs)
	slices.SortFunc(refs, forge.Ref.Compare)
	return string(r.Code) + " " + join(slices.Compact(refs), " ")
}

// Once reports whether a person is asked once for this reason, as its Key says: after they removed the label
// needs-human, it is not written again.
func (r *Reason) Once() bool {
	return r.Code == BlockerCancelled || r.Code == TooManyRounds || r.Code == Duplicate
}

func join(refs []forge.Ref, sep string) string {
	s := make([]string, len(refs))
	for i, r := range refs {
		s[i] = r.String()
		if r.IsZero() { // the forge does not say which issue
			s[i] = "a hidden issue"
		}
	}
	return strings.Join(s, sep)
}
