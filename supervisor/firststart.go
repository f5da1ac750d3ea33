package supervisor

import (
	"fmt"
	"time"

	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// pauseFirst pauses everything before the first tick if the operator asked for it. In a state directory without a
// journal the pause lasts until the first scan has shown how much work waits: a repository may carry the label backlog
// on a hundred issues that its owner has forgotten.
func (ps *pausing) pauseFirst(fresh bool) {
	ask := ps.ask && fresh
	if !ps.paused && !ask || ps.again || len(ps.state.paused()) > 0 {
		return
	}
	if ps.state.append(ledger.Record{At: time.Now(), Pause: &ledger.Pause{}}) == nil {
		ps.asking.Store(ask && !ps.paused)
	}
}

// askFirst decides on the pause of a first start once everything has been read. Without work it ends the pause;
// otherwise a person must resume.
func (ps *pausing) askFirst() {
	n, known := ps.state.waitForPause()
	if !known || !ps.asking.CompareAndSwap(true, false) {
		return
	}
	if n == 0 {
		ps.logNotices(notice{words: "first start: nothing waits, new issues start as they come"})
		_ = ps.state.append(ledger.Record{At: time.Now(), Pause: &ledger.Pause{Off: true}})
		ps.kicks.all(time.Time{})
		ps.touchStatus()
		return
	}
	wait := fmt.Sprintf("%d items wait", n)
	if n == 1 {
		wait = "1 item waits"
	}
	start := "first start: "
	if ps.problems.lostWords() != "" { // an alarm says so
		start = "a start without a journal: "
	}
	words := start + wait + ": disinto resume starts them (disinto run --yes does not ask)"
	ps.problems.setFirst(words)
	ps.logNotices(notice{words: words})
}

// waitForPause counts the items that only a pause of everything holds back. The count is unknown until every
// repository has been read.
func (st *state) waitForPause() (n int, known bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.cfg == nil || st.read.good.IsZero() || st.facts.More {
		return 0, false
	}
	for _, h := range st.plan.Holds {
		switch h.Reason.Code {
		case threads.NotRead, threads.BlockersUnknown, threads.StaleFacts:
			return 0, false
		case threads.Paused:
			n++
		}
	}
	return n, true
}
