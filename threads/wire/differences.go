package wire

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// Difference is an item on which two plans differ.
type Difference struct {
	Ref  forge.Ref
	Role string // of scheduled work
	// Here and There say what the plans would do with it, in words that follow "would", with their reasons.
	Here, There string
	// Key identifies the item and the pair of reasons, whatever numbers and times the words have.
	Key string
}

// subject is the item of a decision: an issue, a pull request or the scheduled work of a role.
type subject struct {
	forge.Ref
	role string
}

// deed is one decision of a plan about an item. Two plans agree if the codes of their deeds do.
type deed struct{ code, words string }

// Differences returns the items on which two plans for one snapshot differ, sorted by reference. It compares only the
// codes of reasons, not their operands, and ignores issues that are not queued.
func Differences(s *threads.Snapshot, here, there *threads.Plan) []Difference {
	ours, theirs := deeds(s, here), deeds(s, there)
	all := maps.Clone(ours)
	maps.Copy(all, theirs)
	var list []Difference
	for item := range all {
		a, b := told(ours[item]), told(theirs[item])
		if a.code == b.code {
			continue
		}
		list = append(list, Difference{
			Ref: forge.Ref{Repo: Words(item.Repo), Number: item.Number}, Role: Words(item.role),
			Here: a.words, There: b.words, Key: key(fmt.Sprintf("%s %s|%s|%s", item.Ref, item.role, a.code, b.code)),
		})
	}
	slices.SortFunc(list, func(a, b Difference) int { return cmp.Or(a.Ref.Compare(b.Ref), cmp.Compare(a.Role, b.Role)) })
	return list
}

// key bounds a key, which the other build can make long, so that 2,000 remembered keys stay small.
func key(k string) string {
	if len(k) <= 4*maxWords {
		return k
	}
	return fmt.Sprintf("%s %x", k[:4*maxWords], sha256.Sum256([]byte(k)))
}

// told joins all decisions of a plan about an item into one.
func told(list []deed) deed {
	slices.SortFunc(list, func(a, b deed) int { return cmp.Compare(a.code, b.code) })
	var codes, words []string
	for _, d := range list {
		codes, words = append(codes, d.code), append(words, d.words)
	}
	return deed{strings.Join(codes, "; "), Words(cmp.Or(strings.Join(words, " and "), "do nothing"))}
}

// deeds returns everything that a plan does or holds, by item.
func deeds(s *threads.Snapshot, p *threads.Plan) map[subject][]deed {
	all := make(map[subject][]deed)
	add := func(item subject, words, format string, operands ...any) {
		all[item] = append(all[item], deed{fmt.Sprintf(format, operands...), words})
	}
	for i := range p.Starts {
		x := &p.Starts[i]
		words := fmt.Sprintf("start %s (%s) on %s, slot %d", x.Agent, x.Item.Kind, x.Thread, x.Slot)
		add(subject{x.Item.Ref, x.Item.Role}, words, "start %s %s %s %s %d", x.Item.Kind, x.Agent, x.Role, x.Thread, x.Slot)
	}
	for i := range p.Stops {
		x := &p.Stops[i]
		of := slices.IndexFunc(s.Sessions, func(o threads.Session) bool { return o.RunID == x.RunID })
		if of < 0 {
			add(subject{}, "stop "+x.RunID+", which does not run", "stop %s", x.RunID)
			continue
		}
		o := &s.Sessions[of]
		add(subject{o.Item.Ref, o.Item.Role}, "stop "+o.Agent+": "+reason(&x.Reason), "stop %s %s", x.RunID, x.Reason.Code)
	}
	for i := range p.Merges {
		x := &p.Merges[i]
		words := fmt.Sprintf("merge %s into %s", x.HeadSHA[:min(len(x.HeadSHA), 8)], x.Base)
		add(subject{Ref: x.Ref}, words, "merge %s %s", x.HeadSHA, x.Base)
	}
	for i := range p.Marks {
		x := &p.Marks[i]
		add(subject{Ref: x.Ref}, fmt.Sprintf("mark it %s: %s", x.Action, reason(&x.Reason)),
			"mark %s %s %s %s", x.Action, x.Agent, x.From, x.Reason.Code)
	}
	for _, h := range p.Holds {
		add(subject{h.Ref, h.Role}, "hold it: "+reason(h.Reason), "hold %s %s", h.Kind, h.Reason.Code)
	}
	return all
}

// reason formats a reason with its code. The other build may have codes for which this one has no words.
func reason(r *threads.Reason) string {
	if text := r.Text(); text != string(r.Code) {
		return fmt.Sprintf("%s (%s)", text, r.Code)
	}
	return string(r.Code)
}

// maxWords bounds the words of another build that are shown, in bytes.
const maxWords = 300

// Words makes one bounded line of text from words that another build may have written.
func Words(s string) string {
	s = strings.ToValidUTF8(s, "?")
	s = strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return ' '
		}
		return r
	}, s)
	if len(s) > maxWords {
		s = strings.ToValidUTF8(s[:maxWords-len("…")], "") + "…"
	}
	return s
}
