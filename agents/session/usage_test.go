package session

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// untold matches the parts of each CLI's events that report cached tokens.
var untold = map[string]*regexp.Regexp{
	"claude":   regexp.MustCompile(`"cache_read_input_tokens":\d+,?`),
	"codex":    regexp.MustCompile(`"cached_input_tokens":\d+,?`),
	"opencode": regexp.MustCompile(`"read":\d+,?|,"read":\d+`),
	"qwen":     regexp.MustCompile(`"cache_read_input_tokens":\d+,?`),
}

// Each answer in the recordings has 100 input tokens, 40 of them cached. The cached share is the same however a CLI
// counts, for one run and for a resumed conversation. Without the number of cached tokens the share is unknown, not 0.
func TestHits(t *testing.T) {
	for _, cli := range agents.CLINames() {
		for _, name := range []string{"text", "tool", "resume"} {
			t.Run(cli+"/"+name, func(t *testing.T) {
				stream, err := os.ReadFile(filepath.Join("testdata", cli, name+".jsonl"))
				if err != nil {
					t.Fatal(err)
				}
				r := parse(adapters[cli], stream)
				before := agents.Usage{}
				if name == "resume" && r.TotalTokens {
					before = agents.Usage{InputTokens: 120, CachedTokens: 80, OutputTokens: 14}
				}
				u := used(r, before)
				if share, known := u.Hit(); !known || math.Abs(share-0.4) > 1e-9 {
					t.Errorf("usage %+v: hit rate %v, known %t; want 0.4", u, share, known)
				}
				if r.Running != (agents.Usage{}) {
					if share, known := r.Running.Hit(); !known || math.Abs(share-0.4) > 1e-9 {
						t.Errorf("running usage %+v: hit rate %v, known %t; want 0.4", r.Running, share, known)
					}
				}
				without := parse(adapters[cli], untold[cli].ReplaceAll(stream, nil))
				if without.Unread > 0 || without.Usage.InputTokens == 0 {
					t.Fatalf("without cached tokens: got %+v, want a readable stream with input tokens", without)
				}
				if share, known := used(without, agents.Usage{}).Hit(); known {
					t.Errorf("without cached tokens: got the hit rate %v, want unknown", share)
				}
			})
		}
	}
}

