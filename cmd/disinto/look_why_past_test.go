package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/answers"
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
	s.History.Paused[threads.Pause{}] = s.Now
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
		{"20", "--at", ""}, {"", "--until"}, {"20", "--until", "--at", ""}, {"20", "--at", "-45m", "--all"},
	} {
		got := disinto(t.Context(), nil, append([]string{"why", "--state", state}, args...)...)
		if got.code != exitUsage || got.stdout != "" {
			t.Errorf("%q: got %d, %s%s", args, got.code, got.stdout, got.stderr)
		}
	}
}
