package session

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
)

// answerACP lets an agent say lines, in a conversation of this id or in a new one, and returns what it is told, and the
// report.
func answerACP(id string, before float64, lines ...string) (told string, r *report) {
	a := &acp{argv: []string{"agent"}}
	a.begin(&call{Session: id, Resume: id != ""}, "/w", "Do it.", agents.Usage{CostUSD: before})
	r = new(report)
	var b strings.Builder
	for _, line := range append([]string{""}, lines...) {
		if line != "" {
			fmt.Fprintf(&b, "< %.60s\n", line)
			r.add(a, []byte(line), noon)
		}
		text, at := a.say()
		b.Write(text)
		if r.Note != "" {
			fmt.Fprintf(&b, "note: %s\n", r.Note)
		}
		if at == saidAll {
			b.WriteString("end\n")
		}
	}
	return b.String(), r
}

// The real agents begin a conversation and go on with one. What they repeat of its history is none of the run's.
func TestACPRecordings(t *testing.T) {
	for _, name := range []string{"gemini", "opencode", "qwen"} {
		for _, part := range []string{"new", "load"} {
			t.Run(name+"/"+part, func(t *testing.T) {
				base := filepath.Join("testdata", "acp", name+"-"+part)
				stream, err := os.ReadFile(base + ".jsonl")
				if err != nil {
					t.Fatal(err)
				}
				lines := strings.Split(strings.TrimSpace(string(stream)), "\n")
				id := ""
				if part == "load" {
					id = sessionIn(t, lines)
				}
				told, r := answerACP(id, 0, lines...)
				got := told + dump(name, r, nil, "")
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
			})
		}
	}
}

// sessionIn returns the id of the conversation that an agent's first update names.
func sessionIn(t *testing.T, lines []string) string {
	t.Helper()
	for _, line := range lines {
		var m struct{ Params struct{ SessionID string } }
		if json.Unmarshal([]byte(line), &m) == nil && m.Params.SessionID != "" {
			return m.Params.SessionID
		}
	}
	t.Fatal("there is no update")
	return ""
}

const (
	acpHello = `{"id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}`
	acpBegun = `{"id":2,"result":{"sessionId":"s1"}}`
	acpEnd   = `{"id":3,"result":{"stopReason":"end_turn"}}`
)

// says is an update of the conversation s1.
func says(update string) string {
	return `{"method":"session/update","params":{"sessionId":"s1","update":` + update + `}}`
}

