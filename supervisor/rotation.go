package supervisor

import (
	"slices"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// reload puts a configuration in force and calls change under the same lock, so that no decision sees only one of the
// two. Besides, it ends holds: see tryAgainLocked and rotatedLocked. It reports whether there was one, because the
// journal does not show that.
func (st *state) reload(cfg *threads.Config, change func()) (ended bool) {
	st.lockToChange()
	defer st.mu.Unlock()
	change()
	was := st.cfg
	st.cfg, st.cfgErr = cfg, nil
	st.generation++
	ended = st.tryAgainLocked(time.Now())
	return was != nil && st.rotatedLocked(was) || ended
}

// tryAgain is tryAgainLocked for a start.
func (st *state) tryAgain(now time.Time) {
	st.lockToChange()
	defer st.mu.Unlock()
	st.tryAgainLocked(now)
}

// tryAgainLocked ends the holds whose cause a person may have mended: those that last until a reload, those without an
// answer of a model, and the rests of what fails. An agent whose token was rejected stays in doubt, and the next tick
// asks the forge: otherwise each reload would end its alarm, and begin another. It reports whether there was one that
// the journal has.
func (st *state) tryAgainLocked(now time.Time) (ended bool) {
	for _, a := range st.ledger.Agents {
		switch {
		case a.Rejected():
			a.HeldUntil = now
		case a.HeldUntil.IsZero() || a.HeldAs == threads.NoAnswer:
			ended = ended || a.HeldUntil.After(now)
			a.Hold(time.Time{}, "")
		}
	}
	for _, t := range st.ledger.Threads {
		if t.Unanswered != "" && t.ParkedAs == threads.ThreadDown {
			ended = true
			t.ParkedUntil, t.ParkedWhy, t.ParkedAs, t.Unanswered = time.Time{}, "", "", ""
		}
	}
	for _, it := range st.ledger.Items {
		if it.Downs > 0 { // it rests because the model did not answer
			ended = ended || it.CoolDown.After(now)
			it.CoolDown = time.Time{}
		}
	}
	for _, s := range st.ledger.Failing {
		ended = ended || s.Until.After(now)
		s.Until = time.Time{}
	}
	return ended
}

// rotatedLocked ends what an old key or token caused: a usage limit of an account that the thread does not use any
// more, and a right that the old token lacked. It reports whether there was one.
func (st *state) rotatedLocked(was *threads.Config) (ended bool) {
	for i := range st.cfg.Threads {
		t := &st.cfg.Threads[i]
		old := was.Thread(t.Name)
		if old == nil || slices.Equal(old.Vars, t.Vars) && slices.Equal(was.Newer, st.cfg.Newer) {
			continue
		}
		if h := st.ledger.Threads[t.Name]; h != nil && !h.ParkedUntil.IsZero() {
			ended = true
			h.ParkedUntil, h.ParkedWhy, h.ParkedAs = time.Time{}, "", ""
		}
	}
	for i := range st.cfg.Agents {
		a := &st.cfg.Agents[i]
		if old := was.Agent(a.Name); old == nil || old.Token == a.Token {
			continue
		}
		for _, r := range st.ledger.Repos {
			if _, barred := r.Barred[a.Name]; barred {
				ended = true
				delete(r.Barred, a.Name)
			}
		}
	}
	return ended
}
