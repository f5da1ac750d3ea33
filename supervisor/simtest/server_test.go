package simtest

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// inference is a server with answers that a test sets. It counts requests.
type inference struct {
	mu    sync.Mutex
	says  agents.Server
	err   error
	hangs bool
	asked map[string]int
	work  int // number of requests for its work
}

func (f *inference) Fetch(ctx context.Context, url string, work bool) (agents.Server, error) {
	f.mu.Lock()
	if work {
		f.work++
	}
	if f.asked == nil {
		f.asked = make(map[string]int)
	}
	f.asked[url]++
	says, err, hangs := f.says, f.err, f.hangs
	if !work {
		says.At, says.Work = nil, nil
	}
	if says.Work != nil {
		says.Work = new(*says.Work) // the test changes its own
	}
	f.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return agents.Server{}, ctx.Err()
	}
	return says, err
}

func (f *inference) set(change func(*inference)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// counts returns the number of requests to each server, and of requests for work.
func (f *inference) counts() (asked map[string]int, work int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.asked), f.work
}

const serverURL = "http://llama:8080/v1"

// withServer returns a world whose local thread has a server.
func withServer(t *testing.T) (*World, *inference, func(*Life)) {
	w := New(t)
	w.Config.Thread("llama").BaseURL = serverURL
	w.Config.Thread("anthropic").BaseURL = "http://proxy"
	f := &inference{says: agents.Server{Model: "qwen3", Slots: 2, Context: 40_960}}
	return w, f, func(l *Life) { l.Inference = f }
}

// The server of a local thread is probed every minute. Other threads' servers are not.
func TestServerIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f, option := withServer(t)
		w.Forge.Issue("one")
		work := agents.ServerWork{Read: 1000, ReadSeconds: 10, Written: 100, WrittenSeconds: 10}
		f.says.Work = &work
		f.says.At = []agents.ServerSlot{{ID: 0, Task: 4, Busy: true, Written: 100}, {ID: 1, Task: 2, Held: 9}}
		l := w.Start(option)
		time.Sleep(90 * time.Second)
		d := l.Document()
		if s := d.Threads[1].Server; s == nil || s.Model != "qwen3" || s.Slots != 2 || s.Now.Read != nil ||
			len(s.Problems) > 0 {
			t.Fatalf("got server %+v, want qwen3 with 2 slots and no problem", s)
		}
		if asked, _ := f.counts(); d.Threads[0].Server != nil || len(asked) != 1 || asked[serverURL] != 2 {
			t.Errorf("got requests %v, want 2 of the server of llama", asked)
		}
		for _, a := range d.Agents {
			if (a.Model == "qwen3") != (a.Thread == "llama") {
				t.Errorf("%s: got model %q, want qwen3 on llama only", a.Name, a.Model)
			}
		}
		f.set(func(f *inference) {
			work = agents.ServerWork{Read: 7000, ReadSeconds: 70, Written: 700, WrittenSeconds: 40, Deferred: 3}
			f.says.At = []agents.ServerSlot{{ID: 0, Task: 4, Busy: true, Written: 700}, {ID: 1, Task: 2, Held: 9}}
		})
		time.Sleep(time.Minute)
		s := l.Document().Threads[1].Server
		if *s.Now.Read != 100 || *s.Hour.Written != 20 || *s.Deferred != 3 || *s.At[0].Written != 10 ||
			s.At[1].Written != nil {
			t.Errorf("got server %+v, want its speeds, and 3 deferred requests", s)
		}
		f.set(func(f *inference) { f.err = errors.New("gone") })
		time.Sleep(5 * time.Minute)
		if s := l.Document().Threads[1].Server; s != nil {
			t.Errorf("after five minutes without an answer: got server %+v, want none", s)
		}
		l.Stop()
	})
}

// A server's problem is logged once while it lasts, and again when it returns.
func TestServerProblemIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f, option := withServer(t)
		f.says.Slots = 1
		l := w.Start(option)
		time.Sleep(10*time.Minute + 30*time.Second)
		const words = "llama: the server has 1 slot, and max_concurrent of llama wants 2"
		told := func() int { return strings.Count(w.Log.String(), words) }
		if s := l.Document().Threads[1].Server; told() != 1 || len(s.Problems) != 1 {
			t.Errorf("logged %d times, want once; got server %+v", told(), s)
		}
		f.set(func(f *inference) { f.says.Slots = 2 })
		time.Sleep(2 * time.Minute)
		if s := l.Document().Threads[1].Server; len(s.Problems) != 0 {
			t.Errorf("after the fix: got server %+v, want no problems", s)
		}
		f.set(func(f *inference) { f.says.Slots = 1 })
		time.Sleep(2 * time.Minute)
		if told() != 2 {
			t.Errorf("logged %d times, want 2", told())
		}
		l.Stop()
	})
}

