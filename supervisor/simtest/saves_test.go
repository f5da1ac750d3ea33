package simtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/llama/fakellama"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/saved"
	"codeberg.org/johba/disinto/threads"
)

// talker is a llama-server in memory, and the conversations that agents have with it.
type talker struct {
	*fakellama.Server
	t testing.TB

	mu    sync.Mutex
	texts map[string]string // by agent and issue
	first []used            // the first request of each session
	saves int               // calls of Save
	// before is called before an action on a slot, and before the slots are read. Its error is the answer.
	before func(ctx context.Context, what string) error
	lies   func(*agents.Moved)
}

// used has the tokens of a session's first request: had is the size of its earlier conversation; the server found
// cached tokens of the prompt and computed the others.
type used struct {
	kind                  agents.Kind
	had, cached, computed int64
}

// warm reports whether the server had nearly all of the conversation.
func (u used) warm() bool { return u.had > 0 && 100*u.cached >= 95*u.had }

func newTalker(t testing.TB, s *fakellama.Server) *talker {
	return &talker{Server: s, t: t, texts: make(map[string]string)}
}

// ask sends a request to the server without a network, which would not be in virtual time.
func (k *talker) ask(ctx context.Context, method, path string, body any, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	w := httptest.NewRecorder()
	k.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, path, bytes.NewReader(text)))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if w.Code != 200 {
		return fmt.Errorf("status %d: %s", w.Code, w.Body)
	}
	return json.Unmarshal(w.Body.Bytes(), answer)
}

func (k *talker) Slots(ctx context.Context) (slots []agents.ServerSlot, err error) {
	if k.before != nil {
		if err := k.before(ctx, "slots"); err != nil {
			return nil, err
		}
	}
	var list []struct {
		ID   int    `json:"id"`
		Task *int64 `json:"id_task"`
		Busy bool   `json:"is_processing"`
		Held int64  `json:"n_prompt_tokens"`
		Had  int64  `json:"n_prompt_tokens_cache"`
	}
	err = k.ask(ctx, "GET", "/slots", nil, &list)
	for _, s := range list {
		slot := agents.ServerSlot{ID: s.ID, Task: -1, Busy: s.Busy, Held: s.Held, Cached: s.Had}
		if s.Task != nil {
			slot.Task = *s.Task
		}
		slots = append(slots, slot)
	}
	return slots, err
}

func (k *talker) Save(ctx context.Context, slot int, file string) (agents.Moved, error) {
	k.mu.Lock()
	k.saves++
	k.mu.Unlock()
	var a struct{ Saved, Wrote int64 }
	err := k.act(ctx, slot, "save", file, &struct {
		Saved *int64 `json:"n_saved"`
		Wrote *int64 `json:"n_written"`
	}{&a.Saved, &a.Wrote})
	m := agents.Moved{Tokens: a.Saved, Bytes: a.Wrote}
	if k.lies != nil {
		k.lies(&m)
	}
	return m, err
}

func (k *talker) Restore(ctx context.Context, slot int, file string) (agents.Moved, error) {
	var a struct {
		Restored int64 `json:"n_restored"`
	}
	err := k.act(ctx, slot, "restore", file, &a)
	return agents.Moved{Tokens: a.Restored}, err
}

func (k *talker) act(ctx context.Context, slot int, what, file string, answer any) error {
	if k.before != nil {
		if err := k.before(ctx, what); err != nil {
			return err
		}
	}
	return k.ask(ctx, "POST", fmt.Sprintf("/slots/%d?action=%s", slot, what), map[string]string{"filename": file}, answer)
}

// say plays an agent's session: some requests that continue the conversation on the issue.
func (k *talker) say(job agents.Job, requests int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	name := job.Agent + " " + variable(job, "DISINTO_WORKSPACE")
	total := agents.Usage{}
	for i := range requests {
		had := int64(len(k.texts[name]))
		k.texts[name] += strings.Repeat(fmt.Sprintf(" %s says %d", name, len(k.texts[name])), 20)
		var a struct {
			Timings struct {
				Cached   int64 `json:"cache_n"`
				Computed int64 `json:"prompt_n"`
			}
		}
		if err := k.ask(context.Background(), "POST", "/completion", map[string]string{"prompt": k.texts[name]},
			&a); err != nil {
			k.t.Error(err)
			return
		}
		k.texts[name] += "ok"
		u := agents.Usage{InputTokens: a.Timings.Computed, CachedTokens: a.Timings.Cached, OutputTokens: 2}
		if i == 0 {
			k.first = append(k.first, used{job.Kind, had, u.CachedTokens, u.InputTokens})
		}
		total = total.Add(u)
		job.Spent(total)
	}
}