func saysText(text string) string {
	return says(fmt.Sprintf(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%q}}`, text))
}

func TestACPEnds(t *testing.T) {
	begun := []string{acpHello, acpBegun}
	failed := func(code int, words, data string) string {
		return fmt.Sprintf(`{"id":3,"error":{"code":%d,"message":%q,"data":%s}}`, code, words, data)
	}
	for _, tt := range []struct {
		name   string
		resume bool
		lines  []string
		want   class
		words  string
	}{
		{"done", false, append(begun, saysText("Did"), saysText(" it."), acpEnd), noFailure, ""},
		{
			"another version", false,
			[]string{`{"id":1,"result":{"protocolVersion":2}}`},
			unusable,
			"it speaks version 2 of the Agent Client Protocol, want 1",
		},
		{"no result", false, []string{`{"id":1,"result":["x"]}`}, broken, `its answer to initialize cannot be read: ["x"]`},
		{
			"sign-in", false,
			[]string{acpHello, `{"id":2,"error":{"code":-32000,"message":"Authentication required"}}`},
			signedOut, "Authentication required",
		},
		{
			"lost", true,
			[]string{acpHello, `{"id":2,"error":{"code":-32603,"message":"Internal error","data":{"details":"gone"}}}`},
			forgotten, "Internal error: gone",
		},
		{
			"keeps nothing", true,
			[]string{`{"id":1,"result":{"protocolVersion":1}}`},
			forgotten,
			"it continues no conversations",
		},
		{"status", false, append(begun, failed(429, "Try later", `null`)), limited, "Try later"},
		{
			"words", false, append(begun, failed(-32603, "Internal error", `{"details":"401 Invalid API key"}`)), signedOut,
			"Internal error: 401 Invalid API key",
		},
		{
			"data", false, append(begun, failed(-32603, "Internal error", `"socket hang up"`)), down,
			`Internal error: "socket hang up"`,
		},
		{
			"refusal", false, append(begun, saysText("I won't."), `{"id":3,"result":{"stopReason":"refusal"}}`), refused,
			"the model refused: I won't.",
		},
		{
			"middle", false, append(begun, `{"id":3,"result":{"stopReason":"max_tokens"}}`), broken,
			"it stopped in the middle of its work: max_tokens",
		},
	} {
		id := ""
		if tt.resume {
			id = "s1"
		}
		told, r := answerACP(id, 0, tt.lines...)
		if r.What != tt.want || r.failure.Words != tt.words || !r.Ended || !strings.HasSuffix(told, "end\n") {
			t.Errorf("%s: got %q %q, ended %t, want %q %q; told\n%s", tt.name, r.What, r.failure.Words, r.Ended, tt.want,
				tt.words, told)
		}
		if tt.want == noFailure && (r.Words != "Did it." || !r.Answered) {
			t.Errorf("%s: got the words %q", tt.name, r.Words)
		}
	}
}

// The agent's requests have ids of their own, and each is answered.
func TestACPAsks(t *testing.T) {
	told, r := answerACP("", 0, acpHello, acpBegun,
		`{"id":3,"method":"fs/read_text_file","params":{"path":"/etc/passwd"}}`,
		`{"id":"p","method":"session/request_permission","params":{"options":[{"optionId":"no","kind":"reject_once"},`+
			`{"optionId":"ever","kind":"allow_always"},{"optionId":"first","kind":"allow_once"},`+
			`{"optionId":"second","kind":"allow_once"}],`+
			`"toolCall":{"toolCallId":"c","kind":"execute","rawInput":{"command":"make"}}}}`,
		`{"id":4,"method":"session/request_permission","params":{"options":[{"optionId":"no","kind":"reject_once"}]}}`,
		`{"id":5,"method":"session/request_permission","params":{"options":[{"optionId":"ever","kind":"allow_always"}]}}`,
		`{"id":"`+strings.Repeat("x", acpIDMost)+`","method":"x"}`, `{"method":"unheard/of"}`, "no JSON", acpEnd)
	for _, want := range []string{
		`{"error":{"code":-32601,"message":"Method not found"},"id":3,"jsonrpc":"2.0"}`,
		`{"id":"p","jsonrpc":"2.0","result":{"outcome":{"optionId":"first","outcome":"selected"}}}`,
		`{"id":4,"jsonrpc":"2.0","result":{"outcome":{"outcome":"cancelled"}}}`,
		`{"id":5,"jsonrpc":"2.0","result":{"outcome":{"optionId":"ever","outcome":"selected"}}}`,
		"note: execute: make\n",
	} {
		if !strings.Contains(told, want) {
			t.Errorf("it was not told %s:\n%s", want, told)
		}
	}
	if strings.Contains(told, `{"error":{"code":-32601,"message":"Method not found"},"id":"x`) {
		t.Error("an id of any length is sent back")
	}
	if r.Unread != 1 || len(r.repeats.open) != 1 || !r.Ended {
		t.Errorf("%d lines unread, %d calls open, ended %t", r.Unread, len(r.repeats.open), r.Ended)
	}
}

// A call that is told in parts is one call. Only calls whose input is known can be repetitions.
func TestACPRepeats(t *testing.T) {
	calls := func(input string) (lines []string) {
		lines = []string{acpHello, acpBegun}
		for i := range repeatsMost {
			id := fmt.Sprintf(`"toolCallId":"c%d"`, i)
			lines = append(lines, says(`{"sessionUpdate":"tool_call",`+id+`,"title":"Shell","rawInput":{}}`),
				says(`{"sessionUpdate":"tool_call_update",`+id+`,"status":"in_progress"`+input+`}`),
				says(`{"sessionUpdate":"tool_call_update",`+id+`,"status":"completed","content":[]}`),
				says(`{"sessionUpdate":"tool_call_update",`+id+`,"content":[]}`))
		}
		return lines
	}
	if _, r := answerACP("", 0, calls(`,"kind":"execute","rawInput":{"command":"make"}`)...); r.repeats.words !=
		"it repeats itself: execute: make, 8 times with the same result and nothing new between" || len(r.repeats.open) > 0 {
		t.Errorf("got %q, %d calls open", r.repeats.words, len(r.repeats.open))
	}
	if _, r := answerACP("", 0, calls("")...); r.repeats.words != "" || len(r.repeats.open) > 0 {
		t.Errorf("got %q of calls without input, %d open", r.repeats.words, len(r.repeats.open))
	}
}

