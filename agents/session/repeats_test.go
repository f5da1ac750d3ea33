package session

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// step is one call of a tool, whose result comes after takes. A path makes it a write.
type step struct {
	command, result string
	path, content   string
	takes           time.Duration
}

// play feeds steps to the detector, and returns the step at which it reports a repetition; 0 for none.
func play(steps []step) (at int, words string) {
	var s repeats
	now := noon
	for i, st := range steps {
		id := fmt.Sprint("call-", i)
		s.begin(id, "Bash", st.input(), now)
		now = now.Add(max(st.takes, 100*time.Millisecond))
		s.end(id, []byte(st.result), now)
		if s.words != "" {
			return i + 1, s.words
		}
	}
	return 0, ""
}

func (s *step) input() []byte {
	args := map[string]string{"command": s.command}
	if s.path != "" {
		args = map[string]string{"file_path": s.path, "content": s.content}
	}
	text, _ := json.Marshal(args)
	return text
}

func times(n int, steps ...step) (all []step) {
	for range n {
		all = append(all, steps...)
	}
	return all
}

// changing returns a step n times, each with a different result.
func changing(n int, s step) (all []step) {
	for i := range n {
		s.result = fmt.Sprint("pending since ", i)
		all = append(all, s)
	}
	return all
}

func TestRepeats(t *testing.T) {
	test := step{command: "make test", result: "FAIL"}
	look := step{command: "cat app.js", result: "text"}
	edit := func(i int) step {
		return step{path: "app.js", content: fmt.Sprint("version ", i), result: "ok"}
	}
	var honest []step // edits, builds without output, and edits again
	for i := range 100 {
		honest = append(honest, edit(i), step{command: "go build", result: ""})
	}
	var long []step // a cycle longer than the detector's memory
	for i := range 20 {
		long = append(long, step{command: fmt.Sprint("cat ", i), result: "text"})
	}
	a, b := step{path: "app.js", content: "A"}, step{path: "app.js", content: "B"}
	var between []step // each write is followed by a test with a new result
	for i := range 20 {
		between = append(between, []step{a, b}[i%2], step{command: "make test", result: fmt.Sprint("took ", i)})
	}
	for _, tt := range []struct {
		name  string
		steps []step
		at    int
		words string
	}{
		{
			"the same call", times(20, test), 8,
			"it repeats itself: Bash: make test, 8 times with the same result and nothing new between",
		},
		{"two calls in turn", times(20, test, look), 16, "cat app.js"},
		{"a few of them first", append(honest[:20:20], times(20, test)...), 28, "make test"},
		{"seven times", times(7, test), 0, ""},
		{
			"seven times, twice, with something new between", append(times(7, test), append([]step{look}, times(7, test)...)...),
			0, "",
		},
		{"an answer that changes", changing(100, step{command: "gh pr checks"}), 0, ""},
		{
			"a wait with the same answer",
			times(100, step{command: "sleep 30; gh pr checks", result: "pending", takes: waiting}), 0, "",
		},
		{"a wait, and a look", times(100, step{command: "sleep 30", takes: 30 * time.Second},
			step{command: "gh pr checks", result: "pending"}), 0, ""},
		{"edits and builds", honest, 0, ""},
		{"a longer circle", times(10, long...), 0, ""},
		{
			"a file back and forth", times(10, a, b), 8,
			"app.js is written back and forth, 6 times with its earlier content",
		},
		{"with tests between", between, 15, "app.js is written back and forth"},
		{"a file to and fro once", []step{a, b, a, b}, 0, ""},
	} {
		at, words := play(tt.steps)
		if at != tt.at || !strings.Contains(words, tt.words) {
			t.Errorf("%s: after %d calls %q, want %d and %q", tt.name, at, words, tt.at, tt.words)
		}
	}
}

// The detector stores a bounded number of hashes, whatever a CLI sends.
func TestRepeatsAreBounded(t *testing.T) {
	var s repeats
	for i := range 10_000 {
		input := fmt.Appendf(nil, `{"file_path":"f%d","content":"%d"}`, i, i)
		s.begin(fmt.Sprint(i), "Write", input, noon)
		if i%2 == 0 {
			s.end(fmt.Sprint(i), input, noon)
		}
		s.wrote("one", uint64(i))
	}
	if len(s.open) > openMost || len(s.known) > knownMost || len(s.files) > filesMost || cap(s.files) > 4*filesMost {
		t.Errorf("%d calls, %d results, %d files", len(s.open), len(s.known), len(s.files))
	}
	s.end("never called", nil, noon)
}

