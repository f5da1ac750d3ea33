package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// foreseen is a factory with a local slot, two developers and a reviewer.
func foreseen(t testing.TB) *threads.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "factory.toml")
	if err := os.WriteFile(path, []byte(simulated), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := configWithPlaceholders(path, &cli{})
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// waited returns n issues that were ready at the same time. One slot did one of them an hour.
func waited(n int) (past []ledger.Past) {
	at := time.Date(2026, 1, 2, 3, 0, 0, 1, time.UTC) // 1 ns: not the forge's whole second
	for i := range n {
		ref := ledger.Ref{Repo: "owner/name", Number: int64(i + 1)}
		past = append(past, ledger.Past{
			Agent: "dev-a", Kind: agents.KindIssue, Ref: ref, Chain: ref, Ready: at, Priority: 5, Thread: "llama",
			Start: at.Add(time.Duration(i) * time.Hour), End: at.Add(time.Duration(i+1) * time.Hour), Outcome: agents.Done,
		})
	}
	return past
}

// waiting is the factory of foreseen with that many issues that wait.
func waiting(t testing.TB, issues int) threads.Snapshot {
	now := time.Date(2026, 1, 3, 3, 0, 0, 0, time.UTC)
	s := threads.Snapshot{Now: now, Config: foreseen(t), History: threads.NewHistory()}
	s.Facts.Repos = []forge.Repo{{Name: "owner/name", AsOf: now, DefaultBranch: "main"}}
	for i := range issues {
		at := now.Add(time.Duration(i-issues) * time.Second)
		s.Facts.Issues = append(s.Facts.Issues, forge.Issue{
			Ref: forge.Ref{Repo: "owner/name", Number: int64(i + 1)}, Author: "ada", Labels: []string{forge.LabelBacklog},
			Created: at, Updated: at, BlockersKnown: true, AsOf: now,
		})
	}
	return s
}

func foresight(s threads.Snapshot, limit time.Duration, numbers ...int64) supervisor.Foresight {
	q := supervisor.Foresight{Time: limit, View: func(f func(threads.Snapshot)) { f(s) }}
	for _, n := range numbers {
		q.Refs = append(q.Refs, forge.Ref{Repo: "owner/name", Number: n})
	}
	return q
}

// With sessions of an hour in one slot, the first of three issues starts at once, and each other an hour after the
// one before.
func TestForesee(t *testing.T) {
	s := waiting(t, 3)
	q := foresight(s, time.Hour)
	q.Items, q.Past = 3, waited(8)
	f, err := forecast(t.Context(), q)
	if err != nil || f.Runs != forecastRuns || f.Sessions != 8 || len(f.Items) != 3 || !f.At.Equal(s.Now) {
		t.Fatalf("got %+v, %v", f, err)
	}
	var last time.Time
	for _, e := range f.Items {
		b := e.Start
		if b.Low.Before(last) || b.Middle.Before(b.Low) || b.High.Before(b.Middle) || !e.Merged.Low.After(b.Low) {
			t.Errorf("#%d: got %+v", e.Number, e)
		}
		last = b.Low.Add(50 * time.Minute)
	}
	if again, _ := forecast(t.Context(), q); fmt.Sprint(again) != fmt.Sprint(f) {
		t.Error("two forecasts with enough time differ")
	}
	if f, err := forecast(t.Context(), foresight(s, 0, 2)); err != nil || f.Runs != leastRuns || len(f.Items) != 1 {
		t.Errorf("without time: got %+v, %v", f, err)
	}
	if f, err := forecast(t.Context(), foresight(waiting(t, 0), 0)); err != nil || f.Runs != 0 || len(f.Items) != 0 {
		t.Errorf("an empty factory: got %+v, %v", f, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := forecast(gone, foresight(s, time.Hour, 2)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}

// BenchmarkForesee measures the forecast for one of 1,000 issues, by its place in the queue.
func BenchmarkForesee(b *testing.B) {
	for _, at := range []int64{1, 20, 100, 900} {
		b.Run(fmt.Sprint(at), func(b *testing.B) {
			s := waiting(b, 1000)
			for b.Loop() {
				f, err := forecast(context.Background(), foresight(s, 200*time.Millisecond, at))
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(f.Runs), "runs")
			}
		})
	}
}
