package simtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// The whole loop: two issues, the second blocked by the first. The first pull request gets changes requested once.
func TestIssueToMerge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Issue("two", w.Forge.Issue("one"))
		w.Exec.Script = func(job agents.Job, n int) Script {
			s := w.Work(job, n)
			if job.Kind == agents.KindReview && job.Number == 3 && n == 1 {
				s.Do = func() { w.Forge.Review(job.Number, job.Agent, forge.ChangesRequested) }
			}
			return s
		}
		var asked atomic.Int64
		w.Forge.Fail(func(_ context.Context, call string) error {
			if call == "whoami" {
				asked.Add(1)
			}
			return nil
		})
		began := time.Now()
		l := w.Start()
		w.Until(2*time.Hour, "both issues are closed", w.Forge.Done)
		took := time.Since(began)
		time.Sleep(time.Minute)
		d := l.Document()
		l.Stop()
		w.Check()

		want := []string{
			"issue #1 dev-coder done", "review #3 review-opus done", "rework #3 dev-coder done", "review #3 review-sonnet done",
			"issue #2 dev-coder done", "review #4 review-opus done",
		}
		var got []string
		for _, r := range w.Exec.Runs() {
			got = append(got, fmt.Sprintf("%s %s %s %s", r.Job.Kind, Ref(r.Job.Number).Short(), r.Job.Agent, r.Outcome.Result))
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("got sessions:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		// Sessions take 43 minutes. Between them are only calls to the forge, of 40 ms each: no step waits for a timer.
		if limit := 43*time.Minute + 4*time.Second; took > limit {
			t.Errorf("took %s, want at most %s", took, limit)
		}
		if left := w.Forge.Claimed(); len(left) > 0 {
			t.Errorf("claims left: %v", left)
		}
		if n := asked.Load(); n != 3 {
			t.Errorf("got %d calls of whoami, want 3, one for each agent", n)
		}
		if len(d.Recent) != 6 || len(d.Sessions) != 0 || len(d.Queue) != 0 || len(d.Problems) != 0 || !d.Forge.OK {
			t.Errorf("status afterwards: got %d recent, %d sessions, queue %v, problems %v, forge %+v",
				len(d.Recent), len(d.Sessions), d.Queue, d.Problems, d.Forge)
		}
		if w := d.Threads[1].Slots[0].Warm; w != "dev-coder" {
			t.Errorf("slot 0 of llama: got warm %q, want dev-coder", w)
		}
		for _, line := range []string{
			"[dev-coder #1] running implementation", "[dev-coder #1] implementation done: opened #3",
			"[review-opus #3] review done: changes requested", "[dev-coder #3] rework done: pushed", "[#3] merged",
		} {
			if !strings.Contains(w.Log.String(), line) {
				t.Errorf("the log lacks %q:\n%s", line, w.Log.String())
			}
		}
	})
}

// A first scan that stops early is continued at once, not at the next interval.
func TestColdScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Slow()
		w.Forge.Issue("one")
		w.Forge.Cold(20)
		l := w.Start()
		w.Until(5*time.Second, "a session", func() bool { return len(w.Exec.Runs()) == 1 })
		if n := w.Forge.Requests(); n > 20+10 {
			t.Errorf("got %d requests for 21 scans and a start, want at most 30", n)
		}
		l.Stop()
		w.Check()
	})
}

// Two threads share their scans.
func TestThreadsShareScans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Usual()
		w.Forge.Edit(w.Forge.Issue("held"), func(is *forge.Issue) { is.Assignees = []string{"johba"} })
		l := w.Start()
		time.Sleep(time.Minute)
		before := w.Forge.Requests()
		time.Sleep(10 * time.Minute)
		n := w.Forge.Requests() - before
		l.Stop()
		// Each thread scans every 30 s. A scan of one thread serves the other for half of that time.
		if n < 18 || n > 22 {
			t.Errorf("got %d scans in 10 idle minutes, want about 20", n)
		}
	})
}

// No secret appears in the log, the journal, the status or a comment.
func TestNoTokenAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Issue("one")
		w.Exec.Script = func(agents.Job, int) Script {
			return Script{Takes: time.Minute, Outcome: agents.Outcome{
				Result: agents.Failed, Claimed: true, Reason: "cannot push with token-of-dev-coder",
				Tail: "password token-of-disinto\n",
			}}
		}
		l := w.Start()
		time.Sleep(time.Hour)
		l.Stop()
		w.Check()
		texts := map[string]string{"log": w.Log.String()}
		for _, c := range w.Forge.Comments() {
			texts["comment"] += c.Body
		}
		for _, name := range []string{"journal.jsonl", "status.json"} {
			text, err := os.ReadFile(filepath.Join(w.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			texts[name] = string(text)
		}
		for name, text := range texts {
			if strings.Contains(text, "token-of-") {
				t.Errorf("%s has a token:\n%s", name, text)
			}
			if !strings.Contains(text, "cannot push with [secret]") {
				t.Errorf("%s lacks the reason:\n%s", name, text)
			}
		}
	})
}