// ending returns the outcome of a run that must not have completed.
func ending(t *testing.T, err error) agents.Outcome {
	t.Helper()
	if err == nil {
		t.Fatal("it came to its end")
	}
	return (&run{heard: true}).outcomeOf(err)
}

// events return each CLI's events for a call with its result and for the usage of the model's n-th answer, which is 100
// tokens without cached ones.
var events = map[string]func(n int, command, result string) string{
	"claude": func(n int, command, result string) string {
		return fmt.Sprintf(`{"type":"assistant","message":{"id":"m%d","content":[{"type":"text","text":"I try."}],"usage":{"input_tokens":80,"cache_creation_input_tokens":10,"cache_read_input_tokens":900,"output_tokens":10}}}
{"type":"assistant","message":{"id":"m%d","content":[{"type":"tool_use","id":"t%d","name":"Bash","input":{"command":%q}}],"usage":{"input_tokens":80,"cache_creation_input_tokens":10,"cache_read_input_tokens":900,"output_tokens":10}}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t%d","content":%q}]}}
`, n, n, n, command, n, result)
	},
	"qwen": func(n int, command, result string) string {
		return fmt.Sprintf(`{"type":"assistant","message":{"id":"m%d","content":[{"type":"tool_use","id":"t%d","name":"run_shell_command","input":{"command":%q}}],"usage":{"input_tokens":990,"cache_read_input_tokens":900,"output_tokens":10}}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t%d","content":%q}]}}
`, n, n, command, n, result)
	},
	"opencode": func(n int, command, result string) string {
		return fmt.Sprintf(`{"type":"tool_use","part":{"type":"tool","tool":"bash","callID":"t%d","state":{"input":{"command":%q},"output":%q,"time":{"start":1000,"end":1100}}}}
{"type":"step_finish","part":{"reason":"tool-calls","tokens":{"input":80,"output":10,"reasoning":0,"cache":{"write":10,"read":900}},"cost":0}}
`, n, command, result)
	},
	"codex": func(n int, command, result string) string {
		return fmt.Sprintf(`{"type":"item.started","item":{"id":"item_%d","type":"command_execution","command":%q,"aggregated_output":"","exit_code":null}}
{"type":"item.completed","item":{"id":"item_%d","type":"command_execution","command":%q,"aggregated_output":%q,"exit_code":0}}
`, n, command, n, command, result)
	},
}

// fakeRun returns a session whose CLI plays a script. say prints a text and reports whether the CLI may continue.
func fakeRun(t *testing.T, cli string, play func(say func(string) (goOn bool), home string)) (*run, *int) {
	asked := new(int)
	r := &run{
		Program: &Program{CLI: cli, Out: io.Discard, Now: func() time.Time { return noon }}, cli: adapters[cli],
		work: work{Workspace: t.TempDir(), Home: t.TempDir(), ResultPath: filepath.Join(t.TempDir(), "result.json")},
	}
	r.Environ = []string{"PATH=/bin", "HOME=" + r.Home}
	r.Run = func(ctx context.Context, cmd agents.Cmd) error {
		*asked++
		play(func(text string) bool {
			_, _ = io.WriteString(cmd.Stdout, text)
			return ctx.Err() == nil
		}, r.Home)
		return ctx.Err()
	}
	return r, asked
}

// Each CLI is ended when it repeats itself, and the reason names the repeated call.
func TestLoops(t *testing.T) {
	for _, cli := range agents.CLINames() {
		t.Run(cli, func(t *testing.T) {
			said := 0
			r, _ := fakeRun(t, cli, func(say func(string) bool, _ string) {
				for goOn := true; goOn && said < 50; {
					said++
					goOn = say(events[cli](said, "make test", "FAIL"))
				}
				say(`{"type":"result","subtype":"success","is_error":false,"result":"all done"}` + "\n") // too late
			})
			_, err := r.runPrompt(t.Context(), "do it")
			out := ending(t, err)
			if out.Result != agents.Looped || !strings.Contains(out.Reason, "make test, 8 times") || said != repeatsMost {
				t.Errorf("after %d calls: %+v", said, out)
			}
		})
	}
}

