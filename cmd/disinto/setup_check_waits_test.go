package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/forge/rest"
)

// check refuses work that can wait for ever, also with --offline, and reports what is of no use as a note.
func TestCheckWaits(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	labelled := []string{"[roles.review]\n", "[roles.review]\nlabel = \"docs\"\n"}
	for _, tt := range []struct {
		name  string
		edits []string
		args  []string
		code  int
		says  string
	}{
		{name: "sound", code: exitDone, says: "reviewers  every author's work has a reviewer"},
		{name: "offline", args: []string{"--offline"}, edits: labelled, code: exitFailed, says: "can wait for ever"},
		{
			name: "note", edits: []string{"max_concurrent = 2", "max_concurrent = 5"}, code: exitDone,
			says: "threads.llama: max_concurrent = 5, but at most ",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"check", "--config", f.file(t.TempDir(), tt.edits...)}, tt.args...)
			got := disinto(t.Context(), f.environ(nil), args...)
			if got.code != tt.code || !strings.Contains(got.stdout, tt.says) {
				t.Errorf("got exit code %d, want %d and %q in\n%s", got.code, tt.code, tt.says, got.stdout)
			}
			if alarm := regexp.MustCompile(`(?m)^note +(order|slots|rules) `); tt.name == "sound" &&
				alarm.MatchString(got.stdout) {
				t.Errorf("the demo has a note about a mistake:\n%s", got.stdout)
			}
		})
	}
}

// A missing reviewer is reported once.
func TestCheckTellsOnce(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	path := f.file(t.TempDir(), `"review-sonnet"`, "", `, ]`, "]",
		"[agents.review-sonnet]\ntoken = \"$FORGE_TOKEN_REVIEW_SONNET\"\n", "",
		`agents = ["dev-kimi", `, `agents = ["dev-kimi", "review-kimi", `)
	got := disinto(t.Context(), f.environ(map[string]string{"FORGE_TOKEN_REVIEW_KIMI": "0123456789"}), "check",
		"--offline", "--json",
		"--config", path)
	var answer struct{ Findings []screen.Finding }
	if err := json.Unmarshal([]byte(got.stdout), &answer); err != nil {
		t.Fatalf("%v in\n%s%s", err, got.stdout, got.stderr)
	}
	told := 0
	for _, finding := range answer.Findings {
		if finding.About == "reviewers" {
			t.Errorf("a line about reviewers contradicts it: %+v", finding)
		}
		if strings.Contains(finding.Text, "nobody may review the work of dev-kimi") {
			told++
			if !finding.Problem {
				t.Errorf("got finding %+v", finding)
			}
		}
	}
	if told != 1 {
		t.Errorf("reported %d times in\n%s", told, got.stdout)
	}
}

// The labels of open issues count as used: an issue whose skill no agent has can never be done.
func TestCheckReadsIssues(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	human := rest.API{URL: f.URL, Token: f.HumanToken}
	label := struct{ ID int64 }{}
	made := map[string]any{"name": "skill/cobol", "color": "#00ff00"}
	if err := human.Post(t.Context(), "/repos/"+demo.Repo+"/labels", made, &label); err != nil {
		t.Fatal(err)
	}
	var labels []struct {
		ID   int64
		Name string
	}
	f.get("/labels", &labels)
	ids := []int64{label.ID}
	for _, l := range labels {
		if l.Name == "backlog" {
			ids = append(ids, l.ID)
		}
	}
	issue := map[string]any{"title": "the ledger", "labels": ids}
	if err := human.Post(t.Context(), "/repos/"+demo.Repo+"/issues", issue, nil); err != nil {
		t.Fatal(err)
	}
	path := f.file(t.TempDir())
	const says = "with skill/cobol can never be done: no agent that may take it has skill/cobol"
	if got := disinto(t.Context(), f.environ(nil), "check", "--config", path); got.code != exitFailed ||
		!strings.Contains(got.stdout, says) {
		t.Errorf("got exit code %d, want 1 and %q in\n%s", got.code, says, got.stdout)
	}
	if got := disinto(t.Context(), f.environ(nil), "check", "--offline", "--config", path); got.code != exitDone {
		t.Errorf("offline: got exit code %d\n%s", got.code, got.stdout)
	}
}
