// Package shadow asks another build of the program for its decisions, and remembers where they differ from those in
// force. Its answers have no effect.
//
// A tick hands its decision over without waiting: at most one waits, and the newest wins. One goroutine asks one
// question at a time, and after each answer rests for ten times the answer's time.
package shadow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/wire"
)

const (
	// stillRest is the least time between two decisions without an action: most ticks are like the one before.
	stillRest = 10 * time.Second
	// share is the rest after a question, as a multiple of the question's time.
	share = 10
	// failRest is the rest after a question without an answer; it doubles with each such question, up to longestRest.
	failRest, longestRest = 10 * time.Second, 10 * time.Minute
	// logged bounds how many differences of one answer are logged.
	logged = 10
	// maxSeen bounds the pairs of reasons that are counted and logged on one day.
	maxSeen = 2_000
)

// errHandOver ends a question because another image takes over.
var errHandOver = errors.New("another image takes over")

// Shadow asks another build. Set the exported fields before its methods are called, which any goroutine may do.
type Shadow struct {
	// Run makes a program answer a question, and returns its output.
	Run func(ctx context.Context, program string, question []byte) ([]byte, error)
	Log hclog.Logger
	// Changed is called after each question.
	Changed func()

	mu       sync.Mutex // guards the fields below
	wake     chan struct{}
	next     *threads.FrozenDecision // the waiting decision; nil: none
	handed   time.Time               // when the last one was handed over
	rest     time.Time               // the end of the rest
	handing  bool                    // another image takes over
	cancel   context.CancelCauseFunc // cancels the running question; nil without one
	path     string                  // the program that the fields below describe
	version  string
	answered time.Time
	fails    int    // questions in a row without an answer
	why      string // the newest failure
	total    control.Shadow
	days     []control.Shadow
	differs  []control.Differs // those seen last first
	keys     []string          // of differs
	seen     map[string]string // the last day of each pair of reasons
}

// Wants reports whether a decision should be handed over. The tick calls it, under the lock of its inputs.
func (s *Shadow) Wants(c *threads.Config, p *threads.Plan, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Factory.Shadow != s.path {
		s.forgetLocked(c.Factory.Shadow)
	}
	switch {
	case s.path == "" || s.handing || s.fails > 0 && now.Before(s.rest):
		return false
	case p.Acts():
		return true
	case s.next != nil && s.next.Plan.Acts():
		s.countLocked(now, func(c *control.Shadow) { c.Skipped++ })
		return false
	}
	return now.Sub(s.handed) >= stillRest || now.Before(s.handed)
}

// Hand hands a decision over. It replaces one that still waits.
func (s *Shadow) Hand(d *threads.FrozenDecision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		s.countLocked(d.Snapshot.Now, func(c *control.Shadow) { c.Skipped++ })
	}
	s.next, s.handed = d, d.Snapshot.Now
	select {
	case s.wokenLocked() <- struct{}{}:
	default:
	}
}

// KeepStill(true) ends the running question, and prevents others until KeepStill(false).
func (s *Shadow) KeepStill(still bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handing = still
	if still {
		s.next = nil
		if s.cancel != nil {
			s.cancel(errHandOver)
		}
	}
}

// forgetLocked starts again with another program.
func (s *Shadow) forgetLocked(path string) {
	s.path, s.version, s.why, s.fails = path, "", "", 0
	s.rest, s.handed, s.answered = time.Time{}, time.Time{}, time.Time{}
	s.next, s.total, s.days, s.differs, s.keys, s.seen = nil, control.Shadow{}, nil, nil, nil, nil
	if s.cancel != nil {
		s.cancel(errors.New("the configuration names another program"))
	}
}

func (s *Shadow) wokenLocked() chan struct{} {
	if s.wake == nil {
		s.wake = make(chan struct{}, 1)
	}
	return s.wake
}

func (s *Shadow) woken() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wokenLocked()
}

// Keep asks until ctx is done.
func (s *Shadow) Keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.woken():
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.resting(time.Now())):
		}
		if d, asking := s.take(ctx); d != nil {
			s.ask(asking, d)
			s.Changed()
		}
	}
}

// resting returns the time until the next question is allowed.
func (s *Shadow) resting(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		return 0
	}
	return s.rest.Sub(now)
}

// take returns the waiting decision and the context of its question; nil if none waits.
func (s *Shadow) take(ctx context.Context) (*threads.FrozenDecision, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.next
	if d == nil || s.handing {
		return nil, nil
	}
	s.next = nil
	ctx, s.cancel = context.WithCancelCause(ctx)
	return d, ctx
}