// withSaves is a world whose local thread saves conversations, on a server with two bound slots. A pull request is
// approved in its second review.
func withSaves(t *testing.T, s *fakellama.Server) (*World, *talker, func(*Life)) {
	s.Slots, s.Model, s.Folder = 2, "tiny", t.TempDir()
	w, k := New(t), newTalker(t, s)
	th := w.Config.Thread("llama")
	th.BaseURL, th.Saved = serverURL, threads.Saved{Limit: 1 << 30, Folder: s.Folder}
	for i := range w.Config.Agents {
		if w.Config.Agents[i].Thread == "llama" {
			w.Config.Agents[i].Model = "tiny"
		}
	}
	w.Exec.Script = func(job agents.Job, n int) Script {
		script := w.Work(job, n)
		if job.Kind.Writes() {
			k.say(job, 3)
		} else if n == 1 {
			script.Do = func() { w.Forge.Review(job.Number, job.Agent, forge.ChangesRequested) }
		}
		return script
	}
	return w, k, func(l *Life) { l.Saver = func(string) saved.Server { return k } }
}

// files returns the names in the folder of saved conversations.
func (k *talker) files() (names []string) {
	entries, _ := os.ReadDir(k.Folder)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (k *talker) reworks() (list []used) {
	for _, u := range k.first {
		if u.kind == agents.KindRework {
			list = append(list, u)
		}
	}
	return list
}

// A conversation that waits for its review survives a restart of the server. Its file is deleted with the chain.
func TestSavedOverRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, option := withSaves(t, &fakellama.Server{})
		first := w.Forge.Issue("one")
		l := w.Start(option)
		time.Sleep(12 * time.Minute) // the pull request is open
		names := k.files()
		if len(names) != 1 {
			t.Fatalf("got files %v, want one\n%s", names, w.Log.String())
		}
		if info, err := os.Stat(filepath.Join(k.Folder, names[0])); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
		}
		k.Restart()
		time.Sleep(time.Hour)
		if r := k.reworks(); len(r) != 1 || !r[0].warm() || !w.Forge.Get(first).Closed {
			t.Errorf("got reworks %+v, want a warm one\n%s", r, w.Log.String())
		}
		if names := k.files(); len(names) > 0 {
			t.Errorf("after the merge: got files %v, want none", names)
		}
		if p := l.Document().Problems; len(p) > 0 {
			t.Error(p)
		}
	})
}

// Without kv_save the server gets no requests, and after its restart the next session computes everything.
func TestNotSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, option := withSaves(t, &fakellama.Server{})
		w.Config.Thread("llama").Saved = threads.Saved{}
		k.before = func(_ context.Context, what string) error {
			t.Errorf("the server got a request for %s", what)
			return nil
		}
		w.Forge.Issue("one")
		w.Start(option)
		time.Sleep(12 * time.Minute)
		k.Restart()
		time.Sleep(time.Hour)
		if r := k.reworks(); len(r) != 1 || r[0].cached > 0 {
			t.Errorf("got reworks %+v, want one without cached tokens", r)
		}
	})
}

// With two sessions at a time, each conversation is found by its size, and restored into its own slot.
func TestSavedSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, option := withSaves(t, &fakellama.Server{})
		for _, title := range []string{"one", "two"} {
			w.Forge.Issue(title)
		}
		w.Start(option)
		time.Sleep(12 * time.Minute)
		if names := k.files(); len(names) != 2 {
			t.Fatalf("got files %v, want two\n%s", names, w.Log.String())
		}
		k.Restart()
		time.Sleep(Size(2*time.Hour, time.Hour))
		for _, r := range k.reworks() {
			if !r.warm() {
				t.Errorf("got rework %+v, want a warm one\n%s", r, w.Log.String())
			}
		}
		if n := len(k.reworks()); n != 2 {
			t.Errorf("got %d reworks, want 2", n)
		}
	})
}

