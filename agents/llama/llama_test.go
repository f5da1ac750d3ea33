package llama_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/llama"
	"codeberg.org/johba/disinto/agents/llama/fakellama"
)

// serve starts a server and returns its URL.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// used holds the tokens of one request, as the server reports them.
type used struct {
	Cached   int `json:"cache_n"`
	Computed int `json:"prompt_n"`
}

// complete requests the completion of a prompt. pin is -1 for any slot.
func complete(t *testing.T, url, prompt string, pin int) used {
	t.Helper()
	body := map[string]any{"prompt": prompt, "n_predict": 1, "cache_prompt": true}
	if pin >= 0 {
		body["id_slot"] = pin
	}
	text, _ := json.Marshal(body)
	resp, err := http.Post(url+"/completion", "application/json", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var a struct{ Timings used }
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	return a.Timings
}

// talk returns a conversation that shares no prefix with others.
func talk(name string, words int) string {
	return name + strings.Repeat(" a word of "+name, words)
}

func TestLook(t *testing.T) {
	fake := &fakellama.Server{Model: "tiny", Path: "/models/tiny.gguf", Slots: 2, Context: 4096, Metrics: true}
	url := serve(t, fake)
	for _, base := range []string{url, url + "/", url + "/v1", url + "/v1/"} {
		if s := llama.New(base).Describe(t.Context()); s.Context != 4096 || s.Model != "tiny" {
			t.Errorf("Describe at %s = %+v, want the context 4096 and the model tiny", base, s)
		}
	}
	complete(t, url, talk("A", 20), -1)
	got, err := llama.New(url).Fetch(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	n := int64(len(talk("A", 20)))
	want := agents.Server{
		Model: "tiny", Path: "/models/tiny.gguf", Build: "b1-fake", Slots: 2, Context: 4096,
		At: []agents.ServerSlot{
			{ID: 0, Task: -1, Context: 4096},
			{ID: 1, Task: 1, Context: 4096, Held: n + 2, Read: n, Written: 2},
		},
		Work: &agents.ServerWork{
			Read: n, ReadSeconds: float64(n) / fakellama.ReadSpeed, Written: 2, WrittenSeconds: 2. / fakellama.WriteSpeed,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	want.At, want.Work = nil, nil
	got, err = llama.New(url).Fetch(t.Context(), false)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Look without work: %v (-want +got):\n%s", err, diff)
	}
}

// A server without a configured model name reports the path of the file.
func TestNameOfModel(t *testing.T) {
	for alias, want := range map[string]string{
		"/models/Qwen3-30B-Q4_K_M.gguf": "Qwen3-30B-Q4_K_M", "qwen3": "qwen3", "tiny.gguf": "tiny",
		"org/model:Q4": "org/model:Q4", "": "",
	} {
		if s := llama.New(serve(t, &fakellama.Server{Model: alias})).Describe(t.Context()); s.Model != want {
			t.Errorf("the model with the alias %q is called %q, want %q", alias, s.Model, want)
		}
	}
}

// TestLookLetsSleep checks that Look without work sends only /props, which lets a server sleep.
func TestLookLetsSleep(t *testing.T) {
	var asked []string
	fake := &fakellama.Server{Metrics: true}
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		fake.ServeHTTP(w, r)
	}))
	for _, work := range []bool{false, true} {
		if _, err := llama.New(url).Fetch(t.Context(), work); err != nil {
			t.Error(err)
		}
	}
	if got := strings.Join(asked, " "); got != "/props /props /slots /metrics" {
		t.Errorf("Look requested %s, want only /props without work", got)
	}
}

func TestLookAtLittle(t *testing.T) {
	fake := &fakellama.Server{NoSlots: true}
	c := llama.New(serve(t, fake))
	got, err := c.Fetch(t.Context(), true)
	if want := (agents.Server{Build: "b1-fake", Slots: 1, Context: 32768}); err != nil || !cmp.Equal(want, got) {
		t.Errorf("Look: %v (-want +got):\n%s", err, cmp.Diff(want, got))
	}
	if _, err := c.Slots(t.Context()); !errors.Is(err, llama.ErrNotOffered) {
		t.Errorf("Slots of a server without /slots: %v, want ErrNotOffered", err)
	}
	if err := c.Saves(t.Context()); !errors.Is(err, llama.ErrNotOffered) {
		t.Errorf("no folder for files: %v", err)
	}
	fake.Sleep()
	for range 2 { // Look does not wake it
		if got, err = c.Fetch(t.Context(), true); err != nil || !got.Asleep {
			t.Errorf("Look at a sleeping server = %+v, %v, want asleep", got, err)
		}
	}
}