// codex does not report what it writes, so the files are read.
func TestCodexBackAndForth(t *testing.T) {
	said := 0
	var r *run
	r, _ = fakeRun(t, "codex", func(say func(string) bool, _ string) {
		for goOn := true; goOn && said < 50; {
			said++
			path := filepath.Join(r.folder(), "app.js")
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Error(err)
			}
			if err := os.WriteFile(path, fmt.Appendf(nil, "version %d", said%2), 0o600); err != nil {
				t.Error(err)
			}
			goOn = say(`{"type":"item.completed","item":{"type":"file_change","changes":[{"path":"app.js","kind":"update"}]}}` +
				"\n")
		}
	})
	_, err := r.runPrompt(t.Context(), "do it")
	if out := ending(t, err); out.Result != agents.Looped ||
		!strings.Contains(out.Reason, "app.js is written back and forth") || said != 8 {
		t.Errorf("after %d writes: %+v", said, out)
	}
}

// Each CLI is ended by the answer that reaches the limit. The result file reports the usage while the CLI runs, and the
// CLI is not started again.
func TestOwnLimit(t *testing.T) {
	for _, cli := range agents.CLINames() {
		t.Run(cli, func(t *testing.T) {
			said := 0
			var told []int64
			var r *run
			r, asked := fakeRun(t, cli, func(say func(string) bool, home string) {
				if cli == "codex" {
					say(`{"type":"thread.started","thread_id":"one"}` + "\n")
				}
				for goOn := true; goOn && said < 50; {
					said++
					if cli == "codex" {
						codexDiary(t, home, said)
					}
					goOn = say(events[cli](said, fmt.Sprint("make ", said), "ok"))
					text, err := os.ReadFile(r.ResultPath)
					u, _, bad := agents.ParseProgress(text)
					if err != nil || bad != nil {
						t.Errorf("%v, %v", err, bad)
					}
					told = append(told, u.Tokens())
				}
			})
			r.Left.Tokens = 350
			_, err := r.runPrompt(t.Context(), "do it")
			if out := ending(t, err); out.Result != agents.OverBudget || !strings.Contains(out.Reason, "400 of 350 tokens") ||
				said != 4 {
				t.Errorf("after %d answers: %+v", said, out)
			}
			if got := fmt.Sprint(told); got != "[100 200 300 400]" || r.usage.Tokens() != 400 {
				t.Errorf("told %s, in all %+v", got, r.usage)
			}
			if _, err := r.runPrompt(t.Context(), "once more"); ending(t, err).Result != agents.OverBudget || *asked != 1 {
				t.Errorf("it ran %d times: %v", *asked, err)
			}
		})
	}
}

// codexDiary writes codex's own record: the usage of the whole conversation.
func codexDiary(t *testing.T, home string, answers int) {
	t.Helper()
	path := filepath.Join(home, ".codex/sessions/2026/11/21/rollout-2026-11-21T12-00-00-one.jsonl")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	line := fmt.Sprintf(`{"type":"response_item","payload":{"text":"token_count"}}
{"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":%d,"cached_input_tokens":%d,"output_tokens":%d}}}}
{"type":"event_msg","payload":{"type":"token_count","info":null}}
`, 990*answers, 900*answers, 10*answers)
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The answer that reaches the limit may be the last one. Then the work is done.
func TestLastAnswerMayReachLimit(t *testing.T) {
	r, _ := fakeRun(t, "claude", func(say func(string) bool, _ string) {
		if !say(`{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"Done."}],"usage":{"input_tokens":500}}}` + "\n") {
			t.Error("it is ended in its last answer")
		}
		say(`{"type":"result","subtype":"success","is_error":false,"result":"Done.","usage":{"input_tokens":500}}` + "\n")
	})
	r.Left.Tokens = 350
	if said, err := r.runPrompt(t.Context(), "do it"); err != nil || !said.Ended {
		t.Errorf("%v, %+v", err, said)
	}
}

// claude gets a cost limit, and reports when it is reached.
func TestClaudeBudget(t *testing.T) {
	argv, _ := claude{}.command(&call{Session: "one", MaxUSD: 0.25})
	if got := strings.Join(argv, " "); !strings.HasSuffix(got, "--max-budget-usd 0.25") {
		t.Errorf("%s", got)
	}
	argv, _ = claude{}.command(&call{Session: "one", MaxUSD: 0.25, Local: true})
	if got := strings.Join(argv, " "); strings.Contains(got, "budget") {
		t.Errorf("%s", got)
	}
	r := parse(claude{}, []byte(`{"type":"result","subtype":"error_max_budget_usd","is_error":true,"terminal_reason":"budget_exhausted","errors":["Reached maximum budget ($0.002)"],"total_cost_usd":0.0021}`))
	if out := outcome("claude", r, true, nil, "", noon); out.Result != agents.OverBudget ||
		out.Reason != "claude: Reached maximum budget ($0.002)" {
		t.Errorf("%+v", out)
	}
}
