package supervisor

import (
	"fmt"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// twinWhy is the reason of the pause that a twin causes.
const twinWhy = "a second supervisor works with a copy of the state directory"

// meetTwin pauses everything when the forge shows another supervisor with our identity. Two of them would start the
// same items, and each would take the other's claims for its own.
func (c *core) meetTwin(twin forge.Peer) {
	if !c.state.setTwin(twin) {
		return
	}
	c.state.record(ledger.Record{At: time.Now(), Pause: &ledger.Pause{By: "disinto", Why: twinWhy}})
	c.kicks.all(time.Time{})
	c.touchStatus()
}

// setTwin records our twin, and reports whether it is news.
func (st *state) setTwin(twin forge.Peer) (isNew bool) {
	st.lockToChange()
	defer st.mu.Unlock()
	isNew = st.twin.At.IsZero() && !twin.At.IsZero()
	if isNew {
		st.twin = twin
	}
	return isNew
}

func (st *state) hasTwin() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return !st.twin.At.IsZero()
}

// pausedForTwin reports whether everything is paused because of a twin, perhaps one that an earlier start has met.
func (st *state) pausedForTwin() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.ledger.Paused[threads.Pause{}].PausedWhy == twinWhy
}

// peerAlarms are about other supervisors: one with our identity, and one with our agents' accounts.
func (st *state) peerAlarms(stateDir string) (list []control.AlarmDocument) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if t := st.twin; !t.At.IsZero() {
		list = append(list, control.AlarmDocument{Code: control.Twin, About: stateDir, Since: t.At, Words: fmt.Sprintf(
			"a second supervisor works with a copy of %s (%s claimed something at %s), and nothing starts here: end one of "+
				"the two, then disinto adopt-state gives the other an identity of its own and lets it go on",
			stateDir, t.Who, t.At.UTC().Format(time.RFC3339))})
	}
	if o := st.facts.Sharer; !o.At.IsZero() {
		list = append(list, control.AlarmDocument{Code: control.SharedAccounts, About: "[agents]", Words: fmt.Sprintf(
			"another factory works with the same accounts (%s): budgets, windows and limits count on each host alone, so "+
				"together they may spend twice as much: give it accounts of its own, or divide the budgets", o.Who)})
	}
	return list
}
