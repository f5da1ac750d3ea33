package hindsight

import (
	"os"
	"slices"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/sim"
)

func never() bool { return false }

// compare plays the newest day of a journal under both configurations, a number of times.
func compare(t *testing.T, j sim.Journal, facts *forge.Facts, was, is *threads.Config, runs uint64) Difference {
	t.Helper()
	y := NewYesterday(j, facts, was, is)
	if y == nil {
		t.Fatal("NewYesterday returned nil")
	}
	for seed := range runs {
		if !y.Run(seed, never) {
			t.Fatal("Run returned false")
		}
	}
	return y.Difference()
}

// The factories: an overloaded one gains a slot, one that keeps up loses a slot, and one scans less often.
func TestYesterday(t *testing.T) {
	seldom := fleet(1)
	for i := range seldom.Threads {
		seldom.Threads[i].Interval += 2 * time.Second
	}
	for name, tt := range map[string]struct {
		was, is           *threads.Config
		merged, wait, usd int
	}{
		"one more slot":   {fleet(1), fleet(2), 1, -1, 1},
		"one less slot":   {fleet(2), fleet(1), -1, 1, -1},
		"the same":        {fleet(1), fleet(1), 0, 0, 0},
		"longer interval": {fleet(1), seldom, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if (name == "one less slot" || name == "longer interval") && os.Getenv("DISINTO_STORMS") == "" {
				t.Skip("the other two take a second")
			}
			t.Parallel()
			j, facts := diary(t, tt.was, load(0.7, 60, 1, nil))
			d := compare(t, j.Before(monday.Add(14*time.Hour)), facts, tt.was, tt.is, leastRuns)
			if d.Merged != tt.merged || d.Wait != tt.wait || d.USD != tt.usd || d.Runs != leastRuns || d.Whole || d.Lived {
				t.Errorf("got %+v, want merged %d, wait %d, usd %d", d, tt.merged, tt.wait, tt.usd)
			}
			if name == "the same" && d.Was != d.Is {
				t.Errorf("the same configuration: got %+v and %+v, want equal days", d.Was, d.Is)
			}
		})
	}
}

// If the day's configuration is unknown, Difference compares the journal with the played day.
func TestYesterdayLived(t *testing.T) {
	j, facts := diary(t, fleet(1), load(0.5, 40, 2, nil))
	d := compare(t, j, facts, nil, fleet(1), 1)
	if !d.Lived || d.Merged != 0 || d.Whole || d.Unknown != nil {
		t.Errorf("got %+v, want a lived day without differences", d)
	}
	if d.Was.Merged != float64(len(j.Timeline.Merges)) || d.Was.USD < 0.25*d.Was.Merged {
		t.Errorf("%d merges in the journal, got %+v, want as many and at least $0.25 each", len(j.Timeline.Merges), d.Was)
	}
	if by := d.Is.Wait - d.Was.Wait; by < -5*time.Minute || by > 5*time.Minute || d.Was.Merged-d.Is.Merged > 1 {
		t.Errorf("lived %+v, played %+v, want at most 5 minutes and 1 merge apart", d.Was, d.Is)
	}
	if d.From.Before(monday) || d.Until.Before(j.Newest()) {
		t.Errorf("got a day from %s until %s, want all of the journal", d.From, d.Until)
	}
}

// Few runs show no difference, and a stopped run does not count.
func TestYesterdayCut(t *testing.T) {
	j, facts := diary(t, fleet(2), load(0.5, 40, 2, nil))
	d := compare(t, j, facts, fleet(2), fleet(1), leastRuns-1)
	if d.Merged != 0 || d.Wait != 0 || d.Runs != leastRuns-1 || !d.Few {
		t.Errorf("got %+v, want a difference of few runs", d)
	}
	y, asked := NewYesterday(j, facts, fleet(2), fleet(1)), 0
	if y.Run(0, func() bool { asked++; return asked > 10 }) {
		t.Error("Run returned true for a stopped run")
	}
	if d := y.Difference(); d.Runs != 0 || d.Is != (Day{}) {
		t.Errorf("after a stopped run: got %+v, want no runs", d)
	}
	if NewYesterday(sim.Journal{}, facts, fleet(1), fleet(1)) != nil {
		t.Error("NewYesterday(empty journal) is not nil")
	}
}

// unknown names a new agent, and one with another model, role or program.
func TestUnknown(t *testing.T) {
	j, _ := diary(t, fleet(2), load(0.2, 40, 1, nil))
	was := fleet(2)
	for name, tt := range map[string]struct {
		change func(*threads.Config)
		want   []string
	}{
		"nothing":   {func(*threads.Config) {}, nil},
		"a model":   {func(c *threads.Config) { c.Agents[1].Model = "other" }, []string{c(1)}},
		"a program": {func(c *threads.Config) { c.Roles[1].Command = []string{"other"} }, []string{"review-0"}},
		"a cli's flag": {func(c *threads.Config) {
			c.Roles[1].CLI, c.Roles[1].Command = "claude", []string{"other"}
		}, []string{"review-0"}},
		"a role": {func(c *threads.Config) { c.Agents[0].Roles = []string{"review"} }, []string{c(0)}},
		"an agent": {func(c *threads.Config) {
			c.Agents = append(c.Agents, agents.Agent{Name: "dev-new", Roles: []string{"dev"}, Thread: "write"})
		}, []string{"dev-new"}},
		"a slot": {func(c *threads.Config) { c.Threads[0].Slots++ }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			is := fleet(2)
			tt.change(is)
			if got := unknown(j, was, is); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// c is the name of the nth writer.
func c(n int) string { return fleet(2).Agents[n].Name }
