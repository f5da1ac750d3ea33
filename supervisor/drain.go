package supervisor

import (
	"context"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// draining is the pause of new work.
var draining = threads.Pause{Drain: true}

// drain finishes what is begun, reviews and merges included, and starts no new work until resume, even across restarts.
// The command may be repeated, to change whether the supervisor ends then.
func (ps *pausing) drain(_ context.Context, r control.DrainRequest, report *control.Report) error {
	if r.ThenStop && ps.stop == nil {
		return control.Conflict("cannot drain and then stop: nothing can end this supervisor")
	}
	report.Subject = "everything"
	d := ps.state.drain()
	if d != nil && d.ThenStop == r.ThenStop {
		report.Note = d.Line()
		return nil
	}
	if !r.DryRun {
		said := &ledger.Pause{Pause: draining, By: r.By, Why: r.Why, Stop: r.ThenStop}
		if err := ps.state.append(ledger.Record{At: time.Now(), Pause: said}); err != nil {
			return err
		}
		ps.kicks.all(time.Time{})
		ps.touchStatus()
	}
	left, waits := ps.state.begun()
	d = &control.DrainDocument{Left: left, PauseNote: threads.PauseNote{ThenStop: r.ThenStop}}
	words := d.Line()
	if r.DryRun {
		words = "would drain: " + strings.TrimPrefix(words, "draining: ")
	} else {
		ps.log.Info(words)
	}
	report.Add("%s", words)
	if waits > 0 {
		report.Add("new work that waits: %s", control.Count(waits, "item"))
	}
	return nil
}

// endDrain ends the supervisor once a drain that asks for it is done. The drain lasts, but the next supervisor stays.
func (ps *pausing) endDrain() {
	d := ps.state.drain()
	if d == nil || !d.Done || !d.ThenStop || ps.stop == nil {
		return
	}
	said := &ledger.Pause{Pause: draining, By: d.PausedBy, Why: d.PausedWhy}
	if ps.state.append(ledger.Record{At: time.Now(), Pause: said}) == nil {
		ps.log.Info("drained: stopping; the next start drains, too, until disinto resume")
		ps.stop()
	}
}

// drain returns the drain in force; nil without one.
func (st *state) drain() *control.DrainDocument {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.drainLocked()
}

func (st *state) drainLocked() *control.DrainDocument {
	by, drains := st.ledger.Paused[draining]
	if !drains {
		return nil
	}
	d := &control.DrainDocument{PauseNote: by, Done: st.drained.Equal(by.PausedAt)}
	if !d.Done {
		d.Left, _ = st.begunLocked()
	}
	return d
}

// begun counts what a drain waits for, sessions and items, and the items of new work that wait.
func (st *state) begun() (left, waits int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.begunLocked()
}

func (st *state) begunLocked() (left, waits int) {
	left = len(st.sessions) + len(st.plan.Merges)
	for _, h := range st.plan.Holds {
		code := h.Reason.Code
		switch {
		case st.ledger.Unfinished(h):
			left++
		case st.ledger.IsNew(&h.Item) && code.Class() == threads.Busy:
			waits++
		}
	}
	return left, waits
}

// checkDrainLocked notes whether a drain is done by a plan that was just made, on facts that were read after it began.
func (st *state) checkDrainLocked() {
	by, drains := st.ledger.Paused[draining]
	left, _ := st.begunLocked()
	planned := len(st.plan.Starts) + len(st.plan.Marks) + len(st.chores)
	if !drains || left+planned > 0 || st.facts.More || st.read.err != nil || !st.read.good.After(by.PausedAt) {
		by.PausedAt = time.Time{}
	}
	st.drained = by.PausedAt
}

// checkWorkLocked notes since when there is work that needs no person, by a plan that was just made. Scheduled work
// does not count, because it merges nothing.
func (st *state) checkWorkLocked(now time.Time) {
	works := slices.ContainsFunc(st.plan.Holds, func(h *threads.Hold) bool {
		return h.Kind != agents.KindSchedule && h.GoesOn()
	})
	for _, x := range st.sessions {
		works = works || x.Item.Kind != agents.KindSchedule
	}
	switch {
	case !works:
		st.working = time.Time{}
	case st.working.IsZero():
		st.working = now
	}
}

// drainAlarms tells people that a drain is done.
func (st *state) drainAlarms() (list []control.AlarmDocument) {
	if d := st.drain(); d != nil && d.Done {
		list = append(list, control.AlarmDocument{
			Code: control.Drained, About: "drain", Since: d.PausedAt, Words: d.Line(),
		})
	}
	return list
}
