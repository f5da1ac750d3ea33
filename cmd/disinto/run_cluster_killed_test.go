package main

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// The real program is killed again and again, each time at another write to the forge or request to Nomad, before or
// after the server handles it. It ends when all sessions have ended: 100 in make soak, 32 in make check. In make test
// one session ends without a kill: TestSupervisorKilled of agents/nomad has them. Each issue's program starts once, no
// session is lost, and no attempt is counted.
func TestClusterKilled(t *testing.T) {
	slots, issues := 1, 1
	switch {
	case os.Getenv("DISINTO_SOAK") != "":
		slots, issues = 4, 100
	case storms():
		slots, issues = 4, 32
	}
	onFarms(t, slots, issues, func(c *farm) {
		killed := map[string]int{}
		for life := 0; issues > 1 && c.runs("end") < issues; life++ {
			// Four slots need about 40 requests to start their sessions. Kills at the first 31 alone left some runs without
			// a single job after 581 lives.
			picks := func(n int, _ *http.Request) bool { return n == 1+life/2*7%61 }
			if what := c.live(picks, life%2 == 0 /* obeyed */, issues); what != "" {
				killed[what]++
			}
			if life > 100+40*issues {
				c.t.Fatalf("only %d sessions ended in %d lives", c.runs("end"), life)
			}
		}
		r := c.start("0.3")
		// The last request of a killed supervisor can arrive after the next one has looked for leftovers. This one needs
		// about a second to remove them.
		status(c.t, c.state, "no session runs, and none has left an order or a claim", func(d *control.Document) bool {
			return d.Forge.OK && len(d.Sessions) == 0 && c.told(agents.Refused) == issues && len(c.left()) == 0
		})
		c.wantOnce(issues)
		r.signal(syscall.SIGTERM)
		r.wait()
		c.wantNothingLeft()
		c.t.Logf("killed %d times, at %d kinds of requests: %v", sum(killed), len(killed), killed)
	})
}

func sum(of map[string]int) (n int) {
	for _, v := range of {
		n += v
	}
	return n
}

// live runs the supervisor once. It is killed at a request that picks selects, or ends after all sessions.
func (c *farm) live(picks func(int, *http.Request) bool, after bool, issues int) (what string) {
	c.t.Helper()
	r := c.start("0.3")
	fire := &trigger{
		picks: picks, after: after, done: make(chan struct{}), kill: func() { r.signal(syscall.SIGKILL) },
	}
	c.forge.arm(fire)
	c.nomad.arm(fire)
	defer c.forge.arm(nil)
	defer c.nomad.arm(nil)
	for {
		select {
		case <-fire.done:
			r.wait()
			return fire.what
		case <-time.After(100 * time.Millisecond):
		}
		if c.runs("end") == issues {
			r.signal(syscall.SIGKILL)
			r.wait()
			return ""
		}
	}
}

// told counts the sessions with a result in the supervisor's history.
func (c *farm) told(result agents.Result) (n int) {
	for _, p := range c.past() {
		if p.Outcome == result {
			n++
		}
	}
	return n
}

// wantOnce checks that each issue's program started once and ended, and that the history agrees. The history may list
// a lost session whose program never started.
func (c *farm) wantOnce(issues int) {
	c.t.Helper()
	var all strings.Builder
	for n := 1; n <= issues; n++ {
		lines := c.marked(n)
		if len(lines) != 2 {
			c.t.Errorf("#%d: got the lines %q, want a begin and an end", n, lines)
		}
		all.WriteString(strings.Join(lines, "\n"))
	}
	for _, p := range c.past() {
		never := p.Outcome == agents.Lost && !strings.Contains(all.String(), p.Run)
		if p.Outcome != agents.Refused && !never || p.Attempt != 1 {
			c.t.Errorf("attempt %d on #%d: got %s (%s)", p.Attempt, p.Ref.Number, p.Outcome, p.Reason)
		}
	}
}

// left returns the paths of the job variables that remain on Nomad, and the issues whose claims remain on the forge.
func (c *farm) left() []string {
	c.t.Helper()
	list := c.orders()
	var claimed []struct{ Number int }
	if err := c.api.Get(c.t.Context(), "/repos/"+soakRepo+"/issues?state=open&labels=in-progress", &claimed); err != nil {
		c.t.Fatal(err)
	}
	for _, i := range claimed {
		list = append(list, fmt.Sprint("the claim of #", i.Number))
	}
	return list
}

func (c *farm) wantNothingLeft() {
	c.t.Helper()
	if left := c.left(); len(left) > 0 {
		c.t.Errorf("got %q left", left)
	}
}

// A supervisor with sessions on Nomad is killed, and the next one continues them. The test logs how long that takes.
// TERM leaves them running too, unless their thread configures otherwise: then they get TERM and end within the
// grace.
func TestClusterStops(t *testing.T) {
	leftToStorms(t, "TestElsewhereDetach and TestElsewhereStopEnds of supervisor/simtest")
	const sessions = 8
	onFarms(t, sessions, sessions, func(c *farm) {
		r := c.start("go")
		begun := c.works(sessions)
		var took []time.Duration
		for i := range 10 {
			how := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[i%2]
			began := time.Now()
			r.signal(how)
			r.wait()
			if how == syscall.SIGKILL {
				began = time.Now()
			}
			r = c.start("go")
			d := c.works(sessions)
			if how == syscall.SIGKILL {
				took = append(took, time.Since(began))
			}
			if !slices.Equal(runsOf(begun), runsOf(d)) {
				c.t.Errorf("after %s: got the sessions %v, want %v", how, runsOf(d), runsOf(begun))
			}
		}
		slices.Sort(took)
		c.t.Logf("time from the kill until %d sessions continue: %s", sessions, took)
		r.signal(syscall.SIGTERM)
		r.wait()
		c.extra = "stop = \"end\""
		r = c.start("go")
		c.works(sessions)
		began := time.Now()
		r.signal(syscall.SIGTERM)
		code := r.wait()
		c.t.Logf("TERM ended %d sessions in %s", c.runs("heard"), time.Since(began).Round(time.Millisecond))
		if code != exitDone || c.runs("heard") != sessions || c.runs("begin") != sessions || c.runs("end") != 0 {
			c.t.Errorf("got exit code %d; %d began, %d heard TERM, %d ended by themselves", code, c.runs("begin"),
				c.runs("heard"), c.runs("end"))
		}
		c.wantNothingLeft()
	})
}

// works waits until that many sessions run on a node.
func (c *farm) works(sessions int) *control.Document {
	c.t.Helper()
	return status(c.t, c.state, fmt.Sprint(sessions, " sessions run"), func(d *control.Document) bool {
		n := 0
		for _, s := range d.Sessions {
			if s.State == threads.Running && s.Place != "" {
				n++
			}
		}
		return n == sessions
	})
}

func runsOf(d *control.Document) (runs []string) {
	for _, s := range d.Sessions {
		runs = append(runs, s.RunID)
	}
	slices.Sort(runs)
	return runs
}
