package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// verdict is why we ended a session. The zero value means that we did not.
type verdict struct {
	result agents.Result
	reason string
}

// watch waits until the session's shim has ended, and asks it to end the tree when a reason for that comes up. The
// answer is that reason, the first one if there are several.
func (s *session) watch(ctx context.Context, hurry <-chan struct{}) (v verdict) {
	s.listen()
	timeout := after(s.job.Timeout)
	idle := newIdle(s.job, s.shim.PID)
	defer idle.stop()
	cancel, late := ctx.Done(), (<-chan struct{})(nil)
	for {
		var why verdict
		select {
		case s.shimExit = <-s.shim.Exit():
			return v
		case <-late:
			late = nil
			s.end(0)
		case <-cancel:
			cancel = nil
			why = cancelled(ctx)
		case <-timeout:
			why = verdict{agents.TimedOut, fmt.Sprintf("ended after its timeout of %s", s.job.Timeout)}
		case <-idle.ticks:
			if idle.over() {
				why = verdict{agents.Stalled, fmt.Sprintf("ended: no output and under 1 %% of a core for %s", s.job.Stall)}
			}
		}
		if v.result == "" && why.result != "" {
			v, late = why, hurry
			s.end(s.job.Grace)
		}
	}
}

// cancelled is the verdict when the context has ended.
func cancelled(ctx context.Context) verdict {
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return verdict{agents.Cancelled, "ended: " + cause.Error()}
	}
	return verdict{agents.Cancelled, "ended on request"}
}

// after is time.After without an end for 0.
func after(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return time.After(d)
}

// idle finds out that a session does nothing: since a moment at least a stall ago its log has not changed and its whole
// tree has used less than 1 % of a core. One mark is enough for that; it moves up whenever something happens.
type idle struct {
	ticks  <-chan time.Time // nil if the job has no stall
	ticker *time.Ticker
	stall  time.Duration
	root   int
	log    string

	since   time.Time // the mark
	cpu     time.Duration
	size    int64
	written time.Time
}

func newIdle(job agents.Job, root int) *idle {
	i := &idle{stall: job.Stall, root: root, log: job.LogPath}
	if job.Stall > 0 {
		// Eight looks in a stall find its end closely enough; a look is a walk over /proc.
		i.ticker = time.NewTicker(min(max(job.Stall/8, 10*time.Millisecond), time.Minute))
		i.ticks = i.ticker.C
		i.over()
	}
	return i
}

func (i *idle) stop() {
	if i.ticker != nil {
		i.ticker.Stop()
	}
}

// over looks again, and reports whether the session has been idle for the whole stall.
func (i *idle) over() bool {
	now, cpu := time.Now(), tree.CPU(i.root)
	var size int64
	var written time.Time
	if info, err := os.Stat(i.log); err == nil {
		size, written = info.Size(), info.ModTime()
	}
	if i.since.IsZero() || size != i.size || !written.Equal(i.written) || cpu-i.cpu >= i.stall/100 {
		i.since, i.cpu, i.size, i.written = now, cpu, size, written
		return false
	}
	return now.Sub(i.since) >= i.stall
}
