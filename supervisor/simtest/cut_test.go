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

// cutWorld is a world with saves in which two sessions are at work for an hour after the first three answers of each.
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

// firsts returns the first requests of sessions since it was called last.
func (k *talker) firsts() []used {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := k.first
	k.first = nil
	return list
}

// asking has each session of a world wait for one more answer, until it is told to end. Its prompt is larger than the
// conversation before.
func asking(w *World, k *talker) {
	const question = " a long question"
	var mu sync.Mutex
	open := make(map[string]chan bool) // by the beginning of the prompt
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

// The conversations of sessions that the end of the supervisor cuts are gone on with by the next one, whose server is
// another process too.
func TestSavedAtStop(t *testing.T) {
	tests := []struct {
		name string
		asks bool // a request of each is under way
	}{{"while a tool runs", false}, {"while the model answers", true}}
	for _, tt := range tests {
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
					t.Errorf("stopped in %s", took)
				}
				if n := len(k.files()); n != 2 {
					t.Fatalf("%d files\n%s", n, w.Log.String())
				}
				k.Restart()
				k.firsts()
				w.Exec.Script = script
				l = w.Start(option)
				defer l.Stop()
				time.Sleep(Size(2*time.Hour, 40*time.Minute))
				if first := k.firsts(); len(first) < 2 || !first[0].warm() || !first[1].warm() {
					t.Errorf("after the restart: %+v\n%s", first, w.Log.String())
				}
				if p := l.Document().Problems; len(p) > 0 {
					t.Error(p)
				}
			})
		})
	}
}

// What a server does makes a stop at most 2 s longer, and no longer than the grace.
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
					t.Errorf("stopped in %s, want %s at most", took, tt.max)
				}
				if left := w.Forge.Claimed(); len(left) > 0 {
					t.Errorf("claims left: %v", left)
				}
			})
		})
	}
}

// A supervisor that was restarted knows what a file has: it restores nothing that a slot of the server still holds.
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
			t.Errorf("%d restored, then %+v\n%s", restores.Load(), first, w.Log.String())
		}
	})
}

// Before a person's restart of the service that computes, the conversations of its sessions are saved. They fail then,
// and the next session goes on with what was saved.
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
			w.Until(time.Minute, "both are at work", func() bool { return len(w.Exec.Runs()) == 2 })
			time.Sleep(5 * time.Minute)
			began := time.Now()
			order(l, `{"service":"llama"}`)
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("the restart began after %s", took)
			}
			if n := len(k.files()); n != map[bool]int{false: 2}[asks] {
				t.Fatalf("%d files\n%s", n, w.Log.String())
			}
			if asks { // a slot that computes is waited for, and this one still does
				return
			}
			k.Restart()
			k.firsts()
			down.Store(false)
			time.Sleep(time.Hour)
			if first := k.firsts(); len(first) < 2 || !first[0].warm() || !first[1].warm() {
				t.Errorf("after the restart: %+v\n%s", first, w.Log.String())
			}
		})
	}
}
