package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
)

// Every adapter has a name in agents.CLIs, and every name has an adapter.
func TestAdapters(t *testing.T) {
	for _, name := range agents.CLINames() {
		if _, err := findAdapter(name); err != nil {
			t.Error(err)
		}
		if events[name] == nil {
			t.Errorf("events (repeats_test.go) has no entry for %s", name)
		}
		if untold[name] == nil {
			t.Errorf("untold (usage_test.go) has no entry for %s", name)
		}
	}
	if len(adapters) != len(agents.CLIs) {
		t.Errorf("%d adapters for %d names", len(adapters), len(agents.CLIs))
	}
	if _, err := findAdapter("aider"); err == nil {
		t.Error("there is an adapter for aider")
	}
}

// TestRecordings parses what the real CLIs printed in each situation.
func TestRecordings(t *testing.T) {
	for _, cli := range agents.CLINames() {
		for i := range recordings {
			rec := &recordings[i]
			t.Run(cli+"/"+rec.name, func(t *testing.T) {
				base := filepath.Join("testdata", cli, rec.name)
				stream, err := os.ReadFile(base + ".jsonl")
				if err != nil {
					t.Fatal(err)
				}
				complaint, err := os.ReadFile(base + ".stderr")
				if err != nil {
					t.Fatal(err)
				}
				status, words, _ := strings.Cut(string(complaint), "\n")
				var exit error
				if status != "<nil>" {
					exit = fmt.Errorf("%s", status)
				}
				r := parse(adapters[cli], stream)
				if r.Usage.CostUSD > 0 && !agents.FindCLI(cli).Priced {
					t.Errorf("it reports a cost of %v, and agents.CLIs says that it reports none", r.Usage.CostUSD)
				}
				got := dump(cli, r, exit, words)
				if *update {
					writeGolden(t, base+".golden", []byte(got))
				}
				want, err := os.ReadFile(base + ".golden")
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if rec.what == noFailure && (r.What != noFailure || !r.Ended) {
					t.Errorf("trouble %q, ended %t: want a run that is complete", r.What, r.Ended)
				}
			})
		}
	}
}

// The versions of the recordings are those that the Makefile pins and docs/agents.md names. make agents-newest moves
// all three.
func TestVersions(t *testing.T) {
	const page = "../../docs/agents.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for cli, name := range map[string]string{
		"claude": "@anthropic-ai/claude-code", "codex": "@openai/codex", "opencode": "opencode-ai",
		"qwen": "@qwen-code/qwen-code",
	} {
		version, err := os.ReadFile(filepath.Join("testdata", cli, "version"))
		if err != nil {
			t.Fatal(err)
		}
		recorded := strings.TrimSpace(string(version))
		row := regexp.MustCompile("(?m)^(\\| `" + cli + "` \\| )[0-9.]+( \\|.*)$")
		if *update {
			text = row.ReplaceAll(text, []byte("${1}"+recorded+"${2}"))
			writeGolden(t, page, text)
		}
		if m := row.Find(text); !strings.Contains(string(m), "| "+recorded+" |") {
			t.Errorf("%s is recorded in version %s, and its row in docs/agents.md is %q", cli, recorded, m)
		}
		if !strings.Contains(string(makefile), name+"@"+recorded+" ") {
			t.Errorf("%s is recorded in version %s, and the Makefile pins another", cli, recorded)
		}
	}
	if len(agents.CLIs) != 4 {
		t.Error("a CLI is missing in this test")
	}
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func dump(cli string, r *report, exit error, complaint string) string {
	out := outcome(cli, r, r.Answered, exit, complaint, noon)
	var b strings.Builder
	fmt.Fprintf(&b, "session %s\nwords %q\nanswered %t\nusage %+v\ntotals: tokens %t, cost %t\nended %t\nhopeless %t\n"+
		"unread %d\n",
		r.Session, r.Words, r.Answered, r.Usage, r.TotalTokens, r.TotalCost, r.Ended, r.Hopeless, r.Unread)
	fmt.Fprintf(&b, "trouble %q %q\noutcome %s %q\n", r.What, r.failure.Words, out.Result, out.Reason)
	if !out.RetryAt.IsZero() {
		fmt.Fprintf(&b, "retry at %s\n", out.RetryAt.Format(time.RFC3339))
	}
	return b.String()
}

