package supervisor

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/eta"
)

// With [factory] eta an issue has one comment with its expected times of start and merge. A goroutine beside the
// threads' loops updates the comments from the forecast. No rule reads the comments, so no item is gripped for them.

const (
	// etaRest is the time between two rounds. A round reads and writes at most etaWrites comments.
	etaRest   = time.Minute
	etaWrites = 6
	// etaItems is the number of queued items with a comment: as many as can be rewritten before the first is out of date
	// again. Further back, the queue is reordered before its times come true, and each new comment sends mail. etaMost is
	// the maximum number of open issues with a comment.
	etaItems = 60
	etaMost  = 500
	// etaName is a file in the state directory. etaSize bounds it, and leaves room for more than etaMost comments.
	etaName = "eta.json"
	etaSize = 1 << 20
)

// told is the text of the comment on an issue.
type told struct {
	Issue string    `json:"issue"`
	At    time.Time `json:"at"` // when the comment was written
	eta.Note
}

// etas keeps the comments. One goroutine owns it.
type etas struct {
	s     *Supervisor
	said  map[forge.Ref]told // comments on issues that were open; the content of the file
	dirty bool               // the file is out of date
}

// keepETAs updates the comments while the configuration enables them, until ctx is done.
func (s *Supervisor) keepETAs(ctx context.Context) {
	if s.Foresee == nil {
		return
	}
	e := &etas{s: s, said: readETAs(filepath.Join(s.StateDir, etaName))}
	seen, last, more := int64(-1), time.Time{}, false
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(etaRest):
		}
		touches, now, cfg := s.touches.Load(), time.Now(), s.books.config()
		if cfg == nil || !cfg.Factory.ETA || !more && touches == seen && now.Sub(last) < outlookAge {
			continue
		}
		seen, last = touches, now
		s.safely("the expected times in comments", func() { more = e.round(ctx, cfg) })
	}
}

// round updates the most urgent comments: first those of issues that have ended, then those at the front of the queue.
// It reports whether more comments need an update.
func (e *etas) round(ctx context.Context, cfg *threads.Config) (more bool) {
	maps.DeleteFunc(e.said, func(ref forge.Ref, _ told) bool { return !slices.Contains(cfg.Forge.Repos, ref.Repo) })
	var open []forge.Ref
	places := e.s.places()
	for _, ref := range slices.SortedFunc(maps.Keys(e.said), forge.Ref.Compare) {
		if places.open[ref] {
			open = append(open, ref)
		}
	}
	f, err := e.s.foresee(ctx, Foresight{Refs: open, Items: etaItems, Time: forecastTime})
	if err != nil {
		return true
	}
	due := e.ended(places.open)
	due = append(due, e.due(f, places)...)
	for i, ref := range due {
		if i == etaWrites || ctx.Err() != nil {
			more = true
			break
		}
		if !e.tell(ref.Ref, ref.note) {
			more = true
			break // the forge does not answer
		}
	}
	if e.dirty {
		e.dirty = writeETAs(filepath.Join(e.s.StateDir, etaName), e.said) != nil
	}
	return more
}

// news is the next text of a comment. If note is nil, tell asks the forge how the issue ended.
type news struct {
	forge.Ref
	note *eta.Note
}

// ended returns the commented issues that are no longer open, according to the last scan.
func (e *etas) ended(open map[forge.Ref]bool) (list []news) {
	for _, ref := range slices.SortedFunc(maps.Keys(e.said), forge.Ref.Compare) {
		if !open[ref] {
			list = append(list, news{Ref: ref})
		}
	}
	return list
}

// due returns the open issues whose comment is missing or too far from the forecast, in the order of the forecast.
func (e *etas) due(f *control.Forecast, at *etaPlaces) (list []news) {
	known := make(map[forge.Ref]bool)
	free, now := etaMost-len(e.said), time.Now()
	for i := range f.Items {
		x := &f.Items[i]
		ref := forge.Ref{Repo: x.Repo, Number: x.Number}
		if chain, pull := at.chains[ref]; pull {
			ref = chain
		}
		if known[ref] || !at.open[ref] {
			continue
		}
		known[ref] = true
		n := &eta.Note{Began: at.began[ref], Start: ends(x.Start), Merged: ends(x.Merged), Code: x.Code}
		was, commented := e.said[ref]
		switch {
		case commented && was.Outdated(n, was.At, now):
			list = append(list, news{ref, n})
		case !commented && n.Expected() && free > 0:
			free--
			list = append(list, news{ref, n})
		}
	}
	return list
}

