package main

import (
	"os"
	"path/filepath"
	"testing"
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

// The replay of a journal prints what the program of commit eb0195a3 printed, the last one that could record the inputs
// of decisions: it does not need them. A column of the replay was removed since, and its legend names the columns. That
// program wrote the journal and the golden file, which changes only when the scheduler, the simulation or their words
// do.
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
	t.Chdir(here)
	golden(t, filepath.Join("testdata", "before", "replay.txt"), replay)
}
