package worlds

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/file"
	"codeberg.org/johba/disinto/threads/ledger"
)

// refused reports whether `disinto check` refuses a configuration because some work would wait for ever.
func refused(c *threads.Config, open []forge.Issue) bool {
	unpaired := func(p threads.Problem) bool { return p.Reason.Code == threads.NoReviewer }
	wrong := func(f threads.Finding) bool { return f.Weight == threads.Wrong }
	return slices.ContainsFunc(c.Problems(), unpaired) || slices.ContainsFunc(c.Check(open), wrong)
}

// TestStallsAreRefused plays worlds with faults. If the configuration did not change, check must refuse it where an
// item waits at the end for an agent that does not exist.
func TestStallsAreRefused(t *testing.T) {
	bad, fine := 0, 0
	for seed := range sized[uint64](1500, 20) {
		w := newWorld(seed+1, nil)
		w.populate()
		was := *w.cfg
		w.play()
		// A pull request that an agent opened as a trick may be its own work, which no configuration foresees.
		if w.mood.crafty > 0 || !reflect.DeepEqual(was.Agents, w.cfg.Agents) || !reflect.DeepEqual(was.Roles, w.cfg.Roles) {
			continue
		}
		s := w.shell.snapshot()
		// A hint of skills is about issues that wait for a person's label.
		waits := func(f threads.Finding) bool { return f.About == "skills" && f.Weight == threads.Hint }
		if refused(w.cfg, s.Facts.Issues) || slices.ContainsFunc(w.cfg.Check(s.Facts.Issues), waits) {
			bad++
			continue
		}
		fine++
		plan := threads.Decide(s)
		for _, h := range plan.Holds {
			// A reviewer that pushed to what it reviews, which no configuration foresees, may not review it.
			by := w.cfg.Agent(h.Reason.Agent)
			intruded := by != nil && !w.cfg.Does(by, agents.KindIssue)
			if h.Item.Kind != agents.KindSchedule && unfit(h.Reason) && !intruded {
				t.Errorf("world %d: %s %s waits, but check accepts it: %s", seed+1, h.Item.Kind, h.Item.Ref, h.Reason.Text())
			}
		}
	}
	t.Logf("%d configurations are refused, %d are not", bad, fine)
}

// unfit reports whether a reason says that no agent may take an item until a person acts.
func unfit(why *threads.Reason) bool {
	return why.Code.Class() == threads.Unfit && why.Code.Ends() == threads.ByPerson
}

// TestRefusedStall plays all courses of an issue in random small factories. check must refuse a factory in which some
// course stalls for ever, and no other.
func TestRefusedStall(t *testing.T) {
	rng := rand.New(rand.NewPCG(30, 1))
	stalled, sound := 0, 0
	for i := range sized(1000, 150) {
		text, open := anyFactory(rng)
		c, err := file.Decode("factory.toml", text, func(name string) (string, bool) { return "value-of-" + name, true })
		if err != nil {
			continue
		}
		why := stallsIn(c, open)
		if refused(c, open) != (why != "") {
			t.Errorf("factory %d: refused: %v, stalls: %q\n%s%v", i, why == "", why, text, open)
		}
		if why != "" {
			stalled++
		} else {
			sound++
		}
	}
	t.Logf("%d factories stall, %d are sound", stalled, sound)
	if stalled < 30 || sound < 30 {
		t.Errorf("%d factories stall, and %d are sound: want many of both", stalled, sound)
	}
}

