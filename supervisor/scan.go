package supervisor

import (
	"context"
	"errors"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
)

const (
	// scanTimeout bounds one scan. A cold scan of ten thousand issues takes half a minute.
	scanTimeout = 2 * time.Minute
	// prepareRest is the time between attempts to prepare a forge that refuses.
	prepareRest = time.Minute
	// scanRestMin and scanRestMax bound the pause after a scan that read nothing. It doubles each time.
	scanRestMin = time.Second
	scanRestMax = time.Minute
)

// scans is the state of the one scan that serves all threads. The supervisor's mu guards it.
type scans struct {
	flight   chan struct{} // closed when the scan under way ends; nil when there is none
	began    time.Time     // when the newest finished scan began
	good     time.Time     // when the newest scan without an error began
	err      error         // of the newest finished scan
	failures int           // scans in a row that read nothing
	retryAt  time.Time     // no scan begins earlier

	prepared   bool
	prepareErr error
	prepareAt  time.Time
}

// scan returns when a scan that began at need or later has ended; it begins one if none is under way. During the
// pause after a failure it returns at once. The facts and the error are in the supervisor's state.
func (s *Supervisor) scan(ctx context.Context, need time.Time) {
	for {
		s.mu.Lock()
		flight := s.scans.flight
		switch {
		case !s.scans.began.Before(need), flight == nil && time.Now().Before(s.scans.retryAt), s.client == nil:
			s.mu.Unlock()
			return
		case flight != nil:
			s.mu.Unlock()
			select {
			case <-flight:
			case <-ctx.Done():
				return
			}
		default:
			s.scans.flight = make(chan struct{})
			s.mu.Unlock()
			s.fly(ctx)
			return
		}
	}
}

// fly makes one scan. It wakes the goroutines that wait for it even if the client panics.
func (s *Supervisor) fly(ctx context.Context) {
	began := time.Now()
	facts, err := forge.Facts{}, errors.New("internal error: the scan panicked")
	defer func() {
		if news := s.land(began, facts, err); ctx.Err() == nil {
			s.tell(news)
		}
	}()
	limited, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	facts, err = s.read(limited)
}

// read prepares the forge if that is still to be done, and scans it.
func (s *Supervisor) read(ctx context.Context) (forge.Facts, error) {
	s.mu.Lock()
	client, due := s.client, !s.scans.prepared && !time.Now().Before(s.scans.prepareAt)
	s.mu.Unlock()
	if due {
		if err := s.prepareForge(ctx, client); err != nil {
			return forge.Facts{}, err
		}
	}
	return client.Scan(ctx)
}

// prepareForge creates the labels that we need and checks the rights of the token. Only a forge that does not answer
// is an error. A refusal is shown and retried later, and the scan goes on, since other repositories may be fine.
func (s *Supervisor) prepareForge(ctx context.Context, client Forge) error {
	err := client.Prepare(ctx)
	if errors.Is(err, forge.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	s.mu.Lock()
	was := text(s.scans.prepareErr)
	s.scans.prepared, s.scans.prepareErr, s.scans.prepareAt = err == nil, err, time.Now().Add(prepareRest)
	s.mu.Unlock()
	if err != nil && text(err) != was {
		s.log.Error("the forge is not ready: " + text(err))
	}
	return nil
}

// land stores the result of a scan and wakes the goroutines that wait for it.
func (s *Supervisor) land(began time.Time, facts forge.Facts, err error) (news notice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.scans.flight)
	was := s.scans.err
	s.scans.flight, s.scans.began, s.scans.err = nil, began, err
	if err == nil {
		s.facts, s.scans.failures, s.scans.retryAt, s.scans.good = facts, 0, time.Time{}, began
		if was != nil {
			news = notice{words: "the forge answers again"}
		}
		return news
	}
	if len(facts.Repos) == 0 {
		facts = s.facts
	}
	var read bool
	if s.facts, read = onlyRead(facts, began); read {
		s.scans.failures, s.scans.retryAt = 0, time.Time{}
	} else {
		s.scans.retryAt = time.Now().Add(min(scanRestMin<<min(s.scans.failures, 10), scanRestMax))
		s.scans.failures++
	}
	// An outage is compared by its kind: its text names the time of the next try and differs each time.
	if was == nil || errors.Is(was, forge.ErrUnavailable) != errors.Is(err, forge.ErrUnavailable) {
		news = notice{bad: true, words: "the forge could not be read, what runs goes on: " + text(err)}
	}
	return news
}

// onlyRead clears AsOf of every repository that the scan did not read, so that nothing is started, stopped or written
// there on old facts. any reports whether one was read.
func onlyRead(facts forge.Facts, began time.Time) (masked forge.Facts, any bool) {
	facts.Repos = slices.Clone(facts.Repos)
	for i := range facts.Repos {
		if facts.Repos[i].AsOf.Before(began) {
			facts.Repos[i].AsOf = time.Time{}
		} else {
			any = true
		}
	}
	return facts, any
}
