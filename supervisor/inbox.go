package supervisor

import (
	"fmt"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads/ledger"
)

// People tell a running session something. The journal has the message before the session's inbox does, so no crash
// loses one: whoever starts or continues the session writes the inbox again.

// teller is an executor whose sessions have an inbox that the supervisor can write.
type teller interface {
	// Tell makes the messages, oldest first, the inbox of a run whose program has started.
	Tell(runID string, list []agents.Message) error
}

// deliver writes a session's inbox. A program that reads its inbox itself has heard what is in it.
func (rn *sessionRunner) deliver(x *session) {
	list := rn.state.toldTo(x.RunID)
	to, can := rn.executor(x.thread.Executor).(teller)
	if len(list) == 0 || !can {
		return
	}
	if err := to.Tell(x.RunID, list); err != nil {
		rn.of(x.RunID).Info(fmt.Sprintf("%s cannot be told now, the next session is: %s", x.tag, text(err)))
		return
	}
	if x.role.CLI == "" {
		rn.hears(x, len(list))
	}
}

// hears notes that a session has heard its first n messages. The executor waits for it, so it does not journal that:
// see spent.
func (rn *sessionRunner) hears(x *session, n int) {
	if rn.state.hears(x, n, time.Now()) {
		rn.tellOn()
	}
}

// recordHeard journals what sessions have heard.
func (rn *sessionRunner) recordHeard() {
	list := rn.state.newlyHeard()
	for i := range list {
		t := &list[i]
		rn.state.record(ledger.Record{At: time.Now(), Tell: t})
		rn.log.Info(fmt.Sprintf("[%s] %s", wordsOf(rn.state.config(), forge.Ref(t.Ref), ""), t.Words()))
	}
	if len(list) > 0 {
		rn.touchStatus()
	}
}

// tellOn lets the authors of messages know how far these have come.
func (rn *sessionRunner) tellOn() {
	select {
	case rn.heard <- struct{}{}:
	default:
	}
}

// toldTo returns the messages to a session, oldest first.
func (st *state) toldTo(run string) []agents.Message {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.toldToLocked(run)
}

func (st *state) toldToLocked(run string) (list []agents.Message) {
	for _, t := range st.ledger.ToldTo(run) {
		list = append(list, t.Message())
	}
	return list
}

// hears notes when a session heard its first n messages, and reports whether some of them are new.
func (st *state) hears(x *session, n int, now time.Time) (more bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for len(x.heard) < n {
		x.heard, more = append(x.heard, now), true
	}
	return more
}

// newlyHeard returns the messages that sessions have heard and the journal does not have as heard.
func (st *state) newlyHeard() (list []ledger.Tell) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, x := range st.sessions {
		for i, t := range st.ledger.ToldTo(x.RunID) {
			if i < len(x.heard) && t.Heard.IsZero() {
				t.Heard = x.heard[i]
				list = append(list, t.Tell)
			}
		}
	}
	return list
}