// Output of CLIs in situations that cannot be recorded on loopback.
func TestEvents(t *testing.T) {
	tests := []struct {
		name, cli, stream string
		want              class
		ended             bool
		words             string
	}{
		{"a limit stands above what is made of it later", "claude", `{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1795242424,"rateLimitType":"five_hour"}}
{"type":"result","subtype":"success","is_error":true,"terminal_reason":"api_error","api_error_status":500,"result":"oops"}`, limited, true, "usage limit five_hour"},
		{
			"a limit called a success", "claude",
			`{"type":"result","subtype":"success","is_error":false,"result":"You've hit your session limit · resets 11pm ` +
				`(Europe/Paris)"}`, limited, true, "You've hit your session limit · resets 11pm (Europe/Paris)",
		},
		{
			"a summary about limits", "claude",
			`{"type":"result","subtype":"success","is_error":false,"result":"Done. You've hit your limit is now translated."}`,
			noFailure, true, "",
		},
		{
			"a filter", "opencode", `{"type":"error","sessionID":"s","error":{"name":"APIError","data":{"statusCode":400,` +
				`"message":"The prompt triggered the content management policy."}}}`, refused, true, "",
		},
		{
			"an error in JSON", "codex", `{"type":"turn.failed","error":{"message":"{\"error\":{\"message\":\"Your credit ` +
				`balance is too low.\"}}"}}`, unusable, true, "Your credit balance is too low.",
		},
		{"a warning is no limit", "claude", `{"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning","resetsAt":1795242424}}
{"type":"result","subtype":"success","is_error":false,"result":"ok"}`, noFailure, true, ""},
		{"a limit that was waited for", "claude", `{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1795242424}}
{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"ok"}`, noFailure, true, ""},
		{
			"turns used up", "claude",
			`{"type":"result","subtype":"error_max_turns","is_error":true,"terminal_reason":"max_turns","errors":["Reached ` +
				`maximum number of turns (1)"]}`, broken, true, "Reached maximum number of turns (1)",
		},
		{"refusal", "claude", `{"type":"assistant","message":{"content":[{"type":"text","text":"I will not."}],"stop_reason":"refusal"}}
{"type":"result","subtype":"success","is_error":false,"result":"I will not."}`, refused, true, "the model refused: I will not."},
		{
			"not logged in", "claude",
			`{"type":"result","subtype":"success","is_error":true,"result":"Not logged in · Please run /login"}`, signedOut,
			true, "Not logged in · Please run /login",
		},
		{
			"too long", "claude",
			`{"type":"result","subtype":"success","is_error":true,"terminal_reason":"api_error","api_error_status":400,` +
				`"result":"prompt is too long: 210000 tokens > 200000 maximum"}`, overflown, true, "",
		},
		{"not JSON", "claude", "hello\n{\"type\":\"result\",\"result\":\"ok\"}", noFailure, true, ""},
		{
			"waits a minute", "qwen",
			`{"type":"system","subtype":"retry","data":{"reason":"retry","attempt":1,"maxRetries":10,"delayMs":60000}}`,
			limited, false, "",
		},
		{
			"it found the loop itself", "qwen",
			`{"type":"result","is_error":true,"error":{"message":"Loop detection halted the run ` +
				`(consecutive_identical_tool_calls)."}}`, looped, true, "",
		},
		{
			"waits a moment", "qwen",
			`{"type":"system","subtype":"retry","data":{"reason":"retry","attempt":1,"maxRetries":10,"delayMs":2000}}`,
			noFailure, false, "",
		},
		{
			"in the middle of work", "opencode", `{"type":"step_finish","sessionID":"ses_1","part":{"reason":"tool-calls"}}`,
			noFailure, false, "",
		},
		{
			"usage limit", "codex", `{"type":"turn.failed","error":{"message":"You've hit your usage limit. Try again later."}}`,
			limited, true, "",
		},
		{"retries are no failure", "codex", `{"type":"error","message":"Reconnecting... 1/2 (stream disconnected)"}
{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":4,"output_tokens":2}}`, noFailure, true, ""},
	}
	for _, tt := range tests {
		r := parse(adapters[tt.cli], []byte(tt.stream))
		if r.What != tt.want || r.Ended != tt.ended || tt.words != "" && r.failure.Words != tt.words {
			t.Errorf("%s: trouble %q (%s), ended %t; want %q (%s), %t", tt.name, r.What, r.failure.Words, r.Ended, tt.want,
				tt.words, tt.ended)
		}
	}
}

