package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/forge/rest"
	"codeberg.org/johba/disinto/supervisor/control"
)

// This file has the acceptance tests of lazy assignment that need a forge and processes. supervisor has the others.

// onEachForge runs a test on localforge, and on the Forgejo at FORGE_TEST_URL with FORGE_TEST_ADMIN_TOKEN. There it
// creates the demo's accounts and deletes them afterwards.
func onEachForge(t *testing.T, test func(t *testing.T, f *testForge)) {
	t.Run("localforge", func(t *testing.T) {
		t.Parallel()
		test(t, newTestForge(t))
	})
	t.Run("forgejo", func(t *testing.T) {
		url, token := os.Getenv("FORGE_TEST_URL"), os.Getenv("FORGE_TEST_ADMIN_TOKEN")
		if url == "" || token == "" {
			t.Skip("FORGE_TEST_URL and FORGE_TEST_ADMIN_TOKEN are not set")
		}
		purge(t, url, token) // leftovers of an interrupted run
		t.Cleanup(func() { purge(t, url, token) })
		world, err := demo.Build(t.Context(), url, token)
		if err != nil {
			t.Fatal(err)
		}
		test(t, &testForge{World: world, admin: rest.API{URL: url, Token: token}, reaper: oneReaper(t), t: t})
	})
}

// purge deletes the demo's accounts with everything they own.
func purge(t *testing.T, url, adminToken string) {
	t.Helper()
	admin := rest.API{URL: url, Token: adminToken}
	type user struct{ Login, Email string }
	var all []user
	var err error
	for page := 1; err == nil; page++ {
		var some []user
		err = admin.Call(context.Background(), http.MethodGet, fmt.Sprintf("/admin/users?limit=50&page=%d", page), nil, &some)
		if all = append(all, some...); len(some) == 0 {
			break
		}
	}
	for _, a := range all {
		if err == nil && strings.HasSuffix(a.Email, "@demo.invalid") {
			err = admin.Call(context.Background(), http.MethodDelete, "/admin/users/"+a.Login+"?purge=true", nil, nil)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// startLazy starts a supervisor that scans the forge once an hour. Its developers take only issues labelled picked,
// so the demo's backlog is not worked on.
func startLazy(f *testForge, think string, edits ...string) (state string) {
	f.t.Helper()
	state = f.t.TempDir()
	f.startRun(state, nil, slices.Concat(edits, unscheduled, []string{
		"[roles.dev]", "[roles.dev]\nlabel = \"picked\"", `interval = "1s"`, `interval = "1h"`,
		`idle_interval = "2s"`, `idle_interval = "1h"`,
		`"demo-agent"`, fmt.Sprintf(`"demo-agent", "--think", %q`, think),
	})...)
	status(f.t, state, "the forge was read", func(d *control.Document) bool { return d.Forge.OK && len(d.Queue) > 0 })
	return state
}

// Fifty simultaneous slings of one issue cause one start, and all answers name the agent.
func TestA5_RaceOnAForge(t *testing.T) {
	leftToStorms(t, "TestA5_Race of supervisor")
	onEachForge(t, race)
}

func race(t *testing.T, f *testForge) {
	state := startLazy(f, "1h")
	f.pick(8)
	answers := make([]result, 50)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i] = disinto(t.Context(), nil, "sling", "8", "--wait", "--state", state) })
	}
	all.Wait()
	for _, a := range answers {
		if a.code != exitDone || a.stdout != answers[0].stdout ||
			!strings.Contains(a.stdout, " is on it: "+demo.Repo+"#8, slot llama/") {
			t.Fatalf("got exit code %d, %q, %q; another answer was %q", a.code, a.stdout, a.stderr, answers[0].stdout)
		}
	}
	d := status(t, state, "an agent works", working)
	if got := f.claimed(); !slices.Equal(got, []int{8}) {
		t.Errorf("got claimed issues %v", got)
	}
	if n := len(slices.DeleteFunc(d.Sessions,
		func(s control.SessionDocument) bool { return s.Kind != agents.KindIssue })); n != 1 {
		t.Errorf("got %d sessions, want 1", n)
	}
}

// A plan that is a chain becomes issues. One agent does them one after the other, and the convoy closes.
func TestB1_SerialOnAForge(t *testing.T) {
	leftToStorms(t, "TestB1_Serial of the supervisor")
	onEachForge(t, serial)
}

func serial(t *testing.T, f *testForge) {
	state := startLazy(f, "50ms")
	const steps = 5
	var text strings.Builder
	text.WriteString("# In a row\n\nNeeds them all.\n")
	for i := 1; i <= steps; i++ {
		fmt.Fprintf(&text, "\n## Step %d\nLabels: picked\n", i)
		if i > 1 {
			fmt.Fprintf(&text, "Depends on: %d\n", i-1)
		}
		fmt.Fprintf(&text, "\nAdd `step%d.md`.\n", i)
	}
	path := filepath.Join(t.TempDir(), "plan.md")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	got := disinto(t.Context(), nil, "convoy", "create", path, "--state", state)
	if got.code != exitDone || !strings.Contains(got.stdout, fmt.Sprintf("convoy of %d made, filed #", steps)) {
		t.Fatalf("got exit code %d, %q, %q", got.code, got.stdout, got.stderr)
	}
	var convoy int
	if _, err := fmt.Sscanf(got.stdout, demo.Repo+"#%d:", &convoy); err != nil {
		t.Fatal(err)
	}
	most := 0
	// A minute for each: on a real forge one takes six seconds, and twelve on a busy machine.
	for n := convoy - steps; n <= convoy; n++ {
		eventually(t, fmt.Sprintf("#%d is closed", n), func() bool {
			most = max(most, len(f.claimed()))
			var is struct{ State string }
			f.get(fmt.Sprintf("/issues/%d", n), &is)
			return is.State == "closed"
		})
	}
	by := map[string]int{}
	for _, s := range status(t, state, "the supervisor answers", func(*control.Document) bool { return true }).Recent {
		if s.Kind == agents.KindIssue {
			by[s.Agent]++
		}
	}
	if len(by) != 1 || most > 1 {
		t.Errorf("got sessions by agent %v, at most %d assigned at a time", by, most)
	}
	for _, n := range by {
		if n != steps {
			t.Errorf("got %d starts", n)
		}
	}
	got = disinto(t.Context(), nil, "convoy", "status", itoa(convoy), "--state", state)
	if !strings.Contains(got.stdout, fmt.Sprintf("done, %[1]d members: %[1]d done\n", steps)) {
		t.Errorf("convoy status: got %q %q", got.stdout, got.stderr)
	}
	var comments []struct{ Body string }
	f.get(fmt.Sprintf("/issues/%d/comments", convoy), &comments)
	if len(comments) != 1 || !strings.Contains(comments[0].Body, fmt.Sprintf("%[1]d of %[1]d members are merged", steps)) {
		t.Errorf("got comments %q", comments)
	}
}

