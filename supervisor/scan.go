package supervisor

import (
	"context"
	"errors"
	"sync"
	"time"

	"codeberg.org/johba/disinto/forge"
)

const (
	// scanTimeout bounds one scan. A cold scan of ten thousand issues takes half a minute.
	scanTimeout = 2 * time.Minute
	// prepareRest is the time between attempts to prepare a forge that answers and refuses.
	prepareRest = time.Minute
	// scanRestMin and scanRestMax bound the pause after a scan that read nothing; it doubles from one to the other.
	scanRestMin = time.Second
	scanRestMax = time.Minute
)

// scans are the scans of the forge, of which there is one at a time for all threads. The zero value has had none.
type scans struct {
	mu       sync.Mutex    // guards what follows
	flight   chan struct{} // closed when the scan under way is over; nil when there is none
	began    time.Time     // when the newest finished scan began
	failures int           // scans in a row that read nothing
	retryAt  time.Time     // no scan begins before

	prepared  bool
	prepareAt time.Time
}

// board returns the scan under way, or begins one whose caller is the pilot. It returns neither when the facts are new
// enough, or when the forge, which did not answer, is left alone for now.
func (s *scans) board(need time.Time) (flight <-chan struct{}, pilot bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.began.Before(need), s.flight == nil && time.Now().Before(s.retryAt):
		return nil, false
	case s.flight != nil:
		return s.flight, false
	}
	s.flight = make(chan struct{})
	return nil, true
}

// land ends the scan under way and lets every goroutine go that waits for it.
func (s *scans) land(began time.Time, readAny bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.flight)
	s.flight, s.began = nil, began
	if readAny {
		s.failures, s.retryAt = 0, time.Time{}
		return
	}
	s.retryAt = time.Now().Add(min(scanRestMin<<min(s.failures, 10), scanRestMax))
	s.failures++
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

// restart is for another client: it is prepared and scanned at once.
func (s *scans) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prepared, s.prepareAt, s.retryAt = false, time.Time{}, time.Time{}
}

// scan returns when a scan is over that began at need or later; it begins one where none is under way. While a forge
// that does not answer is left alone, it returns at once. What was read, and the error, are in the books.
func (s *Supervisor) scan(ctx context.Context, need time.Time) {
	client := s.forge.get()
	for client != nil {
		flight, pilot := s.scans.board(need)
		switch {
		case pilot:
			s.fly(ctx, client)
			return
		case flight == nil:
			return
		}
		select {
		case <-flight:
		case <-ctx.Done():
			return
		}
	}
}

// fly is the scan itself. What waits for it goes on even if the client panics.
func (s *Supervisor) fly(ctx context.Context, client Forge) {
	began := time.Now()
	facts, err := forge.Facts{}, errors.New("internal error: the scan panicked")
	defer func() {
		was, any := s.books.land(began, facts, err)
		s.scans.land(began, any)
		if ctx.Err() == nil {
			s.tell(scanNews(was, err))
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
}

// prepare has the labels made that we need, and the token's rights looked at. Only a forge that does not answer is an
// error: one that refuses something is shown, asked again later and scanned all the same, for other repositories may be
// fine.
func (s *Supervisor) prepare(ctx context.Context, client Forge) error {
	err := client.Prepare(ctx)
	if errors.Is(err, forge.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	s.scans.setPrepared(err == nil)
	if was := s.books.prepared(err); err != nil && text(err) != text(was) {
		s.log.Error("the forge is not ready: " + text(err))
	}
	return nil
}

// scanNews is what people are told after a scan. The text of an outage names the time of the next try and differs
// each time, so an outage is told by its kind.
func scanNews(was, err error) notice {
	switch {
	case err == nil && was != nil:
		return notice{words: "the forge answers again"}
	case err != nil && (was == nil || errors.Is(was, forge.ErrUnavailable) != errors.Is(err, forge.ErrUnavailable)):
		return notice{bad: true, words: "the forge could not be read, what runs goes on: " + text(err)}
	}
	return notice{}
}
