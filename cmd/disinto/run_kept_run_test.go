package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/llama"
	"codeberg.org/johba/disinto/agents/llama/fakellama"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/supervisor/control"
)

// talks is the argument that makes this program an agent program that talks to its model. The next argument is the
// folder for the record of its conversation.
const talks = "talks"

// talk is the agent program's conversation, and the cache hits of each session's first request.
type talk struct {
	Messages []map[string]string
	Held     int64 // the tokens of the last request and its answer
	Firsts   []talkFirst
}

// talkFirst is the first request of a session: the tokens that the conversation had, and those that the server found
// in its cache and computed.
type talkFirst struct{ Had, Cached, Computed int64 }

// playTalk is a session: three answers, then exit with a failure. While a file named hold exists, it requests an
// endless answer in place of the failure.
func playTalk(dir string) int {
	path := filepath.Join(dir, "talk.json")
	var t talk
	if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &t) != nil {
		return 3
	}
	had, total := t.Held, agents.Usage{}
	for i := range 3 {
		u, err := t.ask(map[string]any{"max_tokens": 1, "grammar": `root ::= "a"`})
		if err != nil {
			fmt.Println(err)
			return 2
		}
		if i == 0 {
			t.Firsts = append(t.Firsts, talkFirst{had, u.CachedTokens, u.InputTokens})
		}
		total = total.Add(u)
		usage, err := agents.FormatProgress(total, agents.Doing{})
		text, _ := json.Marshal(t)
		if err == nil {
			err = os.WriteFile(os.Getenv("DISINTO_RESULT"), usage, 0o600)
		}
		if err != nil || os.WriteFile(path, text, 0o600) != nil {
			return 3
		}
		time.Sleep(2500 * time.Millisecond) // so that the usage of each answer is read separately
	}
	if exists(filepath.Join(dir, "hold")) {
		_, _ = t.ask(map[string]any{"max_tokens": 100_000, "grammar": `root ::= "a" root`, "stream": true})
		time.Sleep(time.Hour)
	}
	fmt.Println("nothing came of it")
	return 1
}

