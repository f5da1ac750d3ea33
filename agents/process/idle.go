package process

import (
	"context"
	"fmt"
	"os"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// askTime is how long a backend may take to say how far it is. llama-server answers between two batches.
const askTime = 10 * time.Second

// idle finds out that a session does nothing: since a moment at least a stall ago its log has not changed and its whole
// tree has used less than 1 % of a core. One mark is enough for that; it moves up whenever something happens.
type idle struct {
	ticks  <-chan time.Time // nil if the job has no stall
	ticker *time.Ticker
	stall  time.Duration
	root   int
	log    string

	mark
}

// mark is when something happened last, and what was seen then. Another image of the program goes on from it.
type mark struct {
	Since   time.Time     `json:"since,omitzero"`
	CPU     time.Duration `json:"cpu,omitempty"`
	Size    int64         `json:"size,omitempty"`
	Written time.Time     `json:"written,omitzero"`
	Backend string        `json:"backend,omitempty"` // how far the backend was when it was asked last
}

func newIdle(job agents.Job, root int, m mark) *idle {
	i := &idle{stall: job.Stall, root: root, log: job.LogPath, mark: m}
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
	if i.Since.IsZero() || size != i.Size || !written.Equal(i.Written) || cpu-i.CPU >= i.stall/100 {
		i.Since, i.CPU, i.Size, i.Written = now, cpu, size, written
		return false
	}
	return now.Sub(i.Since) >= i.stall
}

// moved reports whether the backend computes and is further than when it was asked last, a stall ago. The next stall begins
// then. Whose request it computes nobody can tell, so that a session beside a busy one may wait for its timeout: that
// is better than to end one in the twentieth minute of reading its prompt.
func (i *idle) moved(mark string) bool {
	if mark == "" || mark == i.Backend {
		return false
	}
	i.Backend, i.Since = mark, time.Now()
	return true
}

// verdict tells what was not seen. asked is the backend that had nothing to say for the session.
func (i *idle) verdict(asked string) verdict {
	words := "no output"
	if i.Size == 0 {
		words = "no output from its start on"
	}
	words = fmt.Sprintf("ended: %s and under 1 %% of a core for %s", words, i.stall)
	if asked != "" {
		words += ", nor any progress of " + asked
	}
	return verdict{agents.Stalled, words}
}

// asks reports whether there is a backend that may work for the silent session.
func (s *session) asks() bool { return s.progress != nil && s.job.BackendURL != "" }

// ask asks it in the background: a session can be cancelled meanwhile.
func (s *session) ask(ctx context.Context) chan string {
	answer := make(chan string, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		answer <- s.progress(ctx, s.job.BackendURL)
	}()
	return answer
}
