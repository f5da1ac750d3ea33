package supervisor

import (
	"context"
	"fmt"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// pauseFirst pauses everything before the first tick: where the operator said so, and in a state directory without a
// journal, until the first scan has shown how much work waits. A repository may carry the label backlog on a hundred
// issues of which its owner knows nothing any more.
func (s *Supervisor) pauseFirst(fresh bool) {
	ask := s.Ask && fresh
	if !s.Paused && !ask || s.Inherited != nil || len(s.books.paused()) > 0 {
		return
	}
	if s.books.append(ledger.Record{At: time.Now(), Pause: &ledger.Pause{}}) == nil {
		s.asking.Store(ask && !s.Paused)
	}
}

// askFirst decides on the pause of a first start once everything has been read: without work it is over, otherwise a
// person says resume.
func (s *Supervisor) askFirst() {
	n, known := s.books.waitForPause()
	if !known || !s.asking.CompareAndSwap(true, false) {
		return
	}
	if n == 0 {
		s.tell(notice{words: "first start: nothing waits, new issues are begun as they come"})
		_ = s.unpause(context.Background(), control.PauseRequest{}, new(control.Report))
		return
	}
	wait := fmt.Sprintf("%d items wait", n)
	if n == 1 {
		wait = "1 item waits"
	}
	words := "first start: " + wait + ": disinto resume begins them (run --yes does not ask)"
	s.problems.setFirst(words)
	s.tell(notice{words: words})
}

// waitForPause counts the items that only a pause of everything keeps from being begun. It is not known before every
// repository has been read.
func (b *books) waitForPause() (n int, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cfg == nil || b.read.good.IsZero() || b.facts.More {
		return 0, false
	}
	for _, h := range b.plan.Holds {
		switch h.Reason.Code {
		case threads.NotRead, threads.BlockersUnknown, threads.StaleFacts:
			return 0, false
		case threads.Paused:
			n++
		}
	}
	return n, true
}