// TestLies plays servers that send wrong answers. No result may be large, out of range, or break a log line.
func TestLies(t *testing.T) {
	deep := strings.Repeat("[", 100_000)
	tests := []struct {
		name, props, slots, metrics string
		want                        agents.Server
		err                         string
	}{
		{name: "no JSON", props: "<html>", err: "cannot read the properties"},
		{name: "another server", props: "{}", err: "does not report its slots"},
		{
			name: "an endless answer", props: `{"model_alias":"` + strings.Repeat("x", 2<<20) + `"}`,
			err: "more than 1048576 bytes",
		},
		{name: "another type", props: `{"total_slots":"four"}`, err: "cannot read the properties"},
		{name: "deep", props: deep, err: "cannot read the properties"},
		{
			name: "out of range",
			props: `{"total_slots":2000000000,"model_alias":"a\u001b[31m\nb\u202e","model_path":"` + strings.Repeat("p", 999) +
				`","default_generation_settings":{"n_ctx":-5}}`,
			slots: `[{"id":-1,"is_processing":true,"n_ctx":9000000000000000000,"n_prompt_tokens":-9,"next_token":"none"},null]`,
			metrics: "llamacpp:prompt_tokens_total 1e300\nllamacpp:prompt_seconds_total NaN\n" +
				"llamacpp:tokens_predicted_total -1\nllamacpp:requests_deferred +Inf\n",
			want: agents.Server{
				Model: "a[31mb", Path: strings.Repeat("p", 200), Slots: 1024,
				At:   []agents.ServerSlot{{Task: -1, Busy: true, Context: agents.MaxServerTokens}, {Task: -1}},
				Work: &agents.ServerWork{Read: agents.MaxServerTokens, Deferred: 1_000_000},
			},
		},
		{
			name: "too many slots", props: `{"total_slots":1}`, slots: "[" + strings.Repeat("{},", 1<<16) + "{}]", metrics: deep,
			want: agents.Server{Slots: 1, At: slotsWithout(agents.MaxServerSlots)},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				text := map[string]string{"/props": tt.props, "/slots": tt.slots, "/metrics": tt.metrics}[r.URL.Path]
				if text == "" {
					http.NotFound(w, r)
				}
				fmt.Fprint(w, text)
			}))
			got, err := llama.New(url).Fetch(t.Context(), true)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) || len(err.Error()) > 1000 {
					t.Errorf("Look: error %v, want %q in it", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Error(err, diff)
			}
		})
	}
}

func slotsWithout(n int) []agents.ServerSlot {
	at := make([]agents.ServerSlot, n)
	for i := range at {
		at[i].Task = -1
	}
	return at
}

// TestElsewhere plays a server that redirects the client. The target gets no request.
func TestElsewhere(t *testing.T) {
	asked := 0
	other := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	c := llama.New(serve(t, http.RedirectHandler(other, http.StatusFound)))
	if _, err := c.Fetch(t.Context(), true); err == nil {
		t.Error("Look followed a redirect")
	}
	if _, err := c.Save(t.Context(), 0, "x"); err == nil || asked != 0 {
		t.Errorf("Save: %v, and the target of the redirect got %d requests; want an error and none", err, asked)
	}
	ctx, cancel := context.WithCancel(t.Context())
	silent := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() }))
	if _, err := llama.New(silent).Fetch(ctx, true); !errors.Is(err, context.Canceled) {
		t.Errorf("Look at a server that never answers: %v, want Canceled", err)
	}
}