// stallsIn returns how work in a factory stalls: an agent's, that on an open issue, that on a routed skill, or that of
// sessions which wait for each other. It is empty if none does.
func stallsIn(c *threads.Config, open []forge.Issue) string {
	var plain [][]string
	plain = append(plain, nil)
	for i := range c.Roles {
		if r := &c.Roles[i]; r.On == agents.OnIssue && r.Label != "" {
			plain = append(plain, []string{r.Label})
		}
	}
	for _, labels := range plain {
		for i := range c.Agents {
			end := journey(c, labels, c.Agents[i].Login)
			if c.Does(&c.Agents[i], agents.KindIssue) && (end.begun && end.why != nil || end.code() == threads.NoReviewer) {
				return c.Agents[i].Name + ": " + end.why.Text()
			}
		}
		for _, r := range c.Routes {
			end := journey(c, append(slices.Clone(labels), forge.SkillPrefix+r.Skill))
			if end.why != nil && journey(c, labels).why == nil && len(c.Repos) == 0 {
				return r.Skill + ": " + end.why.Text()
			}
		}
	}
	anyLabel := !slices.ContainsFunc(c.Roles, func(r agents.Role) bool { return r.On == agents.OnIssue && r.Label == "" })
	for _, is := range open {
		picks := func(labels []string) bool { return len(labels) > 0 && slices.Contains(is.Labels, labels[0]) }
		if end := journey(c, is.Labels, is.Assignees...); end.why != nil &&
			!(anyLabel && len(is.Assignees) == 0 && !slices.ContainsFunc(plain, picks)) {
			return is.Short() + ": " + end.why.Text()
		}
	}
	return jam(c)
}

// TestNightAsBounded lets an agent of random factories use as much in a night as the limits of its thread allow, one
// session of ten minutes after the other. It may exceed the bound of check by one session each time that a limit is
// reached.
func TestNightAsBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	bound := regexp.MustCompile(`at most: threads.api \$([0-9.]+) \((?:(\d+) )?`)
	for i := range sized(100, 10) {
		limits := []string{
			fmt.Sprintf("budget = { usd_per_day = %d }\n", 1+rng.IntN(60)),
			fmt.Sprintf("windows = [{ length = \"%dh\", usd = %d }]\n", 1+rng.IntN(24), 1+rng.IntN(60)),
			fmt.Sprintf("budget = { usd_per_day = %d }\nwindows = [{ length = \"5h\", usd = %d }, "+
				"{ length = \"7d\", usd = %d }]\n", 1+rng.IntN(60), 1+rng.IntN(20), 20+rng.IntN(60)),
		}
		c, err := file.Decode("factory.toml", "[forge]\nurl = \"http://f\"\ntoken = \"t\"\nrepos = [\"o/r\"]\n"+
			"[threads.api]\nbackend = \"api\"\nagents = [\"dev-a\"]\n"+limits[rng.IntN(len(limits))]+
			"[roles.dev]\ncommand = [\"x\"]\n", func(string) (string, bool) { return "t", true })
		if err != nil {
			t.Fatal(err)
		}
		found := c.Check(nil)
		cost := slices.IndexFunc(found, func(f threads.Finding) bool { return f.About == "cost" })
		m := bound.FindStringSubmatch(found[cost].Text)
		if m == nil {
			t.Fatalf("factory %d: no bound in %v", i, found)
		}
		most, _ := strconv.ParseFloat(m[1], 64)
		times := 2.0 // budgets of two days, or windows
		if m[2] != "" {
			times, _ = strconv.ParseFloat(m[2], 64)
		}
		each := 0.5 + 3*rng.Float64()
		if used := spree(c, each, time.Duration(rng.IntN(24))*time.Hour); used > most+times*each || used == 0 {
			t.Errorf("factory %d: a night used $%.2f, want more than 0 and at most $%.2f and %g sessions of $%.2f", i, used,
				most, times, each)
		}
	}
}

// spree returns the dollars that the only agent uses in twelve hours, which begin at a time of day.
func spree(c *threads.Config, each float64, begins time.Duration) (used float64) {
	w := newCourse(c)
	w.now = threads.Day(w.now).Add(begins)
	for end := w.now.Add(12 * time.Hour); w.now.Before(end); {
		w.issues, w.pulls = nil, nil
		w.file(nil)
		plan := w.plan()
		if len(plan.Starts) == 0 {
			w.now = w.now.Add(10 * time.Minute)
			continue
		}
		w.starts(&plan.Starts[0])
		w.now = w.now.Add(9 * time.Minute)
		w.record(ledger.Record{Used: &ledger.Used{Run: w.runs[0].RunID, Usage: agents.Usage{CostUSD: each}}})
		w = w.ends(false)
		w.record(ledger.Record{Retry: &ledger.Retry{Refs: []ledger.Ref{ledger.Ref(w.issues[0].Ref)}}})
		used += each
	}
	return used
}

