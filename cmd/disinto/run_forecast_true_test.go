package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"codeberg.org/johba/disinto/supervisor/simtest"
	"codeberg.org/johba/disinto/threads/ledger"
	"codeberg.org/johba/disinto/threads/sim"
)

// grain is the error that a predicted wait may always have. The forge reports in whole seconds when an issue was
// created, so the median of forty waits is uncertain by 0.08 s.
const grain = 200 * time.Millisecond

// foretold replays the last seven days of a factory's journal as `disinto simulate --replay` does. It fails if the
// simulated median or 95 % wait differs from the real one by more than 15 %.
func foretold(s *soak) {
	s.t.Helper()
	j := readJournal(s.t, s.state)
	config, err := configWithPlaceholders(s.config, &cli{})
	if err != nil {
		s.t.Fatal(err)
	}
	was := simtest.Waits(j.Past)
	trial := sim.Replay(j, config, 7*24*time.Hour)
	trial.Policy, trial.Seed, trial.Drain = sim.Ours, 1, 10*time.Minute // no person answers refusals
	is := trial.Run()
	for _, c := range []struct {
		name           string
		real, foretold time.Duration
	}{{"median", was[(len(was)-1)/2], is.First.P50}, {"95 %", was[(len(was)-1)*95/100], is.First.P95}} {
		off := c.foretold - c.real
		s.t.Logf("%s wait of %d issues: %s, simulated %s (%+.1f %%)", c.name, len(was), c.real, c.foretold,
			100*off.Seconds()/max(c.real, time.Millisecond).Seconds())
		if off.Abs() > max(c.real*15/100, grain) {
			s.t.Errorf("%s wait: got %s, simulated %s, want a difference within 15 %%", c.name, c.real, c.foretold)
		}
	}
}

func readJournal(t *testing.T, state string) sim.Journal {
	t.Helper()
	file, err := os.Open(filepath.Join(state, "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	past, err := ledger.ReadHistory(file)
	if err != nil {
		t.Fatal(err)
	}
	return sim.Journal{Past: past.Past, Timeline: past.Timeline}
}
