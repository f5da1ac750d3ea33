package threads

import (
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// duplicateTime is how long after its end an issue still has duplicates. The facts show a closed issue that long. A
// planner that files the same title later, such as each night, means the work again.
const duplicateTime = time.Hour

// duplicate holds an issue that an agent filed although there was one of an agent with the same title: a planner that
// began a second round once filed the same issue eleven times, of which two were merged and nine failed. A person is
// asked once, by a label; with that, with a retry, and with the first session on it the rule is over.
func duplicate(v *view, w *work) *Reason {
	is := w.issue
	asked := w.past.Labelled.Label != "" || !w.past.Retried.IsZero() || len(w.past.Writers) > 0
	if asked || !v.isAgent(is.Author) {
		return nil
	}
	v.indexTitles()
	for _, o := range v.titles[titleOf(is)] {
		if o.Number >= is.Number {
			return nil
		}
		if !o.Closed || is.Created.Before(o.Ended.Add(duplicateTime)) {
			return &Reason{Code: Duplicate, Refs: []forge.Ref{o.Ref}}
		}
	}
	return nil
}

// filedTwice returns nil if another rule has a reason to ask a person: two reasons in turns would be told for ever.
func filedTwice(v *view, w *work) *Reason {
	if w.issue == nil || !w.queued || orphaned(v, w) != nil {
		return nil
	}
	return duplicate(v, w)
}

// titleKey is a title without its case and its spacing, and the repository.
type titleKey struct{ repo, title string }

func titleOf(is *forge.Issue) titleKey {
	return titleKey{is.Repo, strings.TrimRight(strings.Join(strings.Fields(strings.ToLower(is.Title)), " "), ".!")}
}

// indexTitles finds the issues of agents by title, the oldest first, once per plan that asks for it.
func (v *view) indexTitles() {
	if v.titles != nil {
		return
	}
	v.titles = make(map[titleKey][]*forge.Issue)
	for i := range v.Facts.Issues {
		if is := &v.Facts.Issues[i]; v.isAgent(is.Author) {
			v.titles[titleOf(is)] = append(v.titles[titleOf(is)], is)
		}
	}
}
