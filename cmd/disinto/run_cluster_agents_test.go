package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/nomad/fakenomad"
	"codeberg.org/johba/disinto/agents/session/fakemodel"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/supervisor/control"
)

// houseRule is in the factory's prompts only.
const houseRule = "Write the word xylophone below what you add."

// Built-in agents on nodes work from the claim to the merge, with the prompts beside factory.toml. The CLI is a
// script, and also claude itself if $DISINTO_CLIS has it. For the Nomad at $NOMAD_ADDR, claude must be in the PATH of
// its clients.
func TestClusterAgents(t *testing.T) {
	leftToStorms(t, "TestBuiltinAgents, and TestPromptsOf with TestFolder of agents/nomad")
	t.Parallel()
	dir := stub(t, `
if grep -q "a reviewer" "$HOME/prompt"; then
  if grep -q "Earlier review" "$HOME/prompt"; then v=approve; else v=request_changes; fi
  echo '{"verdict":"'$v'","summary":"As I see it."}' > "$DISINTO_WORKSPACE/verdict.json"
else
  { echo more; grep -o xylophone "$HOME/prompt"; } >> order.txt; git add order.txt; git commit -q -m "Work on the order"
fi`+stubDone)
	clis, address := os.Getenv("DISINTO_CLIS"), os.Getenv("NOMAD_ADDR")
	var heard atomic.Int64
	model := httptest.NewServer(&fakemodel.Model{Context: 65536, Answer: func(a fakemodel.Prompt) fakemodel.Turn {
		turn := scriptedModel(a)
		if strings.Contains(a.Text, houseRule) {
			heard.Add(1)
			turn.Shell = strings.Replace(turn.Shell, "echo more", "printf 'more\nxylophone\n'", 1)
		}
		return turn
	}})
	t.Cleanup(model.Close)
	for _, tt := range []struct {
		name, path, model, address string
		skip                       bool
	}{
		{"script", dir, "http://" + deadAddress(t), "", false},
		{"claude", clis, model.URL + "/v1", "", clis == ""},
		{"claude on the real Nomad", "", model.URL + "/v1", address, clis == "" || address == ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.skip {
				t.Skip("$DISINTO_CLIS or $NOMAD_ADDR is not set")
			}
			before := heard.Load()
			mergedOnNodes(t, tt.path, tt.model, tt.address)
			t.Logf("the model got %d requests with the factory's prompt", heard.Load()-before)
		})
	}
}

// mergedOnNodes runs a factory until an issue is merged. Its sessions run on nodes with path in their PATH.
func mergedOnNodes(t *testing.T, path, model, address string) {
	f := newTestForge(t)
	f.pick(8)
	if address == "" {
		fake := fakenomad.New(sharedDir(t), func(c fakenomad.Command) (fakenomad.Process, error) {
			c.Env = withEnv(c.Env, []string{"PATH=" + path + ":" + os.Getenv("PATH"), "IS_SANDBOX=1"})
			return startTask(t)(c)
		})
		address = newGateway(t, fake).server.URL
		t.Cleanup(fake.Close)
	}
	text := fmt.Sprintf(cliFactory, f.URL, demo.Repo, model, model, "claude", "claude")
	text = strings.ReplaceAll(text, "interval = \"500ms\"\nidle", "executor = \"nomad\"\ninterval = \"500ms\"\nidle")
	text += fmt.Sprintf("\n[nomad]\naddress = %q\nprogram = %q\n", address, executable(t))
	file, state := factoryFile(t, text), t.TempDir()
	prompt, err := os.ReadFile("../../agents/session/prompts/issue.md")
	if err == nil {
		err = os.Mkdir(filepath.Join(filepath.Dir(file), "prompts"), 0o755)
	}
	if err == nil {
		prompt = append(prompt, "\n"+houseRule+"\n"...)
		err = os.WriteFile(filepath.Join(filepath.Dir(file), "prompts", "issue.md"), prompt, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	environ := withEnv(f.environ(nil), []string{"ANTHROPIC_API_KEY=none", "IS_SANDBOX=1"})
	r := startDisinto(t, environ, "run", "--yes", "--config", file, "--state", state)
	var pulls []struct{ Number int }
	eventually(t, "there is a pull request", func() bool {
		f.get("/pulls?state=all", &pulls)
		return len(pulls) > 0
	})
	var issue struct{ State string }
	eventually(t, "the issue is closed", func() bool {
		f.get("/issues/8", &issue)
		return issue.State == "closed"
	})
	d := status(t, state, "no agent works", func(d *control.Document) bool { return len(d.Sessions) == 0 })
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d", code)
	}
	for _, e := range d.Recent {
		t.Logf("%s of #%d by %s: %s %s", e.Kind, e.Number, e.Agent, e.Outcome, e.Reason)
		if e.Outcome != agents.Done {
			t.Errorf("%s of #%d: got %s, want done", e.Kind, e.Number, e.Outcome)
		}
	}
	if order := f.raw(t, "order.txt"); !strings.Contains(order, "more\nxylophone\n") {
		t.Errorf("got order.txt %q", order)
	}
	f.noTokens(state)
}

// raw returns a file of the main branch.
func (f *testForge) raw(t *testing.T, name string) string {
	t.Helper()
	var file struct{ Content []byte }
	f.get("/contents/"+name, &file)
	return string(file.Content)
}
