package main

import (
	"encoding/base64"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/forge/rest"
)

// splitter is a CLI that splits an issue into three with hostile texts, implements those, and approves every review.
const splitter = `
said() { grep -q "$1" "$HOME/prompt"; }
if said "Review pull request"; then
	echo '{"verdict":"approve","summary":"Good."}' > "$DISINTO_WORKSPACE/verdict.json"
elif said "is too large for one pull request"; then
	cat > "$DISINTO_WORKSPACE/answer.json" <<'JSON'
{"plan": "## First @all fixes #1 {#a}\n\nFixes #1. Depends on #1. @ada\n\n## $(reboot) {#b}\nDepends on: a\n\n## Third\nDepends on: b\n"}
JSON
else
	date +%N >> done.txt; git add -A; git commit -qm "do it"
fi` + stubDone

// tracked is an issue of the forge.
type tracked struct {
	Number      int
	Title, Body string
	State       string
	Labels      []struct{ Name string }
}

func (i *tracked) has(label string) bool {
	return slices.ContainsFunc(i.Labels, func(l struct{ Name string }) bool { return l.Name == label })
}

// parts returns the issues that are part of an issue, oldest first.
func (f *testForge) parts(of int) (list []tracked) {
	var all []tracked
	f.get("/issues?state=all&type=issues&limit=50", &all)
	for _, i := range slices.Backward(all) {
		if strings.HasPrefix(i.Body, fmt.Sprintf("Part of #%d.", of)) {
			list = append(list, i)
		}
	}
	return list
}

// The real program splits an issue with the built-in agent. It is killed at its first write after the approval, the
// next one after its second, and so on, in turns before and after the forge has handled it, until a supervisor gets to
// the end. There are three issues and no twin, and all of them are merged in order.
func TestSplitKilled(t *testing.T) {
	leftToStorms(t, "TestSplit and TestSplitKilledAnywhere of supervisor/simtest")
	f := newTestForge(t)
	g := &gate{who: "supervisor", how: "write", forge: f.forge, token: f.Tokens["FORGE_TOKEN"]}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	state := t.TempDir()
	const nowhere = "http://127.0.0.1:9"
	text := fmt.Sprintf(cliFactory, server.URL, demo.Repo, nowhere, nowhere, "claude", "claude")
	path := factoryFile(t, text)
	environ := withEnv(f.environ(nil), []string{
		"PATH=" + stub(t, splitter) + ":" + os.Getenv("PATH"), "ANTHROPIC_API_KEY=none", "PWD=" + t.TempDir(),
	})
	run := func() *running { return startDisinto(t, environ, "run", "--yes", "--config", path, "--state", state) }
	r := run()
	eventually(t, "the label exists", func() bool {
		var labels []struct{ Name string }
		f.get("/labels?limit=50", &labels)
		return slices.ContainsFunc(labels, func(l struct{ Name string }) bool { return l.Name == "split-first" })
	})
	f.tag(f.HumanToken, 8, "split-first")
	f.pick(8)
	plan := f.heard(8, "would split this into 3 issues")
	r.signal(syscall.SIGTERM)
	r.wait()

	f.like(f.Tokens[agents.TokenVar("dev-qwen")], plan.ID)
	human := rest.API{URL: f.URL, Token: f.HumanToken}
	moved := map[string]string{"content": base64.StdEncoding.EncodeToString([]byte("moved\n")), "message": "move main"}
	if err := human.Post(t.Context(), "/repos/"+demo.Repo+"/contents/moved.txt", moved, nil); err != nil {
		t.Fatal(err)
	}
	f.like(f.HumanToken, plan.ID)
	lives := f.splitBetweenKills(g, run)
	parts := f.parts(8)
	var titles []string
	for i := range parts {
		titles = append(titles, parts[i].Title)
		if !parts[i].has("picked") {
			t.Errorf("%q lacks the label of its role: %v", parts[i].Title, parts[i].Labels)
		}
	}
	if want := []string{"First @ all fixes # 1", "$(reboot)", "Third"}; !slices.Equal(titles, want) {
		t.Errorf("got the issues %q, want %q", titles, want)
	}
	if lives < 9 { // a tenth, if the last kill is seen before the last write
		t.Errorf("got %d lives, want one for each of at least 9 writes", lives)
	}
	r = run()
	for i := range parts {
		f.closed(parts[i].Number)
	}
	f.closed(8)
	var first tracked
	if f.get("/issues/1", &first); first.State != "open" {
		t.Error("the text of a part closed #1")
	}
	r.signal(syscall.SIGTERM)
	r.wait()
}

// splitBetweenKills starts supervisors until one splits issue 8 before it is killed, and returns how many it took.
func (f *testForge) splitBetweenKills(g *gate, run func() *running) (lives int) {
	for {
		lives++
		g.mu.Lock()
		g.at, g.after, g.count, g.killed = lives, lives%2 == 0, 0, make(chan struct{})
		g.mu.Unlock()
		r := run()
		g.arm(func() { r.signal(syscall.SIGKILL) })
		split := false
		eventually(f.t, "it is split or killed", func() bool {
			var is tracked
			f.get("/issues/8", &is)
			split = is.has("convoy") && !is.has("split-first")
			select {
			case <-g.killed:
				return true
			default:
				return split
			}
		})
		g.arm(nil)
		if split {
			r.signal(syscall.SIGTERM)
			r.wait()
			return lives
		}
		r.wait()
	}
}
