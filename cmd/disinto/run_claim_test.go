package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge/localforge"
	"codeberg.org/johba/disinto/forge/rest"
)

// sharedAgent records its issue and run in a ledger shared by all supervisors, sleeps, and refuses, so that one
// session ends its issue. It sleeps longer than a second, the resolution of the forge's times: a claim compares the
// issue's last change with the scan's to detect work done in between.
const sharedAgent = `
echo "$DISINTO_NUMBER $DISINTO_RUN_ID" >>"$1"
sleep 1.2
echo "{\"outcome\":\"refused\",\"reason\":\"told\"}" >"$DISINTO_RESULT"
`

// Two supervisors with separate state directories share a forge. Each issue is worked on once, by either of them,
// whether their agents share accounts or not, and no claim remains.
func TestTwoSupervisors(t *testing.T) {
	leftToStorms(t, "TestClaimRefRace and TestExercise of forge/forgejo, where several claim an issue at once")
	issues := 6
	if storms() {
		issues = 24
	}
	for _, tt := range []struct {
		name string
		of   [2][]string // the agents of each supervisor
	}{
		{"the same accounts", [2][]string{{"dev-a", "dev-b"}, {"dev-a", "dev-b"}}},
		{"accounts of their own", [2][]string{{"dev-a", "dev-b"}, {"dev-c", "dev-d"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.of[0][0] != tt.of[1][0] {
				leftToStorms(t, "the same accounts, which is harder")
			}
			t.Parallel()
			w := newShared(t, issues)
			for i, own := range tt.of {
				w.start(own, tt.of[1-i])
			}
			eventually(t, "every issue waits for a person", func() bool {
				return w.carry("needs-human") == issues && w.carry("in-progress") == 0
			})
			for _, r := range w.all {
				r.signal(syscall.SIGTERM)
			}
			for _, r := range w.all {
				r.wait()
			}
			w.check(issues)
		})
	}
}

// shared is a forge that several supervisors use.
type shared struct {
	t       *testing.T
	api     rest.API
	ledger  string
	environ []string
	all     []*running
}

func newShared(t *testing.T, issues int) *shared {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	f, err := localforge.New(localforge.Options{Dir: t.TempDir(), Run: forgeGit(oneReaper(t), os.Environ())})
	must(err)
	server := httptest.NewServer(f)
	t.Cleanup(func() { server.Close(); f.Close() })
	must(f.AddUser("ada", "", true))
	token, err := f.AddToken("ada")
	must(err)
	must(f.AddRepo(t.Context(), "ada", "shared", map[string]string{"README.md": "# shared\n"}))
	w := &shared{
		t: t, api: rest.API{URL: server.URL, Token: token}, ledger: filepath.Join(t.TempDir(), "ledger"),
		environ: []string{"FORGE_TOKEN=" + token},
	}
	for _, agent := range []string{"dev-a", "dev-b", "dev-c", "dev-d"} {
		must(f.AddUser(agent, "", false))
		must(f.AddCollaborator("ada", "shared", agent, "write"))
		token, err := f.AddToken(agent)
		must(err)
		w.environ = append(w.environ, agents.TokenVar(agent)+"="+token)
	}
	var label struct{ ID int64 }
	must(w.api.Post(t.Context(), "/repos/ada/shared/labels", map[string]any{"name": "backlog", "color": "#ffffff"},
		&label))
	for i := range issues {
		issue := map[string]any{"title": fmt.Sprint("issue ", i+1), "labels": []int64{label.ID}}
		must(w.api.Post(t.Context(), "/repos/ada/shared/issues", issue, nil))
	}
	return w
}

// start starts a supervisor with agents, which knows the other supervisor's agents as bots.
func (w *shared) start(own, others []string) {
	w.t.Helper()
	state := filepath.Join(w.t.TempDir(), "state")
	others = slices.DeleteFunc(slices.Clone(others), func(name string) bool { return slices.Contains(own, name) })
	text := fmt.Sprintf("[forge]\nurl = %q\ntoken = \"$FORGE_TOKEN\"\nrepos = [\"ada/shared\"]\nbots = [%s]\n\n"+
		"[factory]\nstate = %q\n",
		w.api.URL, quoted(others), state)
	text += fmt.Sprintf("\n[threads.api]\nbackend = \"anthropic\"\nmax_concurrent = 2\ninterval = \"1s\"\n"+
		"idle_interval = \"1s\"\nagents = [%s]\n", quoted(own))
	text += fmt.Sprintf("\n[roles.dev]\non = \"issue\"\ncommand = [\"/bin/sh\", \"-c\", %q, \"agent\", %q]\n"+
		"sandbox_write = [%q]\n",
		sharedAgent, w.ledger, filepath.Dir(w.ledger))
	w.all = append(w.all, startDisinto(w.t, w.environ, "run", "--yes", "--config", factoryFile(w.t, text)))
}

func quoted(names []string) string {
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf("%q", name))
	}
	return strings.Join(list, ", ")
}

// carry counts the issues with a label. It filters here, because the forge ignores a label that does not exist yet.
func (w *shared) carry(label string) (count int) {
	w.t.Helper()
	var list []struct{ Labels []struct{ Name string } }
	if err := w.api.Get(w.t.Context(), "/repos/ada/shared/issues?state=all&limit=50", &list); err != nil {
		w.t.Fatal(err)
	}
	for _, is := range list {
		if slices.ContainsFunc(is.Labels, func(l struct{ Name string }) bool { return l.Name == label }) {
			count++
		}
	}
	return count
}

// runs returns the lines of the ledger.
func (w *shared) runs() []string {
	text, _ := os.ReadFile(w.ledger)
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// check checks that each issue was worked on once, by both supervisors together, and that no claim remains.
func (w *shared) check(issues int) {
	w.t.Helper()
	times, shares := map[string]int{}, map[string]int{}
	for _, line := range w.runs() {
		number, run, _ := strings.Cut(line, " ")
		instance, _, _ := strings.Cut(run, "-")
		times[number]++
		shares[instance]++
	}
	for n := range issues {
		if got := times[fmt.Sprint(n+1)]; got != 1 {
			w.t.Errorf("issue %d: got %d sessions, want 1", n+1, got)
		}
	}
	if len(shares) != len(w.all) {
		w.t.Errorf("got %d supervisors with sessions, want %d", len(shares), len(w.all))
	}
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet,
		w.api.URL+"/api/v1/repos/ada/shared/git/refs/disinto", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "token "+w.api.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		w.t.Errorf("got refs of claims: %s", resp.Status)
	}
	w.t.Logf("shares: %v", shares)
}