// The stream of claude says how much its model wrote, answer by answer. A session that is cut has the same usage as one
// that ends, in each CLI.
func TestUsageOfCutRuns(t *testing.T) {
	for _, cli := range []string{"claude", "opencode", "qwen"} {
		for _, name := range []string{"text", "tool"} {
			stream, err := os.ReadFile(filepath.Join("testdata", cli, name+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			whole := used(parse(adapters[cli], stream), agents.Usage{})
			whole.CostUSD = 0
			var cut []byte
			for line := range bytes.Lines(stream) {
				if !bytes.Contains(line, []byte(`"type":"result"`)) {
					cut = append(cut, line...)
				}
			}
			if got := used(parse(adapters[cli], cut), agents.Usage{}); got != whole {
				t.Errorf("%s %s: got %+v of a run that was cut, want %+v", cli, name, got, whole)
			}
		}
	}
}

// A run that dies has its last usage in codex's file. The conversation's next run counts only its own.
func TestCodexAfterFailure(t *testing.T) {
	const id = "0199"
	count := func(tokens int) string {
		return fmt.Sprintf(`{"payload":{"type":"token_count","info":{"total_token_usage":`+
			`{"input_tokens":%d,"cached_input_tokens":0,"output_tokens":0}}}}`+"\n", tokens)
	}
	runs := 0
	r, _ := fakeRun(t, "codex", func(say func(string) bool, home string) {
		file := filepath.Join(home, ".codex/sessions/2026/11/21/rollout-x-"+id+".jsonl")
		_ = os.MkdirAll(filepath.Dir(file), 0o700)
		say(`{"type":"thread.started","thread_id":"` + id + `"}` + "\n")
		say(`{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"Hm."}}` + "\n")
		if runs++; runs == 1 { // it dies after an answer that no event reports
			_ = os.WriteFile(file, []byte(count(300)), 0o600)
			return
		}
		_ = os.WriteFile(file, []byte(count(300)+count(400)), 0o600)
		say(`{"type":"turn.completed","usage":{"input_tokens":400,"cached_input_tokens":0,"output_tokens":0}}` + "\n")
	})
	c := r.newCall(t.Context())
	r.runCLI(t.Context(), c, "do it")
	if r.usage.InputTokens != 300 {
		t.Errorf("after it died: %+v, want 300 tokens", r.usage)
	}
	c.Session, c.Resume = id, true
	r.runCLI(t.Context(), c, "go on")
	if r.usage.InputTokens != 400 {
		t.Errorf("after both runs: %+v, want 400 tokens", r.usage)
	}
}

// qwen waits a minute after a 429 and after a 503, and its event does not tell them apart. Its record of the
// conversation does, with the backend's words.
func TestQwenLongPause(t *testing.T) {
	const id = "0199"
	for _, tt := range []struct {
		status, words string
		want          agents.Result
		retry         time.Duration
	}{
		{"429", "429 usage limit reached, try again in 2 hours", agents.Limited, 2 * time.Hour},
		{"429", "429 rate limit", agents.Limited, time.Minute},
		{"503", "503 Loading model", agents.BackendDown, 0},
		{"", "it would wait 1m0s before it tries again", agents.Limited, time.Minute},
	} {
		r, _ := fakeRun(t, "qwen", func(say func(string) bool, home string) {
			file := filepath.Join(home, ".qwen/projects/x/chats/"+id+".jsonl")
			_ = os.MkdirAll(filepath.Dir(file), 0o700)
			if tt.status != "" {
				_ = os.WriteFile(file, []byte(`{"subtype":"ui_telemetry","systemPayload":{"uiEvent":{"event.name":`+
					`"qwen-code.api_error","error_message":"`+tt.words+`","status_code":`+tt.status+"}}}\n"), 0o600)
			}
			say(`{"type":"system","subtype":"retry","session_id":"` + id + `","data":{"attempt":1,"delayMs":60000}}` + "\n")
		})
		_, out := r.runCLI(t.Context(), r.newCall(t.Context()), "do it")
		late := tt.retry > 0 && !out.RetryAt.Equal(noon.Add(tt.retry))
		if out.Result != tt.want || out.Reason != "qwen: "+tt.words || late {
			t.Errorf("%s: got %+v", tt.words, out)
		}
	}
}

// A CLI's usage file reports the usage of a running conversation.
func TestDiaryHits(t *testing.T) {
	for text, want := range map[string]bool{
		`{"payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":100,"cached_input_tokens":0,"output_tokens":7}}}}`: true,
		`{"payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":100,"output_tokens":7}}}}`:                         false,
	} {
		u, ok := codex{}.usageLine([]byte(text))
		if share, known := u.Hit(); !ok || known != want || share != 0 {
			t.Errorf("%s: %v, %t", text, share, known)
		}
	}
}

func TestFirstChange(t *testing.T) {
	for _, tt := range []struct{ was, is, want string }{
		{"same", "same", ""},
		{"one\ntwo\nthree", "one\ntwo\nfour", ""},
		{"one\ntwo", "one\ntwo\nmuch more than there was", ""},
		{"2026-11-22\nrest", "2026-11-23\nrest", ""}, // in the second half
		{"2026-11-22\nthe longer rest", "2026-11-23\nthe longer rest", "line 1: 2026-11-23"},
		{"one\ntwo and much more\n", "one\nzwei and much more\n", "line 2: zwei and much more"},
		{"one\ntwo and much more\n", "one\n\x00\xffzwei\n", "line 2: \x00\xffzwei"},
		{"a", "", ""},
		{"", "a", ""},
	} {
		if got := firstChange(tt.was, tt.is); got != tt.want {
			t.Errorf("%q, %q: %q, want %q", tt.was, tt.is, got, tt.want)
		}
	}
}

// The cached share of the first request is reported once, if a local server may have read the prompt before.
func TestResumption(t *testing.T) {
	dir := t.TempDir()
	earlier := chainState{CLI: "claude", Session: "s", Thread: "llama", Slot: "0"}
	local := work{Local: true, Thread: "llama", Slot: "0", Workspace: dir}
	away := local
	away.Slot, away.Thread = "1", "night"
	paid := local
	paid.Local = false
	for _, tt := range []struct {
		name   string
		work   work
		keep   chainState
		resume bool
		want   *agents.Resumption
	}{
		{"the first session", local, chainState{}, false, nil},
		{"its conversation", local, earlier, true, &agents.Resumption{Cached: 90, Computed: 10}},
		{"a new conversation", local, earlier, false, &agents.Resumption{
			Cached: 90, Computed: 10,
			Changed: "line 2: more and more, word by word",
		}},
		{"another thread", away, earlier, false, nil},
		{"a paid API", paid, earlier, true, nil},
		{"another CLI", local, chainState{CLI: "qwen", Session: "s", Thread: "llama"}, false, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(dir, "prompt.md"), []byte("one\nless and less, word by word"),
				0o600); err != nil {
				t.Fatal(err)
			}
			r := &run{Program: &Program{CLI: "claude", Out: new(tail)}, work: tt.work, state: tt.keep}
			r.expected = r.expectCache(&call{Resume: tt.resume}, "one\nmore and more, word by word")
			r.recordResumption(agents.Usage{})
			r.recordResumption(agents.Usage{InputTokens: 10, CachedTokens: 90})
			r.recordResumption(agents.Usage{InputTokens: 500, CachedTokens: 90})
			if got := r.resumed; (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
			if text, err := os.ReadFile(filepath.Join(dir, "prompt.md")); err != nil ||
				string(text) != "one\nmore and more, word by word" {
				t.Errorf("the prompt is not kept: %q, %v", text, err)
			}
		})
	}
}