// What a CLI without a last event said last, on stdout or else on stderr, decides the outcome and is the reason. If the
// model never answered, the item is not to blame.
func TestUnended(t *testing.T) {
	failed, killed := errors.New("exit status 1"), errors.New("killed by SIGKILL")
	const answer = `{"type":"assistant","message":{"content":[{"type":"text","text":"Hm."}],"usage":{"output_tokens":5}}}` + "\n"
	tests := []struct {
		cli, stdout string
		exit        error
		stderr      string
		want        agents.Result
		reason      string
	}{
		{
			"claude", answer, failed, "No conversation found with session ID: x", agents.Failed,
			"claude: exit status 1: No conversation found with session ID: x",
		},
		{"claude", "", failed, "fetch failed: ECONNREFUSED", agents.BackendDown, ""},
		{
			"claude", "", failed, "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons",
			agents.Unanswered, "",
		},
		{"qwen", answer, errors.New("exit status 55"), "Run aborted: wall-clock budget of 3s exceeded", agents.Failed, ""},
		{"claude", answer, nil, "", agents.Failed, "claude: it ended without saying how"},
		{"claude", "", nil, "", agents.Unanswered, "claude: it ended without saying how"},
		{"claude", answer, killed, "", agents.Failed, "claude: killed by SIGKILL"},
		{
			"codex", `{"type":"error","message":"You've hit your usage limit. Upgrade, or try again at 12:36 PM."}`, failed,
			"Reading additional input from stdin...", agents.Limited,
			"codex: exit status 1: You've hit your usage limit. Upgrade, or try again at 12:36 PM.",
		},
		{"codex", `{"type":"error","message":"session rollout budget exhausted"}`, failed, "", agents.OverBudget, ""},
		{
			"claude", "You've hit your limit · resets 1pm (Europe/Lisbon)\n", nil, "", agents.Limited,
			"claude: You've hit your limit · resets 1pm (Europe/Lisbon)",
		},
		{"codex", "", errors.New("codex: exit status 1"), `node:internal/modules/run_main:107
    throw error;
    ^

Error: Missing optional dependency @openai/codex-linux-x64. Reinstall Codex.
    at file:///opt/codex/bin/codex.js:99:11
    at ModuleJob.run (node:internal/modules/esm/module_job:343:25) {
  code: 'X'
}

Node.js v22.23.3
`, agents.Unanswered, "codex: exit status 1: Error: Missing optional dependency @openai/codex-linux-x64. Reinstall Codex."},
		{"codex", "", failed, "Reading additional input from stdin...\n", agents.Unanswered, "codex: exit status 1"},
	}
	for _, tt := range tests {
		r := parse(adapters[tt.cli], []byte(tt.stdout))
		out := outcome(tt.cli, r, r.Answered, tt.exit, tt.stderr, noon)
		if out.Result != tt.want || out.Reason == "" || tt.reason != "" && out.Reason != tt.reason {
			t.Errorf("%s, %v, %q: got %s, %q, want %s, %q", tt.stdout, tt.exit, tt.stderr, out.Result, out.Reason, tt.want,
				tt.reason)
		}
	}
}

// Some CLIs count the whole conversation, some only its tokens or only its cost.
func TestUsed(t *testing.T) {
	before := agents.Usage{InputTokens: 100, CachedTokens: 50, OutputTokens: 10, CostUSD: 1}
	now := agents.Usage{InputTokens: 150, CachedTokens: 40, OutputTokens: 30, CostUSD: 1.5}
	tests := []struct {
		tokens, cost bool
		want         agents.Usage
	}{
		{false, false, now},
		{true, false, agents.Usage{InputTokens: 50, CachedTokens: 0, OutputTokens: 20, CostUSD: 1.5}},
		{false, true, agents.Usage{InputTokens: 150, CachedTokens: 40, OutputTokens: 30, CostUSD: 0.5}},
	}
	for _, tt := range tests {
		if got := used(&report{Usage: now, TotalTokens: tt.tokens, TotalCost: tt.cost}, before); got != tt.want {
			t.Errorf("tokens %t, cost %t: %+v, want %+v", tt.tokens, tt.cost, got, tt.want)
		}
	}
}

func TestLines(t *testing.T) {
	var got []string
	l := &lines{each: func(line []byte) { got = append(got, string(line)) }}
	for _, part := range []string{"a\n\n b", "c \nd", "e"} {
		_, _ = l.Write([]byte(part))
	}
	_, _ = l.Write([]byte(strings.Repeat("x", maxLine) + "\nlast"))
	l.flush()
	if want := []string{"a", "bc", "last"}; !cmp.Equal(got, want) || l.dropped != 1 {
		t.Errorf("lines %q, %d dropped, want %q and one", got, l.dropped, want)
	}
}

// No output breaks a parser, and its results are always bounded.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*/*.jsonl")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		stream, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for i, line := range strings.Split(string(stream), "\n") {
			if i < 40 {
				f.Add([]byte(line))
			}
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		for cli, a := range adapters {
			r := parse(a, stream)
			if r.Usage.InputTokens < 0 && !strings.Contains(string(stream), "-") {
				t.Errorf("%s: negative usage %+v", cli, r.Usage)
			}
			if strings.ContainsAny(r.Note, "\n\r") {
				t.Errorf("%s: a note of several lines: %q", cli, r.Note)
			}
			if u := used(r, agents.Usage{}); u != u.Bounded() || strings.ContainsAny(r.repeats.words, "\n\r") {
				t.Errorf("%s: used %+v, %q", cli, u, r.repeats.words)
			}
			if d, ok := a.(diarist); ok {
				d.readDiary(stream, r, agents.Usage{})
				if u := r.Running; u != u.Bounded() {
					t.Errorf("%s: an entry of %+v", cli, u)
				}
			}
			_ = outcome(cli, r, r.Answered, nil, "", noon)
		}
	})
}