func ends(b control.Band) eta.Band { return eta.Band{Low: b.Low, High: b.High} }

// tell writes a comment. It returns false if the forge does not answer, so that the round ends. A comment that the
// forge refuses permanently counts as written.
func (e *etas) tell(ref forge.Ref, n *eta.Note) bool {
	now := time.Now()
	over := n == nil
	if over {
		look, err := ask(e.s, func(ctx context.Context, f Forge) (forge.Look, error) { return f.Look(ctx, ref, now) })
		d := control.LifeOf(ref, look)
		switch {
		case err != nil && !isPermanent(err):
			return false
		case d == nil, d.State == control.StateOpen: // gone, or reopened: then treated as not commented yet
			e.forget(ref)
			return true
		}
		n = &eta.Note{Began: e.said[ref].Began, Ended: d.EndedAt, How: d.State}
		if began := e.s.places().began[ref]; !began.IsZero() {
			n.Began = began
		}
	}
	err := e.s.keepComment(ref, comment{forge.ETAKey + e.s.instance, n.Text(now)})
	if err != nil && !isPermanent(err) {
		return false
	}
	if err != nil {
		name := wordsOf(e.s.books.config(), ref, "")
		e.s.log.Warn(fmt.Sprintf("[%s] cannot keep the comment with the expected times: %s", name, text(err)))
	}
	if over {
		e.forget(ref)
		return true
	}
	e.said[ref], e.dirty = told{ref.String(), now, *n}, true
	return true
}

func (e *etas) forget(ref forge.Ref) {
	delete(e.said, ref)
	e.dirty = true
}

// etaPlaces has the state of issues according to the facts and the journal.
type etaPlaces struct {
	open   map[forge.Ref]bool
	chains map[forge.Ref]forge.Ref // by open pull request
	began  map[forge.Ref]time.Time // the start of the first known session
}

func (s *Supervisor) places() *etaPlaces {
	at := &etaPlaces{make(map[forge.Ref]bool), make(map[forge.Ref]forge.Ref), make(map[forge.Ref]time.Time)}
	begin := func(chain forge.Ref, start time.Time) {
		if was := at.began[chain]; was.IsZero() || start.Before(was) {
			at.began[chain] = start
		}
	}
	s.view(func(snap threads.Snapshot) {
		for i := range snap.Facts.Issues {
			at.open[snap.Facts.Issues[i].Ref] = !snap.Facts.Issues[i].Closed
		}
		for i := range snap.Facts.Pulls {
			if p := &snap.Facts.Pulls[i]; !p.Closed {
				at.chains[p.Ref] = threads.ChainOf(p)
			}
		}
		for i := range snap.Sessions {
			if x := &snap.Sessions[i]; x.State == threads.Running && x.Item.Kind != agents.KindSchedule {
				begin(x.Item.Chain, x.Started)
			}
		}
	})
	for _, p := range s.books.past() {
		if p.Kind != agents.KindSchedule {
			begin(forge.Ref(p.Chain), p.Start)
		}
	}
	return at
}

// readETAs returns the comments in the file; none if it cannot be read, and then all are written again.
func readETAs(path string) map[forge.Ref]told {
	said := make(map[forge.Ref]told)
	var list []told
	if text, err := plainfile.Read(path, etaSize); err != nil || json.Unmarshal(text, &list) != nil {
		return said
	}
	for _, t := range list {
		if ref, err := forge.ParseRef(t.Issue, ""); err == nil {
			said[ref] = t
		}
	}
	return said
}

// writeETAs replaces the file. If that fails, the comments are written again after a restart; the journal reports a
// full disk.
func writeETAs(path string, said map[forge.Ref]told) error {
	list := make([]told, 0, len(said))
	for _, ref := range slices.SortedFunc(maps.Keys(said), forge.Ref.Compare) {
		list = append(list, said[ref])
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return plainfile.Replace(path, text)
}
