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

// The real program is killed at one write to the forge or request to Nomad after the other, before it is obeyed and
// after, until all sessions have ended: 100 in make soak, 12 in make check, and in make test one, whose job Nomad has
// just taken. Each issue's program begins once, no session is lost, and no attempt is counted.
func TestClusterKilled(t *testing.T) {
	slots, issues := 1, 1
	switch {
	case os.Getenv("DISINTO_SOAK") != "":
		slots, issues = 4, 100
	case storms():
		slots, issues = 4, 12
	}
	onFarms(t, slots, issues, func(c *farm) {
		killed := map[string]int{}
		for life := 0; c.runs("end") < issues; life++ {
			picks := func(n int, _ *http.Request) bool { return n == 1+life/2*7%31 }
			if issues == 1 {
				picks = func(_ int, r *http.Request) bool {
					return life == 0 && r.Method == http.MethodPut && r.URL.Path == "/v1/jobs"
				}
			}
			if what := c.live(picks, life%2 == 0 /* obeyed */, issues); what != "" {
				killed[what]++
			}
			if life > 100+40*issues {
				c.t.Fatalf("%d sessions have ended in %d lives", c.runs("end"), life)
			}
		}
		r := c.start("0.3")
		status(c.t, c.state, "nothing works", func(d *control.Document) bool {
			return d.Forge.OK && len(d.Sessions) == 0 && c.told(agents.Refused) == issues
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

// live is one life of the supervisor. It ends at a request that picks has chosen, or when all sessions have ended.
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

// told counts the sessions that the supervisor says have ended so.
func (c *farm) told(result agents.Result) (n int) {
	for _, p := range c.past() {
		if p.Outcome == result {
			n++
		}
	}
	return n
}

// wantOnce checks that the program of each issue has begun once and ended, as the supervisor says too. It may say that
// a session is lost whose program has not begun, and never will.
func (c *farm) wantOnce(issues int) {
	c.t.Helper()
	var all strings.Builder
	for n := 1; n <= issues; n++ {
		lines := c.marked(n)
		if len(lines) != 2 {
			c.t.Errorf("the sessions of #%d have written %q", n, lines)
		}
		all.WriteString(strings.Join(lines, "\n"))
	}
	for _, p := range c.past() {
		never := p.Outcome == agents.Lost && !strings.Contains(all.String(), p.Run)
		if p.Outcome != agents.Refused && !never || p.Attempt != 1 {
			c.t.Errorf("attempt %d on #%d: %s (%s)", p.Attempt, p.Ref.Number, p.Outcome, p.Reason)
		}
	}
}

// wantNothingLeft checks that no order is left on Nomad, and no claim on the forge.
func (c *farm) wantNothingLeft() {
	c.t.Helper()
	if left := c.orders(); len(left) > 0 {
		c.t.Errorf("orders are left: %q", left)
	}
	var claimed []struct{ Number int }
	err := c.api.Get(c.t.Context(), "/repos/"+soakRepo+"/issues?state=open&labels=in-progress", &claimed)
	if err != nil || len(claimed) > 0 {
		c.t.Errorf("claims are left: %v, %v", claimed, err)
	}
}

// A supervisor with sessions on Nomad is killed, and goes on with them; how long that takes is told, not judged. TERM
// leaves them running as well, unless their thread says otherwise: then they hear it, and end within the grace.
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
				c.t.Errorf("after %s it works on %v, before on %v", how, runsOf(d), runsOf(begun))
			}
		}
		slices.Sort(took)
		c.t.Logf("from the kill until %d sessions go on: %s", sessions, took)
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
			c.t.Errorf("exit code %d; %d began, %d heard TERM, %d ended by themselves", code, c.runs("begin"),
				c.runs("heard"), c.runs("end"))
		}
		c.wantNothingLeft()
	})
}

// works waits until so many sessions run on a node.
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
