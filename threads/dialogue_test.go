package threads

import (
	"slices"
	"strings"

	"codeberg.org/johba/disinto/forge"
)

// talkOf returns the talk of an issue or pull request of the script.
func (w *scriptWorld) talkOf(number string) *forge.Talk {
	if p := w.s.Facts.Pull(w.ref(number)); p != nil {
		return &p.Talk
	}
	return &w.s.Facts.Issue(w.ref(number)).Talk
}

func (w *scriptWorld) remark(f []string) {
	r := forge.Remark{Author: f[1], ID: int64(w.number(f[2]))}
	for _, word := range f[3:] {
		if list, likes := strings.CutPrefix(word, "likes="); likes {
			r.Likes = strings.Split(list, ",")
		} else if !w.field(&r, word) {
			w.Fatalf("unknown word %q in a remark", word)
		}
	}
	t := w.talkOf(f[0])
	t.Known = true
	t.Remarks = append(slices.DeleteFunc(slices.Clone(t.Remarks), func(o forge.Remark) bool { return o.ID == r.ID }), r)
	slices.SortFunc(t.Remarks, func(a, b forge.Remark) int { return int(a.ID - b.ID) })
}

func (w *scriptWorld) talk(f []string) {
	t := w.talkOf(f[0])
	by, approved := strings.CutPrefix(f[1], "approved=")
	switch {
	case approved:
		t.Known, t.ApprovedBy = true, by
	case f[1] == "forgotten":
		t.Known, t.Remarks = true, nil
	default:
		t.Known = f[1] == "known"
	}
}

func (w *scriptWorld) dialogue(f []string) {
	if f[1] == "gone" {
		Entry(w.s.History.Chains, w.ref(f[0])).Dialogue = nil
		return
	}
	d := &Dialogue{Plan: f[1] != "question", Split: f[1] == "split", Run: f[2], Agent: f[3], At: w.s.Now}
	for _, word := range f[4:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "asked":
			d.Asked = true
		case "answered":
			d.Asked, d.Answered = true, w.at(value)
		case "approved":
			d.Approved = true
		case "comments":
			for id := range strings.SplitSeq(value, ",") {
				d.Comments = append(d.Comments, int64(w.number(id)))
			}
		default:
			d.Words = strings.TrimSpace(d.Words + " " + word)
		}
	}
	Entry(w.s.History.Chains, w.ref(f[0])).Dialogue = d
}