func TestProgress(t *testing.T) {
	var answer string
	var status int
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	ask := func(text string) string {
		answer, status = text, http.StatusOK
		return llama.New(url).Progress(t.Context())
	}
	const (
		reading  = `[{"id":0,"id_task":7,"is_processing":true,"n_prompt_tokens_processed":2048,"next_token":[{"n_decoded":0}],"params":{}},{"id":1,"id_task":6,"is_processing":false}]`
		further  = `[{"id":0,"id_task":7,"is_processing":true,"n_prompt_tokens_processed":4096,"next_token":[{"n_decoded":0}],"params":{}},{"id":1,"id_task":6,"is_processing":false}]`
		writing  = `[{"id":0,"id_task":7,"is_processing":true,"n_prompt_tokens_processed":4096,"next_token":[{"n_decoded":9}],"params":{}},{"id":1,"id_task":6,"is_processing":false}]`
		old      = `[{"id":0,"task_id":7,"state":1,"n_past":100,"prompt":"a long one","next_token":{"n_decoded":3}}]`
		oldLater = `[{"id":0,"task_id":7,"state":1,"n_past":101,"prompt":"a long one","next_token":{"n_decoded":4}}]`
	)
	for _, pair := range [][2]string{{reading, further}, {further, writing}, {old, oldLater}} {
		if a, b := ask(pair[0]), ask(pair[1]); a == "" || b == "" || a == b || a != ask(pair[0]) {
			t.Errorf("Progress returned %q and %q, want two different texts", a, b)
		}
	}
	for _, none := range []string{
		"", "[]", `{"error":{"code":501,"message":"This server does not support slots endpoint."}}`,
		`[{"id":0,"is_processing":false,"n_past":100}]`, `[{"id":0,"state":0}]`, "<html>",
	} {
		if mark := ask(none); mark != "" {
			t.Errorf("Progress for %s = %q, want none", none, mark)
		}
	}
	_ = ask(old)
	if slots, err := llama.New(url).Slots(t.Context()); err != nil || slots[0].Written != 3 || slots[0].Held != 100 {
		t.Errorf("Slots of an old server = %+v, %v, want 3 tokens written and 100 held", slots, err)
	}
	if status = http.StatusInternalServerError; llama.New(url).Progress(t.Context()) != "" {
		t.Error("Progress is not empty after an error")
	}
}

// TestCaches tests the fake and, at $LLAMA_TEST_URL, a real server that was started with --slot-save-path.
func TestCaches(t *testing.T) {
	t.Run("fake", func(t *testing.T) {
		caches(t, serve(t, &fakellama.Server{Slots: 2, RAM: 1 << 30, Folder: t.TempDir(), Model: "tiny"}))
	})
	t.Run("fake, unified", func(t *testing.T) {
		caches(t, serve(t, &fakellama.Server{Slots: 4, RAM: 1 << 30, Unified: true, Folder: t.TempDir(), Model: "tiny"}))
	})
	t.Run("real", func(t *testing.T) {
		url := os.Getenv("LLAMA_TEST_URL")
		if url == "" {
			t.Skip("LLAMA_TEST_URL is not set: the address of a llama-server with --slot-save-path")
		}
		caches(t, url)
	})
}

// caches checks what any server with a cache in memory and a folder for files does.
func caches(t *testing.T, url string) {
	const words = 60
	mark := fmt.Sprint(time.Now().UnixNano()) // no earlier run of this test used this prefix
	a, b, c := talk("A"+mark, words), talk("B"+mark, words), talk("C"+mark, words)
	mostly := func(name string, u used) {
		t.Helper()
		if u.Cached < 9*u.Computed {
			t.Errorf("%s: %d cached, %d computed, want most cached", name, u.Cached, u.Computed)
		}
	}
	for _, prompt := range []string{a, b, c} {
		if u := complete(t, url, prompt, -1); u.Cached > 9*u.Computed {
			t.Errorf("a new conversation has %d cached tokens, want few", u.Cached)
		}
	}
	for _, prompt := range []string{a, b, c} { // from memory, whichever slot it ran on
		mostly("memory", complete(t, url, prompt+" and on", -1))
	}
	client := llama.New(url)
	if err := client.Saves(t.Context()); err != nil {
		t.Error(err)
	}
	at, err := client.Slots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for i := range at {
		if at[i].Task > at[last].Task {
			last = i
		}
	}
	file := "disinto-test-" + mark
	saved, err := client.Save(t.Context(), at[last].ID, file)
	if err != nil || saved.Tokens == 0 || saved.Bytes == 0 {
		t.Fatalf("Save = %+v, %v, want tokens and bytes", saved, err)
	}
	erased, err := http.Post(fmt.Sprintf("%s/slots/%d?action=erase", url, at[last].ID), "application/json", nil)
	if err != nil || erased.StatusCode != http.StatusOK {
		t.Errorf("cannot erase a slot: %v, %+v", err, erased)
	}
	other := (at[last].ID + 1) % len(at)
	moved, err := client.Restore(t.Context(), other, file)
	if err != nil || moved.Tokens != saved.Tokens || moved.Took <= 0 {
		t.Errorf("Restore = %+v, %v, want the tokens of %+v", moved, err, saved)
	}
	mostly("the other slot after restore", complete(t, url, c+" and on and on", -1))
	for _, name := range []string{"none-" + mark, "../" + file} {
		if _, err := client.Restore(t.Context(), 0, name); !errors.Is(err, llama.ErrRefused) {
			t.Errorf("Restore of %s: %v, want ErrRefused", name, err)
		}
	}
}