// A cycle through two repositories is found before anything is written. A convoy may have members in both.
func TestB5_CircleAcrossRepositories(t *testing.T) {
	leftToStorms(t, "TestB5_Circles of supervisor")
	t.Parallel()
	f := newTestForge(t)
	admin := rest.API{URL: f.URL, Token: f.adminToken()}
	const annex = demo.Human + "/annex"
	say := func(method, path string, in any) {
		t.Helper()
		if err := admin.Call(t.Context(), method, path, in, nil); err != nil {
			t.Fatal(err)
		}
	}
	say(http.MethodPost, "/admin/users/"+demo.Human+"/repos", map[string]any{
		"name": "annex", "auto_init": true,
		"default_branch": "main",
	})
	say(http.MethodPut, "/repos/"+annex+"/collaborators/disinto", map[string]string{"permission": "write"})
	say(http.MethodPost, "/repos/"+annex+"/issues", map[string]string{"title": "Build it"})
	say(http.MethodPost, "/repos/"+annex+"/issues/1/dependencies",
		map[string]any{"owner": demo.Human, "repo": "teashop", "index": 8})
	state := startLazy(f, "1h", `repos = ["`+demo.Repo+`"]`, `repos = ["`+demo.Repo+`", "`+annex+`"]`)
	issues := func() (count int) {
		for _, repo := range []string{demo.Repo, annex} {
			var all []struct{ Number int }
			err := admin.Call(t.Context(), http.MethodGet, "/repos/"+repo+"/issues?state=all&limit=50", nil, &all)
			if err != nil {
				t.Fatal(err)
			}
			count += len(all)
		}
		return count
	}
	before := issues()
	got := disinto(t.Context(), nil, "convoy", "create", "--title", "Round", "--chain", annex+"#1", demo.Repo+"#11",
		demo.Repo+"#8", "--state", state)
	want := "issues would wait for each other: #1 -> ada/teashop#8 -> ada/teashop#11 -> #1"
	if got.code != exitFailed || !strings.Contains(got.stderr, want) {
		t.Errorf("got exit code %d, %q, %q", got.code, got.stdout, got.stderr)
	}
	if after := issues(); after != before {
		t.Errorf("got %d issues before and %d after", before, after)
	}
	got = disinto(t.Context(), nil, "convoy", "create", "--title", "Both", "--staged", "--repo", annex, "1",
		demo.Repo+"#8", "--state", state)
	if got.code != exitDone || !strings.Contains(got.stdout, annex+"#2: convoy of 2 made") {
		t.Fatalf("got exit code %d, %q, %q", got.code, got.stdout, got.stderr)
	}
	got = disinto(t.Context(), nil, "convoy", "status", annex+"#2", "--state", state)
	if !strings.Contains(got.stdout, "staged, 2 members: 2 blocked") ||
		!strings.Contains(got.stdout, "1     "+demo.Repo+"#8") {
		t.Errorf("got status %q", got.stdout)
	}
}

// A dependency in an issue's text blocks it. Without the line, the issue starts after the next scan.
func TestB11_TextOnAForge(t *testing.T) { onEachForge(t, inText) }

func inText(t *testing.T, f *testForge) {
	state := startLazy(f, "1h")
	got := disinto(t.Context(), nil, "sling", "--title", "Later", "--body", "Depends on #11", "--role", "dev",
		"--state", state)
	if got.code != exitNotNow || !strings.Contains(got.stdout, "not yet: blocked by "+demo.Repo+"#11 (place ") {
		t.Fatalf("got exit code %d, %q, %q", got.code, got.stdout, got.stderr)
	}
	var n int
	if _, err := fmt.Sscanf(got.stdout, demo.Repo+"#%d:", &n); err != nil {
		t.Fatal(err)
	}
	if len(f.claimed()) > 0 {
		t.Errorf("got claimed issues %v", f.claimed())
	}
	human := rest.API{URL: f.URL, Token: f.HumanToken}
	if err := human.Call(t.Context(), http.MethodPatch, fmt.Sprintf("/repos/%s/issues/%d", demo.Repo, n),
		map[string]string{"body": "Whenever."}, nil); err != nil {
		t.Fatal(err)
	}
	got = disinto(t.Context(), nil, "sling", itoa(n), "--wait", "--state", state)
	if got.code != exitDone || !strings.Contains(got.stdout, " is on it: ") {
		t.Errorf("got exit code %d, %q, %q", got.code, got.stdout, got.stderr)
	}
}
