package threads

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// Reason says why an item waits, a session is stopped or a mark is written. Only the operands that its code uses are
// set.
type Reason struct {
	Code   Code
	Agent  string
	Thread string
	Refs   []forge.Ref
	Count  int
	Limit  int
	Until  time.Time
	Note   string // a label, a login, or words of the forge or of an agent
}

// Text is the reason in words, without the item: "blocked by #12".
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

// Mend is the remedy for a person; empty where waiting is right.
func (r Reason) Mend() string { return docs[r.Code].Mend }

// expand fills the operands into a text, each named in braces.
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
		return cmp.Or(r.Agent, r.Thread, "everything")
	case "refs":
		return join(r.Refs, ", ")
	case "circle":
		return join(r.Refs, " -> ")
	case "count":
		return strconv.Itoa(r.Count)
	case "limit":
		return strconv.Itoa(r.Limit)
	case "note":
		return r.Note
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

// Key identifies the reason among those that were commented: its code and references, without what changes by itself.
func (r *Reason) Key() string {
	refs := slices.Clone(r.Refs)
	slices.SortFunc(refs, forge.Ref.Compare)
	return string(r.Code) + " " + join(slices.Compact(refs), " ")
}

func join(refs []forge.Ref, sep string) string {
	s := make([]string, len(refs))
	for i, r := range refs {
		s[i] = r.String()
		if r.IsZero() { // the forge does not say which one
			s[i] = "a hidden issue"
		}
	}
	return strings.Join(s, sep)
}
