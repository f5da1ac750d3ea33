package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/answers"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// Without a supervisor, why --at reads the answers that the last one stored: an issue waits while everything is
// paused, and starts half an hour later.
func TestWhyPast(t *testing.T) {
	config := foreseen(t)
	config.Secrets = nil
	state := t.TempDir()
	s := threads.Snapshot{Now: noon.Add(-time.Hour), Config: config, History: threads.NewHistory()}
	s.Facts.Repos = []forge.Repo{{Name: "owner/name", AsOf: s.Now, DefaultBranch: "main"}}
	s.Facts.Issues = []forge.Issue{{
		Ref: forge.Ref{Repo: "owner/name", Number: 20}, Title: "a bell", Created: s.Now, BlockersKnown: true, AsOf: s.Now,
		Labels: []string{forge.LabelBacklog},
	}}
	r := new(answers.Recorder)
	decide := func() {
		plan := threads.Decide(s)
		r.Write(s.Now, r.Changes(&s, &plan))
	}
	r.Begin(s.Now, state, "v1.2", nil)
	s.History.Paused[threads.Pause{}] = threads.PauseNote{PausedAt: s.Now}
	decide()
	s.Now, s.History.Paused = noon.Add(-30*time.Minute), nil
	decide()
	r.End(noon)
	why := func(at string, args ...string) result {
		return disinto(t.Context(), nil, append([]string{"why", "20", "--state", state, "--at", at}, args...)...)
	}
	for at, want := range map[string]string{"-45m": "everything is paused", "11:30": "works on it on"} {
		if got := why(at); got.code != exitDone || !strings.Contains(got.stdout, want) ||
			got.stderr != "" {
			t.Errorf("--at %s: got %d, %s%s", at, got.code, got.stdout, got.stderr)
		}
	}
	var ex threads.Explanation
	got := why("-45m", "--json")
	if err := json.Unmarshal([]byte(got.stdout), &ex); err != nil || !ex.Since.Equal(noon.Add(-time.Hour)) ||
		ex.Code != threads.Paused {
		t.Errorf("--json: got %v, %s%s", err, got.stdout, got.stderr)
	}
	got = why("-2h")
	if got.code != exitFailed ||
		!strings.Contains(got.stderr, "the first kept answer is from 2026-11-03T11:00:00Z") {
		t.Errorf("before the first answer: got %d, %s%s", got.code, got.stdout, got.stderr)
	}
	for _, args := range [][]string{
		{"20", "--at", ""},
		{"", "--until"},
		{"20", "--until", "--at", ""},
		{"20", "--at", "-45m", "--all"},
		{"--all"},
		{"--until"},
		{"--at", "-45m"},
	} {
		got := disinto(t.Context(), nil, append([]string{"why", "--state", state}, args...)...)
		if got.code != exitUsage || got.stdout != "" {
			t.Errorf("%q: got %d, %s%s", args, got.code, got.stdout, got.stderr)
		}
	}
}

// Without a supervisor, why gives the last saved reason, says how old it is, and fails: for an issue, and for the
// factory.
func TestWhyLost(t *testing.T) {
	state := t.TempDir()
	err := control.NewStatusFile(state).Write(&control.Document{Version: "v1", Unqueued: []control.QueueDocument{{
		Kind: "issue", Repo: "owner/name", Number: 20, Title: "a bell",
		Code: threads.BlockerOpen, Why: "blocked by owner/name#3",
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"20"}, "waits: blocked by"},
		{[]string{"owner/name#20"}, "waits: blocked by"},
		{nil, "it depends on open issues: #20"},
	} {
		got := disinto(t.Context(), nil, append([]string{"why", "--state", state}, tt.args...)...)
		if got.code != exitFailed || !strings.HasPrefix(got.stdout, "no supervisor runs: last state of ") ||
			!strings.Contains(got.stdout, tt.want) || strings.Contains(got.stdout, "by itself") {
			t.Errorf("%q: got %d, %s%s", tt.args, got.code, got.stdout, got.stderr)
		}
	}
	got := disinto(t.Context(), nil, "why", "--state", state, "21")
	if got.code != exitFailed || got.stdout != "" || !strings.Contains(got.stderr, "no supervisor") {
		t.Errorf("an unknown item: got %d, %s%s", got.code, got.stdout, got.stderr)
	}
}