// A model whose state does not survive in a file is detected once. Its conversations are never saved again, even by
// the next supervisor.
func TestForgottenModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, k, option := withSaves(t, &fakellama.Server{Recurrent: true})
		w.Forge.Issue("one")
		l := w.Start(option)
		time.Sleep(12 * time.Minute)
		k.Restart()
		time.Sleep(time.Hour)
		const words = "llama: conversations of tiny are not saved any more: of "
		told := func(l *Life) bool {
			return len(l.Document().Problems) == 1 && strings.HasPrefix(l.Document().Problems[0], words)
		}
		if r := k.reworks(); len(r) != 1 || r[0].cached > 0 || !told(l) {
			t.Errorf("got reworks %+v and problems %v, want a cold one, and the model named\n%s", r, l.Document().Problems,
				w.Log.String())
		}
		saves := k.saves
		l.Stop()
		l = w.Start(option)
		for _, title := range []string{"two", "three"} {
			w.Forge.Issue(title)
		}
		time.Sleep(Size(2*time.Hour, time.Hour))
		if k.saves != saves || !told(l) || strings.Count(w.Log.String(), words) != 1 {
			t.Errorf("got %d saves, then %d, and problems %v, want no more, and the model named once\n%s", saves, k.saves,
				l.Document().Problems, w.Log.String())
		}
	})
}

// Whatever the server does, sessions start and end; the next one may be cold.
func TestSavesFail(t *testing.T) {
	hang := func(what string) func(*talker) {
		return func(k *talker) {
			k.before = func(ctx context.Context, asked string) error {
				if asked == what {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
		}
	}
	tests := []struct {
		name    string
		breaks  func(*talker)
		problem string // in the status
		files   int
	}{
		{"a look that hangs", hang("slots"), "", 0},
		{"a save that hangs", hang("save"), "the newest conversation is not saved: context deadline exceeded", 0},
		{"a restore that hangs", hang("restore"), "", 1},
		{"no folder", func(k *talker) { k.Folder = "" }, "not saved: status 501", 0},
		{"a full disk", func(k *talker) { k.lies = func(m *agents.Moved) { m.Bytes = 0 } }, "its disk may be full", 0},
		{"another conversation", func(k *talker) { k.lies = func(m *agents.Moved) { m.Tokens += 9 } }, "tokens, and", 0},
		{"another folder", func(k *talker) { k.Folder = k.t.TempDir() }, "kv_folder must be the server's", 0},
		{"an answer that is none", func(k *talker) {
			k.before = func(context.Context, string) error { return errors.New("lies") }
		}, "", 0},
	}
	for _, tt := range tests {
		if Skips(tt.name, "a look that hangs", "no folder", "another conversation", "another folder",
			"an answer that is none") {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, k, option := withSaves(t, &fakellama.Server{})
				folder := k.Folder
				tt.breaks(k)
				first := w.Forge.Issue("one")
				l := w.Start(option)
				time.Sleep(12 * time.Minute)
				problems := strings.Join(l.Document().Problems, "\n")
				if tt.problem == "" && problems != "" || !strings.Contains(problems, tt.problem) {
					t.Errorf("got problems %q, want %q\n%s", problems, tt.problem, w.Log.String())
				}
				if entries, err := os.ReadDir(folder); err != nil || len(entries) != tt.files {
					t.Errorf("got files %v, %v, want %d", entries, err, tt.files)
				}
				k.Restart()
				time.Sleep(time.Hour) // also for saves that are under way at the merge
				if !w.Forge.Get(first).Closed || len(k.reworks()) != 1 {
					t.Errorf("not done\n%s", w.Log.String())
				}
				if n := strings.Count(w.Log.String(), "conversation not saved: "); tt.problem != "" && n != 1 {
					t.Errorf("logged %d times, want once", n)
				}
			})
		})
	}
}
