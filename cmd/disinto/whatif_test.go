package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// whatIfConfig is a factory with a local slot, two developers and a reviewer.
func whatIfConfig(t testing.TB) *threads.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "factory.toml")
	if err := os.WriteFile(path, []byte(simulated), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := pretended(path, &cli{})
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

// One more slot halves the wait for a slot, one agent less does not shorten it, and without changes the simulation
// matches what happened.
func TestWhatIf(t *testing.T) {
	config := whatIfConfig(t)
	ask := func(change control.SimulateRequest) *control.Simulation {
		t.Helper()
		change.Days = 7
		d, err := whatIf(t.Context(), supervisor.WhatIf{Ask: change, Config: config, Past: waited(8)})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := ask(control.SimulateRequest{})
	if d.Changed != nil || len(d.Changes) > 0 || d.Sessions != 8 || d.Happened.Done != 8 || d.Now.Done != 8 {
		t.Errorf("without changes: got %+v", d)
	}
	if h := d.Happened; h.MeanWait != 3.5*3600 || h.MaxWait != 7*3600 || h.MeanTurn != 4.5*3600 || h.LastDone != 8*3600 {
		t.Errorf("happened: got %+v", h)
	}
	if near := d.Now.MeanWait / d.Happened.MeanWait; near < 0.95 || near > 1.05 {
		t.Errorf("got simulated %+v, want about %+v", d.Now, d.Happened)
	}
	d = ask(control.SimulateRequest{Slots: map[string]int{"llama": 2, "api": 1}})
	if d.Changed == nil || d.Changed.MeanWait > d.Now.MeanWait*0.6 || d.Changed.Done != 8 ||
		!slices.Equal(d.Changes, []string{"llama: 2 slots in place of 1"}) {
		t.Errorf("two slots: got %+v, %v", d.Changed, d.Changes)
	}
	d = ask(control.SimulateRequest{Slots: map[string]int{"llama": 2}, Without: []string{"dev-b"}})
	if d.Changed == nil || d.Changed.MeanWait < d.Now.MeanWait*0.95 {
		t.Errorf("two slots for one agent: got %+v", d.Changed)
	}
}

// An impossible factory and a simulation that takes too long are refused with the reason.
func TestWhatIfRefuses(t *testing.T) {
	config := whatIfConfig(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		ask    control.SimulateRequest
		past   int
		ctx    context.Context
		status int
		want   string
	}{
		{past: 0, status: http.StatusConflict, want: "no session worked on an issue in the last 7 days"},
		{past: 3, ctx: over, status: http.StatusServiceUnavailable, want: "ask for fewer days"},
		{ask: control.SimulateRequest{Slots: map[string]int{"x": 1}}, want: "there is no thread x"},
		{ask: control.SimulateRequest{Slots: map[string]int{"llama": 0}}, want: "llama: 0 slots, want 1 to 64"},
		{ask: control.SimulateRequest{Slots: map[string]int{"llama": 1 << 40}}, want: "want 1 to 64"},
		{ask: control.SimulateRequest{Hold: map[string]string{"x": "4m"}}, want: "there is no thread x"},
		{
			ask:  control.SimulateRequest{Hold: map[string]string{"llama": "soon"}},
			want: `cannot read "soon" as the hold of llama`,
		},
		{ask: control.SimulateRequest{Hold: map[string]string{"llama": "16m"}}, want: "hold is 16m, want 0s to 15m"},
		{ask: control.SimulateRequest{Hold: map[string]string{"api": "4m"}}, want: "slots with overlap are never kept"},
		{ask: control.SimulateRequest{Without: []string{"ada"}}, want: "there is no agent ada"},
		{ask: control.SimulateRequest{Without: []string{"dev-a", "dev-b"}}, want: "no agent that works on issues is left"},
	} {
		ctx := t.Context()
		if tt.ctx != nil {
			ctx = tt.ctx
		}
		if tt.status == 0 {
			tt.status, tt.past = http.StatusBadRequest, 3
		}
		tt.ask.Days = 7
		d, err := whatIf(ctx, supervisor.WhatIf{Ask: tt.ask, Config: config, Past: waited(tt.past)})
		no := (*control.Refusal)(nil)
		if !errors.As(err, &no) || no.Status != tt.status || !strings.Contains(no.Words, tt.want) {
			t.Errorf("%+v: got %+v, %v, want %d %s", tt.ask, d, err, tt.status, tt.want)
		}
	}
}

// As many sessions as a journal keeps, or an eighth of them in make test, are simulated in time.
func TestWhatIfWhole(t *testing.T) {
	config := whatIfConfig(t)
	config.Thread("llama").Slots, config.Thread("llama").MaxSessions = 2, 2
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	var past []ledger.Past
	const took = 4 * time.Minute
	kinds := []agents.Kind{agents.KindIssue, agents.KindReview, agents.KindRework, agents.KindReview}
	sessions := ledger.PastLimit / 8
	if storms() {
		sessions = ledger.PastLimit
	}
	for i := range sessions {
		ref, ready := ledger.Ref{Repo: "owner/name", Number: int64(i/4 + 1)}, at.Add(time.Duration(i/8)*20*time.Minute)
		p := ledger.Past{
			Agent: fmt.Sprintf("dev-%c", 'a'+i/4%2), Kind: kinds[i%4], Ref: ref, Chain: ref, Ready: ready,
			Start: ready.Add(time.Duration(i%4) * took), Outcome: agents.Done,
		}
		if i%4 == 3 {
			p.Agent, p.Verdict = "review-sonnet", ledger.Approved
		}
		p.End = p.Start.Add(took)
		past = append(past, p)
	}
	ask := control.SimulateRequest{Days: 7, Slots: map[string]int{"llama": 1}, Without: []string{"dev-b"}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // for a busy test machine
	defer cancel()
	d, err := whatIf(ctx, supervisor.WhatIf{Ask: ask, Config: config, Past: past})
	if err != nil || d.Sessions != sessions || d.Happened.Done != sessions/4 || d.Now.Done != sessions/4 ||
		d.Changed == nil ||
		d.Changed.MeanWait <= d.Now.MeanWait {
		t.Errorf("got %+v, %v", d, err)
	}
}