// anyFactory returns a random factory of up to nine agents, and open issues.
func anyFactory(rng *rand.Rand) (text string, open []forge.Issue) {
	d := dice{rng}
	crews := make([][]string, 1+rng.IntN(3))
	var names []string
	for i := range crews {
		for j := range 1 + rng.IntN(3) {
			name := fmt.Sprintf("%s-%c%d", d.pick("dev", "dev", "review", "docs", "gardener"), 'a'+i, j)
			crews[i], names = append(crews[i], fmt.Sprintf("%q", name)), append(names, name)
		}
	}
	var threads, tables strings.Builder
	for i, crew := range crews {
		fmt.Fprintf(&threads, "[threads.t%d]\nbackend = %q\nmax_concurrent = %d\nagents = [%s]\n", i, d.pick("api", "local"),
			1+rng.IntN(3), strings.Join(crew, ", "))
		if d.chance(0.3) {
			threads.WriteString("overlap = true\nmax_sessions = 1\n")
		}
	}
	writers := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return !strings.HasPrefix(name, "dev") && !strings.HasPrefix(name, "docs")
	})
	skilled := slices.DeleteFunc(slices.Clone(writers), func(string) bool { return d.chance(0.7) })
	for _, name := range names {
		tables.WriteString(d.agent(name, writers, skilled))
	}
	rest := d.roles()
	if len(skilled) > 0 && d.chance(0.5) {
		rest += fmt.Sprintf("[routes]\ngo = %q\n", d.pick(skilled...))
	}
	if d.chance(0.3) {
		rest += d.table(writers)
	}
	for i := range rng.IntN(3) {
		is := forge.Issue{Ref: forge.Ref{Repo: "o/r", Number: int64(i + 1)}, Labels: []string{"backlog"}}
		for _, l := range []string{"docs", "skill/go", "skill/sql"} {
			if d.chance(0.15) {
				is.Labels = append(is.Labels, l)
			}
		}
		if d.chance(0.2) {
			is.Assignees = []string{d.pick(names...)}
		}
		open = append(open, is)
	}
	return "[forge]\nurl = \"http://f\"\ntoken = \"t\"\nrepos = [\"o/r\"]\n" + threads.String() +
		tables.String() + rest, open
}

// dice draws the parts of a factory.
type dice struct{ *rand.Rand }

func (d dice) chance(p float64) bool      { return d.Float64() < p }
func (d dice) pick(list ...string) string { return list[d.IntN(len(list))] }

// agent returns an agent's table, empty for most.
func (d dice) agent(name string, writers, skilled []string) (table string) {
	role, _, _ := strings.Cut(name, "-")
	if second := d.pick("review", "docs", "dev"); second != role && d.chance(0.2) {
		table += fmt.Sprintf("roles = [%q, %q]\n", role, second)
	}
	if slices.Contains(skilled, name) {
		table += "skills = [\"go\"]\n"
	}
	if up := d.pick(append([]string{name}, writers...)...); up != name && role == "dev" && d.chance(0.3) {
		table += fmt.Sprintf("escalate = [%q]\n", up)
	}
	if table != "" {
		table = "[agents." + name + "]\n" + table
	}
	return table
}

// table returns the table of the repository, with some of the writers as its agents.
func (d dice) table(writers []string) string {
	crew := slices.DeleteFunc(slices.Clone(writers), func(string) bool { return d.chance(0.4) })
	if len(crew) == 0 {
		return ""
	}
	return fmt.Sprintf("[repos.\"o/r\"]\nagents = [\"%s\"]\n", strings.Join(crew, `", "`))
}

// roles returns the tables of the roles.
func (d dice) roles() string {
	const program = "command = [\"x\"]\n"
	text := "[roles.gardener]\n" + program + "[roles.dev]\n" + program
	if d.chance(0.3) {
		text += "waits_for_review = true\n"
	}
	text += "[roles.docs]\non = \"issue\"\n" + program
	if d.chance(0.6) {
		text += "label = \"docs\"\n"
	}
	text += "[roles.review]\n" + program
	if d.chance(0.3) {
		text += fmt.Sprintf("label = %q\n", d.pick("docs", "other"))
	}
	return text
}
