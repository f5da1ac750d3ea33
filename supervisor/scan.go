package supervisor

import (
	"context"
	"errors"
	"sync"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads/ledger"
)

const (
	// scanTimeout bounds one scan. A cold scan of ten thousand issues takes half a minute.
	scanTimeout = 2 * time.Minute
	// prepareRest is the time between attempts to prepare a forge that refuses.
	prepareRest = time.Minute
	// scanRestMin and scanRestMax bound the back-off after a scan that read nothing. It doubles each time.
	scanRestMin = time.Second
	scanRestMax = time.Minute
)

// scans is the state of the one scan that serves all threads. The zero value has had no scan.
type scans struct {
	mu       sync.Mutex    // guards the fields below
	current  chan struct{} // closed when the scan under way ends; nil when there is none
	began    time.Time     // when the newest finished scan began
	failures int           // scans in a row that read nothing
	retryAt  time.Time     // no scan starts earlier

	prepared  bool
	prepareAt time.Time
}

// join returns the channel of the scan under way, or first if the caller has to make a new scan. It returns neither if
// the facts are new enough, or during the back-off.
func (s *scans) join(need time.Time) (current <-chan struct{}, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.began.Before(need), s.current == nil && time.Now().Before(s.retryAt):
		return nil, false
	case s.current != nil:
		return s.current, false
	}
	s.current = make(chan struct{})
	return nil, true
}

// finish ends the scan under way and wakes the goroutines that wait for it.
func (s *scans) finish(began time.Time, readAny bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.current)
	s.current, s.began = nil, began
	if readAny {
		s.failures, s.retryAt = 0, time.Time{}
		return
	}
	s.retryAt = time.Now().Add(min(scanRestMin<<min(s.failures, 10), scanRestMax))
	s.failures++
}

// abandon wakes the goroutines that wait for the scan under way; the first of them starts another.
func (s *scans) abandon() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.current)
	s.current = nil
}

func (s *scans) mustPrepare() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.prepared && !time.Now().Before(s.prepareAt)
}

func (s *scans) setPrepared(prepared bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prepared, s.prepareAt = prepared, time.Now().Add(prepareRest)
}

// restart makes the next scan prepare a new client at once.
func (s *scans) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prepared, s.prepareAt, s.retryAt = false, time.Time{}, time.Time{}
}

// scanner reads the forge: one scan at a time serves all threads, and web hooks and commands ask for one at once.
type scanner struct {
	*core
	scans   scans
	hints   hints
	scanned chan struct{} // a scan has ended, and may have found commands in comments
}

// scan returns when a scan that began at need or later has ended; it starts one if none is under way. During the
// back-off it returns at once. The state have the facts and the error.
func (s *scanner) scan(ctx context.Context, need time.Time) {
	client := s.forge.get()
	for client != nil {
		current, first := s.scans.join(need)
		switch {
		case first:
			s.scanOnce(ctx, client)
			return
		case current == nil:
			return
		}
		select {
		case <-current:
		case <-ctx.Done():
			return
		}
	}
}

// scanOnce makes one scan. It wakes the goroutines that wait for the scan even if the client panics.
func (s *scanner) scanOnce(ctx context.Context, client Forge) {
	began := time.Now()
	facts, err := forge.Facts{}, errors.New("internal error: the scan panicked")
	defer func() {
		s.answered(err)
		if err != nil && ctx.Err() != nil { // the supervisor cut the scan short, so the error says nothing about the forge
			s.scans.abandon()
			return
		}
		was, any := s.state.setFacts(began, facts, err)
		s.noteRejected(ctx, client, err)
		s.meetTwin(facts.Twin)
		s.state.listen(time.Now())
		s.scans.finish(began, any)
		s.logNotices(scanNews(was, err))
		select {
		case s.scanned <- struct{}{}:
		default:
		}
	}()
	limited, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	if s.scans.mustPrepare() {
		if err = s.prepare(limited, client); err != nil {
			return
		}
	}
	facts, err = client.Scan(limited)
	if errors.Is(err, forge.ErrNotFound) || errors.Is(err, forge.ErrForbidden) {
		s.scans.setPrepared(false) // a repository made anew has no labels, and may not have our account
	}
}

// noteRejected finds out whether the forge refused a scan because it rejects the supervisor's own token. That is no
// outage: only a person ends it.
func (s *scanner) noteRejected(ctx context.Context, client Forge, err error) {
	if !errors.Is(err, forge.ErrForbidden) || ctx.Err() != nil {
		return
	}
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := client.WhoAmI(limited, ""); errors.Is(err, forge.ErrForbidden) {
		s.state.setRejected()
		s.touchStatus()
	}
}

// prepare creates the labels that the supervisor needs and checks the token's rights. It returns an error only if the
// forge does not answer. A refusal is shown and retried later, and the scan continues, because other repositories may
// work.
func (s *scanner) prepare(ctx context.Context, client Forge) error {
	err := client.Prepare(ctx)
	if errors.Is(err, forge.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	s.scans.setPrepared(err == nil)
	if was := s.state.prepared(err); err != nil && text(err) != text(was) {
		s.log.Warn("the forge is not ready: " + text(err))
	}
	return nil
}

// scanNews returns the log line after a scan if its result is news. Outages are compared by their kind, because the
// text names the time of the next try and differs each time.
func scanNews(was, err error) notice {
	switch {
	case err == nil && was != nil:
		return notice{words: "the forge answers again"}
	case err != nil && (was == nil || errors.Is(was, forge.ErrUnavailable) != errors.Is(err, forge.ErrUnavailable)):
		return notice{warn: true, words: "cannot read the forge, running sessions continue: " + text(err)}
	}
	return notice{}
}

// listen journals, for each repository that a scan has read for the first time, since when comments may be commands.
func (st *state) listen(now time.Time) {
	st.mu.Lock()
	var list []ledger.Record
	for _, r := range st.facts.Repos {
		if _, known := st.ledger.Listens[r.Name]; !known && !r.CommentsAsOf.IsZero() {
			listen := &ledger.Listen{Ref: ledger.Ref{Repo: r.Name}, Since: r.CommentsAsOf}
			list = append(list, ledger.Record{At: now, Listen: listen})
		}
	}
	st.mu.Unlock()
	for _, r := range list {
		st.record(r)
	}
}