// ask makes the other build decide too, and records the differences.
func (s *Shadow) ask(ctx context.Context, d *threads.FrozenDecision) {
	began := time.Now()
	snap := d.Whole()
	text, err := wire.Ask(snap)
	if err == nil {
		text, err = s.Run(ctx, snap.Config.Factory.Shadow, text)
	}
	var version string
	var plan *threads.Plan
	if err == nil {
		version, plan, err = wire.ReadAnswer(text)
	}
	var list []wire.Difference
	if err == nil {
		list = wire.Differences(snap, &d.Plan, plan)
	}
	now := time.Now()
	for _, words := range s.note(ctx, version, list, err, began, now) {
		s.Log.Warn(words)
	}
}

// note records an answer, and returns the lines to log.
func (s *Shadow) note(
	ctx context.Context, version string, list []wire.Difference, err error, began, now time.Time,
) (lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	over := ctx.Err() != nil
	s.cancel(nil)
	s.cancel = nil
	if over {
		return nil
	}
	if err != nil {
		return s.failLocked(version, err, now)
	}
	if s.why != "" {
		lines = append(lines, "shadow "+version+" answers again")
	}
	s.fails, s.why, s.answered, s.rest = 0, "", now, now.Add(share*now.Sub(began))
	if version != s.version {
		s.version, s.differs, s.keys, s.seen = version, nil, nil, nil
	}
	s.countLocked(now, func(c *control.Shadow) {
		c.Decisions++
		if len(list) > 0 {
			c.Differing++
		}
	})
	fresh := 0
	for i := range list {
		if !s.differsLocked(&list[i], now) {
			continue
		}
		if fresh++; fresh <= logged {
			x := document(&list[i])
			lines = append(lines, x.Words(version))
		}
	}
	if fresh > logged {
		lines = append(lines, fmt.Sprintf("shadow %s: %d more differences, see disinto status --json", version, fresh-logged))
	}
	return lines
}

// failLocked records a question without an answer.
func (s *Shadow) failLocked(version string, err error, now time.Time) (lines []string) {
	s.countLocked(now, func(c *control.Shadow) { c.Failed++ })
	s.next = nil // it would be stale after the rest
	s.rest = now.Add(min(failRest<<min(s.fails, 10), longestRest))
	s.fails++
	why := wire.Words(err.Error())
	if version != "" {
		why = version + ": " + why
	}
	if why != s.why {
		lines = append(lines, fmt.Sprintf("cannot ask the shadow %s: %s", s.path, why))
	}
	s.why = why
	return lines
}

// differsLocked records a difference, and reports whether it is new.
func (s *Shadow) differsLocked(d *wire.Difference, now time.Time) (isNew bool) {
	today := day(now)
	if s.seen == nil {
		s.seen = make(map[string]string)
	}
	last, known := s.seen[d.Key]
	isNew = !known && len(s.seen) < maxSeen
	if isNew || known && last != today {
		s.countLocked(now, func(c *control.Shadow) { c.Differences++ })
		s.seen[d.Key] = today
	}
	x := document(d)
	x.First = now
	if i := slices.Index(s.keys, d.Key); i >= 0 {
		x.First, x.Times = s.differs[i].First, s.differs[i].Times
		s.keys, s.differs = slices.Delete(s.keys, i, i+1), slices.Delete(s.differs, i, i+1)
	}
	x.Last = now
	x.Times++
	s.keys, s.differs = slices.Insert(s.keys, 0, d.Key), slices.Insert(s.differs, 0, x)
	if n := len(s.keys); n > control.ShadowDiffers {
		s.keys, s.differs = s.keys[:n-1], s.differs[:n-1]
	}
	return isNew
}

func document(d *wire.Difference) control.Differs {
	return control.Differs{Repo: d.Ref.Repo, Number: d.Ref.Number, Role: d.Role, Here: d.Here, Shadow: d.There}
}

// countLocked counts in the total and in the day's counts.
func (s *Shadow) countLocked(now time.Time, add func(*control.Shadow)) {
	if len(s.days) == 0 || s.days[0].Day != day(now) {
		s.days = slices.Insert(s.days, 0, control.Shadow{Day: day(now)})
		s.days = s.days[:min(len(s.days), control.ShadowDays)]
		if len(s.seen) >= maxSeen {
			s.seen = nil
		}
	}
	add(&s.days[0])
	add(&s.total)
}

func day(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// Document returns the findings; nil without a shadow.
func (s *Shadow) Document(c *threads.Config) *control.ShadowDocument {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c == nil || c.Factory.Shadow == "" {
		return nil
	}
	d := &control.ShadowDocument{Path: c.Factory.Shadow, Days: []control.Shadow{}, Differs: []control.Differs{}}
	if s.path != d.Path {
		return d
	}
	d.Version, d.AskedAt, d.Error, d.Total = s.version, s.answered, s.why, s.total
	d.Days, d.Differs = append(d.Days, s.days...), append(d.Differs, s.differs...)
	return d
}