// ask adds a message to the conversation and requests the answer.
func (t *talk) ask(more map[string]any) (u agents.Usage, err error) {
	var words strings.Builder
	for i := range 150 {
		fmt.Fprintf(&words, "%c%d ", 'a'+(len(t.Messages)*7+i*5)%26, (len(t.Messages)*31+i*13)%97)
	}
	t.Messages = append(t.Messages, map[string]string{"role": "user", "content": words.String()})
	more["messages"] = t.Messages
	body, err := json.Marshal(more)
	if err != nil {
		return u, err
	}
	resp, err := http.Post(os.Getenv("DISINTO_BASE_URL")+"/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		return u, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	var a struct {
		Choices []struct{ Message map[string]string }
		Usage   struct {
			Prompt  int64 `json:"prompt_tokens"`
			Written int64 `json:"completion_tokens"`
			Details struct {
				Cached int64 `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil || len(a.Choices) != 1 {
		return u, fmt.Errorf("%s: %w: %.300s", resp.Status, err, text)
	}
	t.Messages = append(t.Messages, map[string]string{"role": "assistant", "content": a.Choices[0].Message["content"]})
	t.Held = a.Usage.Prompt + a.Usage.Written
	c := a.Usage.Details.Cached
	return agents.Usage{InputTokens: a.Usage.Prompt - c, CachedTokens: c, OutputTokens: a.Usage.Written}, nil
}

// keptServer is a server that saves its slots' conversations in a folder.
type keptServer struct {
	url     string
	service string       // its lines in factory.toml; empty if disinto does not run it
	restart func(string) // with the state directory
	writes  func() bool  // reports whether it is writing an answer
}

// TestKeptByRun saves an issue's conversation, restarts the server and continues. Then it stops the supervisor in the
// middle of an answer, restarts it and the server, and continues.
func TestKeptByRun(t *testing.T) {
	t.Run("fake", func(t *testing.T) {
		leftToStorms(t, "TestSavedAtStop of the supervisor")
		s := &fakellama.Server{Model: "tiny", Slots: 2, Folder: t.TempDir()}
		server := httptest.NewServer(s)
		defer server.Close()
		keptByRun(t, s.Folder, keptServer{
			url: server.URL, restart: func(string) { s.Restart() }, writes: func() bool { return true },
		})
	})
	t.Run("real", func(t *testing.T) {
		address, err := url.Parse(os.Getenv("LLAMA_TEST_URL"))
		command := strings.Fields(os.Getenv("LLAMA_TEST_COMMAND"))
		if err != nil || address.Port() == "" || len(command) == 0 {
			t.Skip("LLAMA_TEST_URL and LLAMA_TEST_COMMAND are not set: an address, and llama-server with -m and a model")
		}
		folder := t.TempDir()
		command = append(command, "--host", address.Hostname(), "--port", address.Port(), "-np", "2", "--no-kv-unified",
			"-c", "32768", "--cache-ram", "0", "--slot-save-path", folder+"/")
		quoted := strings.ReplaceAll(fmt.Sprintf("%q", command), `" "`, `", "`)
		keptByRun(t, folder, keptServer{
			url:     address.String(),
			service: fmt.Sprintf("[services.llama]\ncommand = %s\nready = %q\n", quoted, address.String()+"/health"),
			writes: func() bool {
				slots, err := llama.New(address.String()).Slots(t.Context())
				return err == nil && slices.ContainsFunc(slots, func(s agents.ServerSlot) bool { return s.Busy && s.Written > 1 })
			},
			restart: func(state string) {
				pid := service(status(t, state, "the server is ready", isIn("ready", "llama")), "llama").PID
				if got := disinto(t.Context(), nil, "restart", "llama", "--state", state); got.code != exitDone {
					t.Fatalf("restart: got %+v", got)
				}
				status(t, state, "the restarted server is ready", func(d *control.Document) bool {
					return isIn("ready", "llama")(d) && service(d, "llama").PID != pid
				})
			},
		})
	})
}

func keptByRun(t *testing.T, folder string, server keptServer) {
	f := newTestForge(t)
	state, dir := t.TempDir(), t.TempDir()
	if err := os.Chmod(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	path := factoryFile(t, fmt.Sprintf(`
[forge]
url = %q
token = "$FORGE_TOKEN"
repos = [%q]
[factory]
state = %q
sandbox = "off"
min_free_memory = "0"
min_free_disk = "0"
[threads.llama]
backend = "local"
base_url = %q
max_concurrent = 2
interval = "1s"
agents = ["dev-qwen"]
kv_save = "1G"
kv_folder = %q
[agents.dev-qwen]
token = %q
model = "tiny"
[roles.dev]
on = "issue"
label = "picked"
command = [%q, %q, %q]
%s`, f.URL, demo.Repo, state, server.url+"/v1", folder, "$"+agents.TokenVar("dev-qwen"), executable(t), talks, dir,
		server.service))
	f.pick(8)
	run := func() *running { return startDisinto(t, f.environ(nil), "run", "--yes", "--config", path) }
	first := func(n int) {
		t.Helper()
		var told talk
		eventually(t, fmt.Sprintf("session %d began", n), func() bool {
			text, _ := os.ReadFile(filepath.Join(dir, "talk.json"))
			return json.Unmarshal(text, &told) == nil && len(told.Firsts) >= n
		})
		is := told.Firsts[n-1]
		t.Logf("session %d: of %d tokens the server had cached %d and computed %d", n, is.Had, is.Cached, is.Computed)
		if n > 1 && (is.Had == 0 || 100*is.Cached < 95*is.Had) {
			t.Errorf("session %d: got the first request %+v", n, is)
		}
	}
	r := run()
	first(1)
	eventually(t, "the conversation is saved", func() bool {
		files, _ := filepath.Glob(filepath.Join(folder, "disinto[^Z]*"))
		return len(files) == 1
	})
	server.restart(state)
	if err := os.WriteFile(filepath.Join(dir, "hold"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := disinto(t.Context(), nil, "retry", "8", "--state", state); got.code != exitDone {
		t.Fatalf("retry: got %+v", got)
	}
	first(2)
	eventually(t, "the third answer is complete, and the last one under way", func() bool {
		var told talk
		text, _ := os.ReadFile(filepath.Join(dir, "talk.json"))
		return json.Unmarshal(text, &told) == nil && len(told.Messages) == 12 && server.writes()
	})
	began := time.Now()
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d", code)
	}
	t.Logf("stopped in %s", time.Since(began).Round(time.Millisecond))
	if server.service == "" {
		server.restart(state)
	}
	r = run()
	first(3)
	r.signal(syscall.SIGTERM)
	r.wait()
}
