package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// olderFactory has the agents of the journal that the program of commit eb0195a3 wrote.
const olderFactory = `
[forge]
repos = ["ada/teashop"]
[threads.llama]
backend = "local"
max_concurrent = 2
agents = ["dev-qwen", "dev-kimi", "gardener-qwen"]
[threads.anthropic]
backend = "anthropic"
agents = ["planner-sonnet", "review-sonnet"]
[roles.dev]
cli = "claude"
`

// The replay of a journal and why --until print what the program of commit eb0195a3 printed, the last one that could
// record the inputs of decisions: neither needs them. A column of the replay was removed since, and its legend names
// the columns. That program wrote the journal and both golden files, which change only when the scheduler, the
// simulation or their words do.
func TestAsBeforeRemoval(t *testing.T) {
	journal, err := os.ReadFile("../../threads/ledger/testdata/older/eb0195a3.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	replay, complaint, code := simulate(t, map[string]string{
		"factory.toml": olderFactory, "journal.jsonl": string(journal),
	}, "--replay", "journal.jsonl")
	if code != 0 {
		t.Fatal(complaint)
	}
	until := olderForecast(t, string(journal)) // reads the factory.toml of simulate
	t.Chdir(here)
	golden(t, filepath.Join("testdata", "before", "replay.txt"), replay)
	golden(t, filepath.Join("testdata", "before", "until.txt"), until)
}

// olderForecast is the output of why --until a second after the end of a journal: of an issue that can start, of
// one that it blocks, and of a pull request in review.
func olderForecast(t *testing.T, journal string) string {
	t.Helper()
	config, err := configWithPlaceholders("factory.toml", &cli{})
	if err != nil {
		t.Fatal(err)
	}
	past, now := ledger.New(), time.Time{}
	err = ledger.Read(strings.NewReader(journal), func(r ledger.Record) {
		past.Apply(r)
		now = r.At.Add(time.Second)
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := threads.Snapshot{Now: now, Config: config, History: past.History, Typical: past.Typical()}
	s.Facts.Repos = []forge.Repo{{Name: "ada/teashop", AsOf: now, DefaultBranch: "main"}}
	ref := func(n int64) forge.Ref { return forge.Ref{Repo: "ada/teashop", Number: n} }
	for n := range int64(6) {
		at := now.Add(time.Duration(n-60) * time.Second)
		is := forge.Issue{
			Ref: ref(101 + n), Author: "ada", Labels: []string{forge.LabelBacklog}, Created: at, Updated: at,
			BlockersKnown: true, AsOf: now,
		}
		if n == 5 {
			is.Blockers = []forge.Blocker{{Ref: ref(101), State: forge.BlockerOpen}}
		}
		s.Facts.Issues = append(s.Facts.Issues, is)
	}
	ledger.Entry(s.History.Chains, ref(105)).Wrote("dev-kimi") // in a session, which handed in the pull request
	s.Facts.Pulls = []forge.Pull{{
		Ref: ref(110), Author: "dev-kimi", Closes: []forge.Ref{ref(105)}, Base: "main", HeadSHA: "aa",
		Created: now.Add(-time.Minute), Updated: now.Add(-time.Minute), Mergeable: forge.MergeClean, AsOf: now,
	}}
	var text strings.Builder
	for _, n := range []int64{101, 106, 110} {
		q := supervisor.Foresight{
			Refs: []forge.Ref{ref(n)}, Time: time.Hour, Past: past.Past, Timeline: past.Since(time.Time{}),
			View: func(f func(threads.Snapshot)) { f(s) },
		}
		f, err := forecast(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		why, err := threads.Explain(s, ref(n))
		if err != nil {
			t.Fatal(err)
		}
		f.Why = &why
		text.WriteString(screen.View{Now: now, Width: 80}.Until(f))
		list, err := json.MarshalIndent(f.Items, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(list, '\n'))
	}
	return text.String()
}
