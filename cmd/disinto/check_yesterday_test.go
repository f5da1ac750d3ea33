package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/decisions"
	"codeberg.org/johba/disinto/threads"
)

// yesterdays returns a state directory. In its journal, one slot did eight issues, one an hour. If config is not nil,
// the newest decision has config and two more issues that wait.
func yesterdays(t *testing.T, config *threads.Config) (state string) {
	t.Helper()
	state = t.TempDir()
	var journal strings.Builder
	list := waited(8)
	for i := range list {
		line, err := json.Marshal(map[string]any{"at": list[i].End, "past": &list[i]})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&journal, "%s\n", line)
	}
	if err := os.WriteFile(filepath.Join(state, "journal.jsonl"), []byte(journal.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if config == nil {
		return state
	}
	s := threads.Snapshot{Now: list[7].End, Config: config, History: threads.NewHistory()}
	for i := range int64(2) {
		s.Facts.Issues = append(s.Facts.Issues, forge.Issue{
			Ref: forge.Ref{Repo: "owner/name", Number: 20 + i}, Created: list[0].Ready, Labels: []string{forge.LabelBacklog},
		})
	}
	plan := threads.Decide(s)
	r, done := decisions.NewRecorder(), make(chan struct{})
	r.Take(s.Now, func() *threads.FrozenDecision { return s.Freeze(&plan, nil) })
	close(done)
	r.Keep(decisions.Options{StateDir: state}, done)
	return state
}

// check --yesterday reports what a file would have changed. It reads only the state directory, and changes nothing
// there.
func TestCheckYesterday(t *testing.T) {
	config := foreseen(t)
	config.Secrets, config.Agents[0].Token = nil, "s3cret"
	state := yesterdays(t, config)
	same := factoryFile(t, simulated)
	two := factoryFile(t, strings.Replace(simulated, "max_concurrent = 1", "max_concurrent = 2", 1))
	ask := func(args ...string) result {
		return disinto(t.Context(), nil, append([]string{"check", "--yesterday"}, args...)...)
	}
	got := ask("--state", state, "--config", same)
	if want := "in the 8h00m from 2 Jan 03:00 UTC with this file: no difference: 0 merged"; got.code != 0 ||
		!strings.Contains(got.stdout, want) {
		t.Errorf("the same file: got %d, %s%s", got.code, got.stdout, got.stderr)
	}
	got = ask("--state", state, "--config", two)
	if want := "with this file: 2 merged instead of 0, waits 2h"; got.code != 0 || !strings.Contains(got.stdout, want) ||
		!strings.Contains(got.stdout, " shorter") {
		t.Errorf("one more slot: got %d, %s%s", got.code, got.stdout, got.stderr)
	}
	got = ask("--state", state, "--config", two, "--json")
	var is struct {
		control.Hindsight
		Drift *control.Drift
	}
	err := json.Unmarshal([]byte(got.stdout), &is)
	if err != nil || is.Wait.Differs != -1 || is.Whole || is.Runs != lookBackRuns || is.Drift == nil || !is.Drift.Fits {
		t.Errorf("as JSON: got %v, %+v", err, is)
	}
	got = ask("--state", yesterdays(t, nil), "--config", same)
	if want := "0 merged, and 0 in the journal; waits of"; !strings.Contains(got.stdout, want) {
		t.Errorf("without decisions: got %d, %s%s", got.code, got.stdout, got.stderr)
	}
	for want, args := range map[string][]string{
		"cannot read the journal of the factory": {"--state", t.TempDir(), "--config", same},
		"unknown key":                            {"--state", state, "--config", factoryFile(t, simulated+"color = 1\n")},
		"run --fix or --notify separately":       {"--state", state, "--config", same, "--fix"},
	} {
		if got := ask(args...); got.code == 0 || !strings.Contains(got.stderr, want) || got.stdout != "" {
			t.Errorf("%v: got %d, %s%s", args, got.code, got.stdout, got.stderr)
		}
	}
	files, err := os.ReadDir(state)
	if err != nil || len(files) != 2 {
		t.Errorf("got %v in the state directory (%v), want 2 files", files, err)
	}
}

// A comparison whose time is over reports that no run finished. A comparison with an empty journal is an error.
func TestLookBackCut(t *testing.T) {
	q := supervisor.Hindsight{Was: foreseen(t), Is: foreseen(t), Past: waited(8)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	found, err := lookBack(ctx, q)
	if err != nil || found.Runs != 0 || !strings.Contains(found.Line(), "no run finished in time") {
		t.Errorf("got %+v, %v", found, err)
	}
	q.Past = nil
	if _, err := lookBack(t.Context(), q); err == nil {
		t.Error("empty journal: got no error")
	}
}

// The newest day's waits are compared with those of the days before. The current configuration keeps its tokens.
func TestLookForDrift(t *testing.T) {
	config := foreseen(t)
	config.Agents[0].Token = "s3cret"
	list := waited(72)
	for i := range list {
		list[i].Ready = list[i].Start.Add(-time.Minute)
	}
	q := supervisor.Drift{
		At: list[len(list)-1].End, Past: list, Config: supervisor.ConfigAt(t.TempDir(), config),
	}
	found := lookForDrift(t.Context(), q)
	if len(found.Days) != 1 || found.Days[0].Issues != 24 || found.Days[0].Half.Real != 60 ||
		found.Days[0].Half.High == 0 {
		t.Errorf("got %+v", found)
	}
	if config.Agents[0].Token != "s3cret" {
		t.Error("the current configuration lost a token")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if found := lookForDrift(ctx, q); len(found.Days) != 0 || !found.Fits {
		t.Errorf("without time: got %+v", found)
	}
}
