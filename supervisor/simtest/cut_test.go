package simtest

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/llama/fakellama"
)

// cutWorld is a world with saved conversations and two sessions. Each gets three answers, then works for an hour.
func cutWorld(t *testing.T, s *fakellama.Server) (*World, *talker, func(*Life)) {
	w, k, option := withSaves(t, s)
	w.Exec.Script = func(job agents.Job, n int) Script {
		k.say(job, 3)
		return Script{Takes: time.Hour, Do: w.Work(job, n).Do}
	}
	w.Forge.Issue("one")
	w.Forge.Issue("two")
	return w, k, option
}

// firsts returns the first requests of the sessions since its last call.
func (k *talker) firsts() []used {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := k.first
	k.first = nil
	return list
}

// asking makes each session wait for one more answer until it is cut. The request's prompt is larger than the
// conversation before.
func asking(w *World, k *talker) {
	const question = " a long question"
	var mu sync.Mutex
	open := make(map[string]chan bool) // by the start of the prompt
	k.Work = func(_ int, prompt string) {
		if !strings.HasSuffix(prompt, question) {
			return
		}
		name, _, _ := strings.Cut(prompt, " says ")
		mu.Lock()
		cut := open[name]
		mu.Unlock()
		<-cut
	}
	script := w.Exec.Script
	w.Exec.Script = func(job agents.Job, n int) Script {
		s := script(job, n)
		ctx, cancel := context.WithCancel(context.Background())
		name := " " + job.Agent + " " + variable(job, "DISINTO_WORKSPACE")
		cut := make(chan bool)
		mu.Lock()
		open[name] = cut
		mu.Unlock()
		k.mu.Lock()
		text := k.texts[name[1:]]
		k.mu.Unlock()
		text += strings.Repeat(question, len(text)/8)
		go func() {
			body := strings.NewReader(`{"prompt":"` + text + `"}`)
			r := httptest.NewRequestWithContext(ctx, "POST", "/completion", body)
			k.ServeHTTP(httptest.NewRecorder(), r)
		}()
		s.Cut = func() { cancel(); close(cut) }
		return s
	}
}

// The next supervisor continues the conversations of the sessions that a stop cuts, although the server is another
// process, too.
func TestSavedAtStop(t *testing.T) {
	tests := []struct {
		name string
		asks bool // each session has a request under way
	}{{"while a tool runs", false}, {"while the model answers", true}}
	for _, tt := range tests {
		if Skips(tt.name, "while a tool runs") {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, k, option := cutWorld(t, &fakellama.Server{})
				script := w.Exec.Script
				if tt.asks {
					asking(w, k)
				}
				l := w.Start(option)
				time.Sleep(10 * time.Minute)
				if took := l.Stop(); took > time.Second {
					t.Errorf("Stop took %s, want at most 1s", took)
				}
				if n := len(k.files()); n != 2 {
					t.Fatalf("got %d files, want 2\n%s", n, w.Log.String())
				}
				k.Restart()
				k.firsts()
				w.Exec.Script = script
				l = w.Start(option)
				defer l.Stop()
				time.Sleep(Size(2*time.Hour, 40*time.Minute))
				if first := k.firsts(); len(first) < 2 || !first[0].warm() || !first[1].warm() {
					t.Errorf("after the restart: got first requests %+v, want two warm ones\n%s", first, w.Log.String())
				}
				if p := l.Document().Problems; len(p) > 0 {
					t.Error(p)
				}
			})
		})
	}
}

// A slow server makes a stop at most 2 s longer, and no longer than the grace.
func TestSavesAtStopAreBounded(t *testing.T) {
	tests := []struct {
		name     string
		hangs    string
		stubborn bool
		max      time.Duration
	}{
		{"a look that hangs", "slots", false, 2200 * time.Millisecond},
		{"a save that hangs", "save", false, 1700 * time.Millisecond},
		{"a save that hangs, and sessions that ignore TERM", "save", true, 7600 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, k, option := cutWorld(t, &fakellama.Server{})
				script := w.Exec.Script
				w.Exec.Script = func(job agents.Job, n int) Script {
					s := script(job, n)
					s.Stubborn = tt.stubborn
					return s
				}
				l := w.Start(option)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				k.before = func(ctx context.Context, what string) error {
					if what == tt.hangs {
						<-ctx.Done()
						return ctx.Err()
					}
					return nil
				}
				if took := l.Stop(); took > tt.max {
					t.Errorf("Stop took %s, want at most %s", took, tt.max)
				}
				if left := w.Forge.Claimed(); len(left) > 0 {
					t.Errorf("claims left: %v", left)
				}
			})
		})
	}
}

// A restarted supervisor knows the size of a saved conversation: it restores nothing that a slot still holds.
func TestSavedSizeIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, option := cutWorld(t, &fakellama.Server{})
		l := w.Start(option)
		time.Sleep(10 * time.Minute)
		l.Stop()
		var restores atomic.Int32
		k.before = func(_ context.Context, what string) error {
			if what == "restore" {
				restores.Add(1)
			}
			return nil
		}
		k.firsts()
		defer w.Start(option).Stop()
		time.Sleep(time.Minute)
		first := k.firsts()
		if restores.Load() > 0 || len(first) != 2 || !first[0].warm() || !first[1].warm() {
			t.Errorf("got %d restores and first requests %+v, want none and two warm ones\n%s", restores.Load(), first,
				w.Log.String())
		}
	})
}

// Before a person's restart of the inference service, its sessions' conversations are saved. The sessions fail, and
// the next ones continue the saved conversations.
func TestSavedBeforeRestart(t *testing.T) {
	for _, asks := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, k, option := cutWorld(t, &fakellama.Server{})
			script := w.Exec.Script
			served, m := served(t)
			w.Config.Services = served.Config.Services
			w.Config.Thread("llama").BaseURL = served.Config.Thread("llama").BaseURL
			var down atomic.Bool
			down.Store(true)
			w.Exec.Script = func(job agents.Job, n int) Script {
				s := script(job, n)
				if down.Load() {
					s.Takes, s.Do = 10*time.Minute, nil
					s.Outcome = agents.Outcome{Result: agents.BackendDown, Reason: "connection refused"}
				}
				return s
			}
			if asks {
				asking(w, k)
			}
			l := w.Start(option, m.in)
			defer l.Stop()
			w.Until(time.Minute, "both sessions run", func() bool { return len(w.Exec.Runs()) == 2 })
			time.Sleep(5 * time.Minute)
			began := time.Now()
			order(l, "restart", "llama")
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("the restart started after %s, want at most 2s", took)
			}
			if n := len(k.files()); n != map[bool]int{false: 2}[asks] {
				t.Fatalf("got %d files, want 2, or none while a request is under way\n%s", n, w.Log.String())
			}
			if asks { // the save waits for a slot that computes, and this one still does
				return
			}
			k.Restart()
			k.firsts()
			down.Store(false)
			time.Sleep(time.Hour)
			if first := k.firsts(); len(first) < 2 || !first[0].warm() || !first[1].warm() {
				t.Errorf("after the restart: got first requests %+v, want two warm ones\n%s", first, w.Log.String())
			}
		})
	}
}
