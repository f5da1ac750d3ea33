package process

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// Before the executor ends a silent session on a local backend, it asks the backend. The session continues while the
// backend advances, but not when the backend stands still, computes nothing or does not report.
func TestStallAsksBackend(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		url   string
		marks func(n int64) string
		want  agents.Result
		why   string
	}{
		{"advances", "http://llama", func(n int64) string { return fmt.Sprint(n) }, agents.TimedOut, "timeout"},
		{
			"stands still", "http://llama", func(int64) string { return "7" }, agents.Stalled,
			"nor any progress of http://llama",
		},
		{
			"computes nothing", "http://llama", func(int64) string { return "" }, agents.Stalled,
			"nor any progress of http://llama",
		},
		{
			"an API, which is not asked", "", func(n int64) string { return fmt.Sprint(n) }, agents.Stalled,
			"no output from its start on",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			e := &Executor{Reaper: reaper, Progress: func(_ context.Context, url string) string {
				if url != tt.url {
					t.Errorf("asked %s, want the job's backend", url)
				}
				return tt.marks(asked.Add(1))
			}}
			job := newJob(t, "sleep 1000")
			job.Stall, job.Timeout, job.BackendURL = 400*time.Millisecond, time.Minute, tt.url
			if tt.want == agents.TimedOut {
				job.Timeout = 2 * time.Second
			}
			o := e.Run(t.Context(), job, nil)
			if o.Result != tt.want || !strings.Contains(o.Reason, tt.why) {
				t.Errorf("outcome %+v, want %s because of %q", o, tt.want, tt.why)
			}
			if (asked.Load() > 0) != (tt.url != "") {
				t.Errorf("asked %d times, want questions only for a job with a backend", asked.Load())
			}
			noneAlive(t, job.RunID)
		})
	}
}

// A session can be cancelled while its backend does not answer.
func TestCancelWhileBackendIsAsked(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 100) // on a slow machine the backend is asked again before the cancel arrives
	e := &Executor{Reaper: reaper, Progress: func(ctx context.Context, _ string) string {
		asked <- struct{}{}
		<-ctx.Done()
		return ""
	}}
	job := newJob(t, "sleep 1000")
	job.Stall, job.BackendURL = 200*time.Millisecond, "http://llama"
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if o := e.Run(ctx, job, nil); o.Result != agents.Cancelled {
		t.Errorf("outcome %+v, want cancelled", o)
	}
	noneAlive(t, job.RunID)
}

// A program that has written its result and then hangs is Stalled; its usage and session id are kept.
func TestFinishedAndHangs(t *testing.T) {
	t.Parallel()
	job := newJob(t, `echo all done; echo '{"outcome":"done","session_id":"s9","usage":{"output_tokens":5}}' >$DISINTO_RESULT
		(setsid sleep 1000 &); sleep 1000`)
	job.Stall = 300 * time.Millisecond
	o := runJob(t, job)
	noneAlive(t, job.RunID)
	if o.Result != agents.Stalled || o.Claimed || o.SessionID != "s9" || o.Usage.OutputTokens != 5 ||
		!strings.HasPrefix(o.Reason, "ended: no output and under") {
		t.Errorf("outcome %+v", o)
	}
}