// TestMeasured repeats what was measured on the real server: the conversations A B C A B C, for several sets of flags.
func TestMeasured(t *testing.T) {
	tests := []struct {
		name   string
		server *fakellama.Server
		warm   bool
	}{
		{"own caches, no memory", &fakellama.Server{Slots: 2}, false},
		{"own caches, memory", &fakellama.Server{Slots: 2, RAM: 1 << 30}, true},
		{"no flags", &fakellama.Server{Slots: 4, RAM: 1 << 30, Unified: true}, true},
		{"memory for one", &fakellama.Server{Slots: 1, RAM: 1 << 20, PerToken: 1 << 10}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			url := serve(t, tt.server)
			for i, name := range []string{"A", "B", "C", "A", "B", "C"} {
				u := complete(t, url, talk(name, 60), -1)
				if warm := u.Cached > 9*u.Computed; warm != (tt.warm && i > 2) {
					t.Errorf("request %d of %s: %+v, want cached %v", i, name, u, tt.warm && i > 2)
				}
			}
		})
	}
}

// TestPin shows why requests are not pinned to slots.
func TestPin(t *testing.T) {
	fake := &fakellama.Server{Slots: 2, RAM: 1 << 30, Unified: true}
	url := serve(t, fake)
	complete(t, url, talk("A", 60), 0)
	complete(t, url, talk("B", 60), 1) // empties the other slot
	if u := complete(t, url, talk("A", 60), 0); u.Cached != 0 {
		t.Errorf("request pinned to an empty slot: %+v, want nothing cached", u)
	}
	complete(t, url, talk("B", 60), 1)
	if u := complete(t, url, talk("A", 60), -1); u.Cached == 0 {
		t.Errorf("request without a pin: %+v, want most cached", u)
	}
}

// TestBusySlot checks a computing slot: a save waits for it until the deadline, and /slots shows it as busy.
func TestBusySlot(t *testing.T) {
	computes, goOn := make(chan bool), make(chan bool)
	fake := &fakellama.Server{
		Slots: 1, Folder: t.TempDir(), Metrics: true,
		Work: func(int, string) { computes <- true; <-goOn },
	}
	url := serve(t, fake)
	c := llama.New(url)
	done := make(chan used)
	go func() { done <- complete(t, url, talk("A", 9), -1) }()
	<-computes
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := c.Save(ctx, 0, "x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Save of a busy slot: %v, want DeadlineExceeded", err)
	}
	look, err := c.Fetch(t.Context(), true)
	if err != nil || !look.At[0].Busy || look.Work.Busy != 1 || look.At[0].Read == 0 {
		t.Errorf("Look = %+v, %v, want slot 0 busy", look, err)
	}
	goOn <- true
	<-done
	if _, err := c.Save(t.Context(), 0, "x"); err != nil {
		t.Error(err)
	}
}

func TestOtherModel(t *testing.T) {
	folder := t.TempDir()
	one := serve(t, &fakellama.Server{Model: "one", Folder: folder})
	complete(t, one, talk("A", 9), -1)
	if _, err := llama.New(one).Save(t.Context(), 0, "x"); err != nil {
		t.Fatal(err)
	}
	two := llama.New(serve(t, &fakellama.Server{Model: "two", Folder: folder}))
	if _, err := two.Restore(t.Context(), 0, "x"); !errors.Is(err, llama.ErrRefused) {
		t.Errorf("Restore of another model's file: %v, want ErrRefused", err)
	}
	hybrid := serve(t, &fakellama.Server{Model: "one", Folder: folder, Recurrent: true})
	if m, err := llama.New(hybrid).Restore(t.Context(), 0, "x"); err != nil || m.Tokens == 0 {
		t.Errorf("Restore = %+v, %v, want tokens", m, err)
	}
	if u := complete(t, hybrid, talk("A", 9), -1); u.Cached != 0 {
		t.Errorf("after Restore for a recurrent model: %+v, want nothing cached", u)
	}
}
