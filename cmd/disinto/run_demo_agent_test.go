package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/forge/localforge"
	"codeberg.org/johba/disinto/forge/rest"
)

// testForge is the demo's forge in this process, with the demo's issues.
type testForge struct {
	*demo.World
	forge  *localforge.Forge // nil on a real forge
	admin  rest.API
	reaper *process.Reaper
	t      *testing.T
}

func newTestForge(t *testing.T) *testForge {
	t.Helper()
	reaper := oneReaper(t)
	f, err := localforge.New(localforge.Options{Dir: t.TempDir(), Run: forgeGit(reaper, os.Environ())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	if err := f.AddUser(forgeAdmin, "", true); err != nil {
		t.Fatal(err)
	}
	token, err := f.AddToken(forgeAdmin)
	if err != nil {
		t.Fatal(err)
	}
	world, err := demo.Build(t.Context(), server.URL, token)
	if err != nil {
		t.Fatal(err)
	}
	return &testForge{world, f, rest.API{URL: server.URL, Token: token}, reaper, t}
}

// addReader adds an account with read access only, and returns its token.
func (f *testForge) addReader() (token string) {
	f.t.Helper()
	owner, name, _ := strings.Cut(demo.Repo, "/")
	if err := f.forge.AddUser("eve", "", false); err != nil {
		f.t.Fatal(err)
	}
	if err := f.forge.AddCollaborator(owner, name, "eve", "read"); err != nil {
		f.t.Fatal(err)
	}
	token, err := f.forge.AddToken("eve")
	if err != nil {
		f.t.Fatal(err)
	}
	return token
}

// session runs one session of a demo agent and returns its result.
func (f *testForge) session(workspace, agent string, kind agents.Kind, role string, number int) agents.Outcome {
	f.t.Helper()
	resultPath := filepath.Join(f.t.TempDir(), "result.json")
	vars := map[string]string{
		"DISINTO_AGENT": agent, "DISINTO_KIND": string(kind), "DISINTO_ROLE": role, "DISINTO_REPO": demo.Repo,
		"DISINTO_NUMBER": strconv.Itoa(number), "DISINTO_WORKSPACE": workspace, "DISINTO_RESULT": resultPath,
		"FORGE_URL": f.URL, "FORGE_TOKEN": f.Tokens[agents.TokenVar(agent)],
	}
	environ := append(os.Environ(), "GIT_AUTHOR_NAME="+agent, "GIT_AUTHOR_EMAIL="+agent+"@x", "GIT_COMMITTER_NAME="+agent,
		"GIT_COMMITTER_EMAIL="+agent+"@x")
	a := demo.Agent{
		Getenv: func(name string) string { return vars[name] }, Git: agentGit(f.reaper, environ), Out: f.t.Output(),
	}
	_ = a.Run(f.t.Context())
	text, err := os.ReadFile(resultPath)
	if err != nil {
		f.t.Fatalf("%s wrote no result: %v", agent, err)
	}
	out, err := agents.ParseResult(text)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

// get requests a path from the forge as the demo's person.
func (f *testForge) get(path string, into any) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet,
		f.URL+"/api/v1/repos/"+demo.Repo+path, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Authorization", "token "+f.HumanToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		f.t.Fatal(err)
	}
}

// A NUL byte hides nothing from the demo's reviewer. git calls such a file binary, and shows none of its text.
func TestDemoReviewsAllText(t *testing.T) {
	f := newTestForge(t)
	post := func(path string, in, out any) {
		t.Helper()
		if err := f.admin.Post(t.Context(), "/repos/"+demo.Repo+path, in, out); err != nil {
			t.Fatal(err)
		}
	}
	post("/contents/hidden.md", map[string]string{
		"content": base64.StdEncoding.EncodeToString([]byte("\x00\nTODO: look\n")), "branch": "main", "new_branch": "hidden",
		"message": "hidden",
	}, nil)
	var pull struct{ Number int }
	post("/pulls", map[string]string{"title": "hidden", "head": "hidden", "base": "main"}, &pull)
	f.session(t.TempDir(), "review-sonnet", agents.KindReview, "review", pull.Number)
	var reviews []struct{ State string }
	f.get(fmt.Sprintf("/pulls/%d/reviews", pull.Number), &reviews)
	if len(reviews) != 1 || reviews[0].State != "REQUEST_CHANGES" {
		t.Errorf("got reviews %v, want one that requests changes", reviews)
	}
}

// The scripted agents do the work of agents, in the order in which a supervisor starts them: implement, request
// changes, rework, approve. One that starts too early reports that the files it builds on are missing.
func TestDemoAgents(t *testing.T) {
	leftToStorms(t, "TestDemoInterrupted, whose agents start")
	f := newTestForge(t)
	early := f.session(t.TempDir(), "dev-qwen", agents.KindIssue, "dev", 2)
	if early.Result != agents.Failed || early.Reason != "cannot build on orders/format.md: it does not exist yet" {
		t.Errorf("got outcome %+v", early)
	}
	dev, reviewer := t.TempDir(), t.TempDir()
	step := func(workspace, agent string, kind agents.Kind, number int) {
		t.Helper()
		if out := f.session(workspace, agent, kind, "", number); out.Result != agents.Done {
			t.Fatalf("%s %s: got %+v, want done", agent, kind, out)
		}
	}
	step(dev, "dev-qwen", agents.KindIssue, 8)
	var pull struct {
		Number int
		Title  string
		Body   string
		User   struct{ Login string }
		Head   struct{ Ref string }
	}
	f.get("/pulls/12", &pull)
	if pull.User.Login != "dev-qwen" || pull.Head.Ref != "fix/issue-8" || pull.Body != "created by dev-qwen\n\nFixes #8" ||
		!strings.HasSuffix(pull.Title, " (created by dev-qwen)") {
		t.Errorf("got pull request %+v", pull)
	}
	step(reviewer, "review-sonnet", agents.KindReview, 12)
	step(dev, "dev-qwen", agents.KindRework, 12)
	step(reviewer, "review-sonnet", agents.KindReview, 12)
	var reviews []struct{ State, Body string }
	f.get("/pulls/12/reviews", &reviews)
	if len(reviews) != 2 || reviews[0].State != "REQUEST_CHANGES" || reviews[1].State != "APPROVED" {
		t.Fatalf("got reviews %+v", reviews)
	}
	if !strings.Contains(reviews[0].Body, "still to do: a name may contain spaces.") ||
		!strings.Contains(reviews[0].Body, "reviewed by review-sonnet") {
		t.Errorf("got the review %q", reviews[0].Body)
	}
}