// A server that hangs delays nothing, and one that lies breaks no document.
func TestServerHangsAndLies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f, option := withServer(t)
		f.hangs = true
		w.Forge.Issue("one")
		l := w.Start(option)
		w.Until(2*time.Hour, "merged", w.Forge.Done)
		f.set(func(f *inference) {
			f.hangs = false
			f.says = agents.Server{Model: "a\x1b[31m\n", Slots: -3, Context: -1, At: make([]agents.ServerSlot, 5000)}
			for i := range f.says.At {
				f.says.At[i] = agents.ServerSlot{ID: i, Busy: true, Held: -1, Written: 1 << 62}
			}
		})
		w.Forge.Issue("two")
		time.Sleep(4 * time.Minute)
		s := l.Document().Threads[1].Server
		if s == nil || s.Model != "a[31m" || s.Slots != 0 || len(s.At) != agents.MaxServerSlots {
			t.Errorf("got server %+v, want a cleaned name, no slots, and at most %d entries", s, agents.MaxServerSlots)
		}
		l.Stop()
	})
}

// Without a model in the configuration, the model's name is the server's.
func TestModelOfServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, option := withServer(t)
		w.Config.Agent("dev-coder").Model = "mine"
		l := w.Start(option)
		time.Sleep(time.Second)
		w.Forge.Issue("one")
		w.Forge.Issue("two")
		w.Until(2*time.Hour, "merged", w.Forge.Done)
		l.Stop()
		models := map[string]string{"dev-coder": "mine", "dev-qwen": "qwen3"}
		for _, run := range w.Exec.Runs() {
			job := run.Job
			if want := models[job.Agent]; agents.Getenv(job.Env, "DISINTO_MODEL") != want {
				t.Errorf("%s: got model %q, want %q", job.Agent, agents.Getenv(job.Env, "DISINTO_MODEL"), want)
			}
		}
	})
}

// A chain that continues after another session took its slot is reported: in the log, in its record, and in the
// status until a conversation is warm again. The cached share of each day is known for agents and threads.
func TestColdConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, option := withServer(t)
		w.Config.Thread("llama").Slots, w.Config.Thread("llama").MaxSessions = 1, 1
		w.Config.Thread("llama").Agents = []string{"dev-qwen"}
		w.Config.Agents = append(w.Config.Agents[:0:0], w.Config.Agents[1:]...)
		warm, reviews := false, 0
		w.Exec.Script = func(job agents.Job, n int) Script {
			s := w.Work(job, n)
			s.Outcome.Result = agents.Done
			if job.Agent == "dev-qwen" {
				s.Outcome.Usage = agents.Usage{InputTokens: 8000, CachedTokens: 2000}
			}
			switch {
			case job.Kind == agents.KindReview:
				s.Takes = time.Hour
				s.Do = func() {
					if reviews++; reviews < 3 {
						w.Forge.Review(job.Number, job.Agent, forge.ChangesRequested)
					} else {
						w.Forge.Review(job.Number, job.Agent, forge.Approved)
					}
				}
			case job.Kind == agents.KindRework:
				s.Outcome.Resumed = &agents.Resumption{Computed: 8000}
				if warm {
					s.Outcome.Resumed = &agents.Resumption{Cached: 7900, Computed: 100}
				}
			}
			return s
		}
		w.Forge.Issue("one")
		w.Forge.Issue("two")
		l := w.Start(option)
		told := func() int { return strings.Count(w.Log.String(), "computed its conversation again") }
		w.Until(12*time.Hour, "the first rework", func() bool { return told() > 0 })
		const words = "the server had 0 % of 8000 tokens: its slot was taken by dev-qwen #2, and no memory kept it: " +
			"--cache-ram"
		if !strings.Contains(w.Log.String(), words) {
			t.Errorf("the log lacks %q:\n%s", words, w.Log.String())
		}
		d := l.Document()
		if llama := d.Threads[1]; !strings.HasSuffix(llama.Cold, words) || llama.Spent.CacheHit == nil ||
			*llama.Spent.CacheHit != 0.2 {
			t.Errorf("got thread %+v, want a cold conversation, and a hit ratio of 0.2", llama)
		}
		if d.Threads[0].Cold != "" || d.Threads[0].Spent.CacheHit != nil {
			t.Errorf("got thread %+v, want no cache figures for programs that report none", d.Threads[0])
		}
		if *d.Agents[0].Spent.CacheHit != 0.2 || d.Agents[1].Spent.CacheHit != nil {
			t.Errorf("got agents %+v, want a hit ratio of 0.2 for dev-qwen only", d.Agents)
		}
		warm = true
		w.Until(24*time.Hour, "merged", w.Forge.Done)
		if cold := l.Document().Threads[1].Cold; cold != "" {
			t.Errorf("after a warm session: got cold %q, want none", cold)
		}
		l.Stop()
	})
}

// Without a session, a server gets no requests for slots and counters: it may unload its model after a time without
// requests.
func TestServerMaySleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, f, option := withServer(t)
		f.says.At = []agents.ServerSlot{{ID: 0, Task: 4}}
		l := w.Start(option)
		time.Sleep(time.Hour + 30*time.Second)
		if asked, work := f.counts(); asked[serverURL] != 61 || work != 0 {
			t.Errorf("got %d requests, %d for work, want 61 and none", asked[serverURL], work)
		}
		w.Forge.Issue("one") // a session of ten minutes, and a review on another thread
		w.Until(2*time.Hour, "merged", w.Forge.Done)
		time.Sleep(time.Hour)
		if _, work := f.counts(); work < 9 || work > 13 {
			t.Errorf("got %d requests for work, want 9 to 13", work)
		}
		if s := l.Document().Threads[1].Server; s == nil || len(s.At) != 0 {
			t.Errorf("got server %+v, want no slots", s)
		}
		l.Stop()
	})
}
