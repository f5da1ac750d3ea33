package ledger

import (
	"fmt"
	"math"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// A session that was cut short costs what the newest finished session of its model on its thread paid for a token. Its
// cost is unknown without such a session, and what its program reported otherwise.
func TestPrice(t *testing.T) {
	tokens := func(n int64, usd float64) *agents.Usage { return &agents.Usage{InputTokens: n, CostUSD: usd} }
	type past struct {
		model  string
		result agents.Result
		usage  *agents.Usage
	}
	for _, tt := range []struct {
		name   string
		before []past
		result agents.Result
		usage  *agents.Usage
		want   float64
	}{
		{"no price is known", nil, agents.Looped, tokens(1000, 0), 0},
		{
			"the newest price",
			[]past{{"m", agents.Done, tokens(100, 9)}, {"m", agents.NoProgress, tokens(100, 1)}},
			agents.Looped, tokens(1000, 0), 10,
		},
		{"another model's price", []past{{"x", agents.Done, tokens(100, 9)}}, agents.Looped, tokens(1000, 0), 0},
		{
			"an estimate is no price",
			[]past{{"m", agents.Done, tokens(100, 1)}, {"m", agents.Killed, tokens(5000, 0)}},
			agents.Killed, tokens(1000, 0), 10,
		},
		{"a part of the cost", []past{{"m", agents.Done, tokens(100, 1)}}, agents.OverBudget, tokens(1000, 2), 10},
		{"a cost is believed", []past{{"m", agents.Done, tokens(100, 1)}}, agents.OverBudget, tokens(1000, 7), 7},
		{"ended by itself", []past{{"m", agents.Done, tokens(100, 1)}}, agents.Done, tokens(1000, 0), 0},
		{"a free model", []past{{"m", agents.Done, tokens(100, 0)}}, agents.Looped, tokens(1000, 0), 0},
		{"no usage", []past{{"m", agents.Done, tokens(100, 1)}}, agents.Killed, nil, 0},
		{
			"cached and written tokens",
			[]past{{"m", agents.Done, &agents.Usage{InputTokens: 50, CachedTokens: 500, CostUSD: 1}}},
			agents.TimedOut, &agents.Usage{OutputTokens: 100}, 5,
		},
	} {
		h, total := New(), 0.0
		play := func(model string, result agents.Result, u *agents.Usage) *Past {
			run := fmt.Sprint(len(h.Past))
			start := startRec(run, int64(len(h.Past)+1), 1)
			start.Start.Model = model
			h.Apply(start)
			h.Apply(endRec(run, time.Minute, End{Result: result, Usage: u}))
			return &h.Past[len(h.Past)-1]
		}
		for _, p := range tt.before {
			if past := play(p.model, p.result, p.usage); past.Usage != nil {
				total += past.Usage.CostUSD
			}
		}
		p := play("m", tt.result, tt.usage)
		got, estimated := 0.0, false
		if p.Usage != nil {
			got, estimated = p.Usage.CostUSD, p.Usage.Estimated
		}
		reported := tt.usage != nil && tt.usage.CostUSD == tt.want
		if math.Abs(got-tt.want) > 1e-9 || estimated == (tt.want == 0 || reported) {
			t.Errorf("%s: got $%v, estimated %t, want $%v", tt.name, got, estimated, tt.want)
		}
		if spent := h.Thread("llama").Spent.USD; math.Abs(spent-total-tt.want) > 1e-9 {
			t.Errorf("%s: the thread has spent $%v, want $%v", tt.name, spent, total+tt.want)
		}
	}
}