// The cost is the conversation's, unless the agent forgot what it was before.
func TestACPCost(t *testing.T) {
	for _, tt := range []struct {
		before, says, want float64
		currency           string
	}{{0, 0.5, 0.5, "USD"}, {2, 2.5, 0.5, "USD"}, {2, 0.5, 0.5, "USD"}, {0, 0.5, 0, "EUR"}} {
		id := ""
		if tt.before > 0 {
			id = "s1"
		}
		_, r := answerACP(id, tt.before, acpHello, acpBegun,
			says(fmt.Sprintf(`{"sessionUpdate":"usage_update","cost":{"amount":%v,"currency":%q}}`, tt.says, tt.currency)))
		if got := used(r, agents.Usage{CostUSD: tt.before}).CostUSD; got != tt.want {
			t.Errorf("%+v: got %v", tt, got)
		}
	}
}

// An agent that does not take its prompt is ended without an attempt, and one that asks on and on without reading its
// stdin is ended, too. The stdin of one that ends its turn is closed.
func TestTalk(t *testing.T) {
	asks := strings.Repeat(`{"id":9,"method":"x"}`+"\n", talkMost+2)
	for _, tt := range []struct {
		name, says string
		took       time.Duration
		want       agents.Result
		reason     string
	}{
		{"silent", "", startTime, agents.BackendDown, "agent: it has not taken its prompt after 5m0s"},
		{"deaf", acpHello + "\n" + asks, 0, agents.Unanswered, "agent: it does not read the answers to what it asks"},
		{"done", acpHello + "\n" + acpBegun + "\n" + saysText("Yes.") + "\n" + acpEnd + "\n", 0, agents.Done, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &run{
					Program: &Program{CLI: "agent", Environ: []string{"PATH=/bin"}, Out: io.Discard, Now: time.Now},
					work: work{
						Local: true, Workspace: t.TempDir(), Home: t.TempDir(), ResultPath: filepath.Join(t.TempDir(), "result.json"),
					}, cli: &acp{argv: []string{"agent"}},
				}
				r.Run = func(ctx context.Context, cmd agents.Cmd) error {
					_, _ = io.WriteString(cmd.Stdout, tt.says)
					if tt.want == agents.Done {
						text, err := io.ReadAll(cmd.Stdin)
						if n := bytes.Count(text, []byte("\n")); n != 3 || err != nil {
							t.Errorf("got %d requests, %v: %s", n, err, text)
						}
						return nil
					}
					<-ctx.Done()
					return ctx.Err()
				}
				began := time.Now()
				_, out := r.runCLI(t.Context(), r.newCall(t.Context()), "do it")
				if out.Result != tt.want || out.Reason != tt.reason || time.Since(began) != tt.took {
					t.Errorf("got %+v after %s", out, time.Since(began))
				}
			})
		})
	}
}

// No agent breaks the client, and what it says is bounded, and what it is told is JSON.
func FuzzACP(f *testing.F) {
	files, err := filepath.Glob("testdata/acp/*.jsonl")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		stream, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(stream)
		for line := range bytes.Lines(stream) {
			f.Add([]byte(acpHello + "\n" + acpBegun + "\n" + string(line)))
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		for _, id := range []string{"", "s1"} {
			a, r := &acp{}, new(report)
			a.begin(&call{Session: id, Resume: id != ""}, "/w", "Do it.", agents.Usage{})
			for line := range bytes.Lines(stream) {
				r.add(a, line, noon)
				told, _ := a.say()
				for part := range bytes.Lines(told) {
					if !json.Valid(part) || len(part) > 10<<10 {
						t.Errorf("told %q", part)
					}
				}
				if strings.ContainsAny(r.Note, "\n\r") || len(r.Note) > 1000 || len(a.calls) > openMost ||
					len(r.repeats.open) > openMost || len(a.text) > maxLeft+len(line) {
					t.Errorf("note %q, %d calls, %d open, %d bytes", r.Note, len(a.calls), len(r.repeats.open), len(a.text))
				}
			}
			if u := used(r, agents.Usage{}); u != u.Bounded() {
				t.Errorf("used %+v", u)
			}
			_ = outcome("agent", r, r.Answered, nil, "", noon)
		}
	})
}
