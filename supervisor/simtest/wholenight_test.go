package simtest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// wholeNight is a factory of ten repositories and fifteen agents, to which everything happens in one night.
type wholeNight struct {
	*World
	box   *mailbox
	tell  func(*Life)
	free  atomic.Int64 // of the disk
	twins float64      // what the twin's sessions used
	away  atomic.Bool  // the forge

	// Each has room for one incident: reach of those that need the forge to answer or not to, dir of those that use the
	// state directory's name or the configuration. A mutex would stop the bubble's clock.
	reach, dir chan struct{}

	mu      sync.Mutex // guards the fields below
	rng     *rand.Rand
	life    *Life
	bad     string    // the agent that fails at once
	limited string    // the thread whose vendor refuses work
	until   time.Time // the end of that
	want    []promise
}

// promise is a message that people must get once, within a minute.
type promise struct {
	words string
	from  time.Time
}

// newNight returns the factory: nine agents write, on an API thread and on a local one with four slots, and six review.
func newNight(t *testing.T, seed uint64) *wholeNight {
	n := &wholeNight{
		World: New(t), rng: rand.New(rand.NewPCG(seed, 36)), reach: make(chan struct{}, 1), dir: make(chan struct{}, 1),
	}
	n.poll(15*time.Second, 15*time.Second)
	n.Outlive()
	n.Forge.Repos = nil
	for i := range 10 {
		n.Forge.Repos = append(n.Forge.Repos, fmt.Sprintf("johba/r%d", i))
	}
	n.Forge.Check("ci/test")
	c := n.Config
	c.Forge.Repos, c.Forge.MaxUnreviewed = n.Forge.Repos, 20
	c.Factory.MinFreeDisk = 1 << 30
	n.free.Store(2 << 30)
	for i := range c.Threads {
		c.Threads[i].Agents = nil
	}
	c.Threads[0].MaxSessions = 11
	c.Threads[1].Slots, c.Threads[1].MaxSessions = 4, 4
	c.Agents = nil
	add := func(name, role string, thread int) {
		c.Agents = append(c.Agents, agents.Agent{
			Name: name, Login: name, Roles: []string{role}, Thread: c.Threads[thread].Name,
			Token: agents.Secret("token-of-" + name),
		})
		c.Threads[thread].Agents = append(c.Threads[thread].Agents, name)
		n.Forge.Tokens["token-of-"+name] = name
	}
	for i := range 9 {
		add(fmt.Sprint("dev-", i), "dev", i/5)
	}
	for i := range 6 {
		add(fmt.Sprint("review-", i), "review", 0)
	}
	n.Forge.Fail(func(_ context.Context, call string) error {
		if n.away.Load() {
			return fmt.Errorf("%s: connection refused: %w", call, forge.ErrUnavailable)
		}
		return nil
	})
	n.Exec.Script = n.script
	n.box, n.tell = n.told()
	return n
}

// script is what happens to a session: most do their work, and every fifth pull request is reworked once.
func (n *wholeNight) script(job agents.Job, round int) Script {
	n.mu.Lock()
	bad, limited, until := n.bad, n.limited, n.until
	n.mu.Unlock()
	switch {
	case job.Agent == bad:
		return Script{Takes: 3 * time.Second, Outcome: agents.Outcome{
			Result: agents.Failed, Reason: "work: exit status 127", ExitCode: 127, Tail: "npm: not found\n",
		}}
	case variable(job, "DISINTO_THREAD") == limited:
		return Script{Takes: 5 * time.Second, Outcome: agents.Outcome{
			Result: agents.Limited, Claimed: true, Reason: "usage limit reached", RetryAt: until,
		}}
	case !n.known(job.Agent):
		return reports(10*time.Second, agents.Failed, "push: 401")
	}
	s := n.Work(job, round)
	s.Turn, s.Uses = time.Minute, agents.Usage{InputTokens: 1000, OutputTokens: 100, CostUSD: 0.05}
	if job.Kind == agents.KindIssue {
		s.Takes = 40 * time.Minute
	}
	if job.Kind == agents.KindReview && round == 1 && job.Number%5 == 0 {
		s.Do = func() { n.Forge.Review(job.Number, job.Agent, forge.ChangesRequested) }
	}
	return s
}

// known reports whether the forge knows the token of an agent.
func (n *wholeNight) known(agent string) bool {
	n.Forge.mu.Lock()
	defer n.Forge.mu.Unlock()
	return n.Forge.agentLocked(agent)
}

func (n *wholeNight) start() {
	life := n.Start(n.tell, func(l *Life) {
		l.Room = func(string) threads.Room { return threads.Room{Memory: math.MaxInt64, Disk: n.free.Load()} }
	})
	set(&n.mu, &n.life, life)
}

// file files ten issues, and one every five minutes for nine hours, in all repositories in turn.
func (n *wholeNight) file() {
	for i := range 118 {
		n.Forge.IssueIn(n.Forge.Repos[i*7%10], fmt.Sprint("issue ", i))
		if i >= 10 {
			time.Sleep(5 * time.Minute)
		}
	}
}

// promised records that people must get a message with these words once, within a minute of from.
func (n *wholeNight) promised(from time.Time, words string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.want = append(n.want, promise{words, from})
}

// random returns a number below most.
func (n *wholeNight) random(most int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rng.IntN(most)
}

// current returns the supervisor of now.
func (n *wholeNight) current() *Life {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life
}

// dev returns an agent that writes.
func (n *wholeNight) dev() string { return fmt.Sprint("dev-", n.random(9)) }

// ended returns the end of the k-th session since a time that fits.
func (n *wholeNight) ended(since time.Time, k int, what string, fits func(*Run) bool) (at time.Time) {
	n.T.Helper()
	n.Until(3*time.Hour, what, func() bool {
		left := k
		for _, r := range n.Exec.Runs() {
			if r.Begin.Before(since) || r.End.IsZero() || !fits(&r) {
				continue
			}
			if left--; left == 0 {
				at = r.End
			}
		}
		return left <= 0
	})
	return at
}

// incident is one thing that happens. It lasts for a while, and then a person or the world mends it.
type incident struct {
	name string
	play func(n *wholeNight, lasts time.Duration)
}

var incidents = []incident{
	{"an agent fails at once", func(n *wholeNight, lasts time.Duration) {
		began, name := time.Now(), n.dev()
		n.fail(name)
		third := n.ended(began, 3, name+" fails three times", func(r *Run) bool { return r.Outcome.ExitCode == 127 })
		n.promised(third, name+" is held")
		time.Sleep(lasts)
		n.fail("")
	}},
	{"a merge makes main red", func(n *wholeNight, lasts time.Duration) {
		n.Forge.Break(1)
		var repo string
		n.Until(3*time.Hour, "a merge makes main red", func() bool { repo, _ = n.Forge.Red(); return repo != "" })
		n.promised(time.Now(), repo+": main is red")
		time.Sleep(lasts)
		n.Forge.Repair(repo)
	}},
	{"the disk is full", func(n *wholeNight, lasts time.Duration) {
		n.dir <- struct{}{}
		defer func() { <-n.dir }()
		n.free.Store(0)
		n.promised(time.Now(), "is full")
		time.Sleep(lasts)
		n.free.Store(2 << 30)
	}},
	{"the forge is away", func(n *wholeNight, lasts time.Duration) {
		n.reach <- struct{}{}
		defer func() { <-n.reach }()
		n.away.Store(true)
		n.promised(time.Now().Add(time.Minute), "the forge does not answer") // a restart of it needs no message
		time.Sleep(lasts)
		n.away.Store(false)
		n.promised(time.Now().Add(time.Minute), "the forge answers again")
	}},
	{"a vendor's limit", func(n *wholeNight, lasts time.Duration) {
		began := time.Now()
		n.limit("anthropic", began.Add(lasts)) // over a second before that
		first := n.ended(began, 1, "a session is refused", func(r *Run) bool { return r.Outcome.Result == agents.Limited })
		n.promised(first, "thread anthropic is rate limited")
		time.Sleep(time.Until(began.Add(lasts - time.Second)))
		n.limit("", time.Time{})
	}},
	{"a token is rotated", func(n *wholeNight, lasts time.Duration) {
		name := n.dev()
		n.Forge.setToken("token-of-"+name, "")
		n.Until(3*time.Hour, name+" is held", func() bool {
			at := slices.IndexFunc(n.current().Document().Agents, func(a control.AgentDocument) bool { return a.Name == name })
			return n.current().Document().Agents[at].Code == threads.TokenRejected
		})
		n.promised(time.Now(), name+" can start nothing")
		time.Sleep(lasts)
		n.Forge.setToken("new-token-of-"+name, name)
		n.dir <- struct{}{}
		next := *n.Config
		next.Agents = slices.Clone(next.Agents)
		for i := range next.Agents {
			if next.Agents[i].Name == name {
				next.Agents[i].Token = agents.Secret("new-token-of-" + name)
			}
		}
		n.Config = &next
		n.current().Reload(&next, nil)
		<-n.dir
	}},
	{"a twin for a minute", func(n *wholeNight, lasts time.Duration) {
		n.reach <- struct{}{}
		n.dir <- struct{}{}
		twin := n.copied()
		twin.Config, twin.Exec.Script = n.Config, n.script
		<-n.dir
		began := time.Now()
		l := twin.Start()
		time.Sleep(time.Minute)
		l.Stop()
		n.twins += cost(twin)
		n.Until(time.Hour, "it is noticed", func() bool { return n.current().Document().Paused })
		<-n.reach
		n.promised(began, "disinto adopt-state")
		time.Sleep(lasts)
		n.Until(2*time.Hour, "its sessions end", func() bool { return len(n.current().Document().Sessions) == 0 })
		if got := ask(n.current(), "/v1/adopt-state", `{}`); !strings.Contains(got, `"did":["adopted`) {
			n.T.Errorf("adopt-state: got %s", got)
		}
	}},
	{"kill -9 of the supervisor", func(n *wholeNight, _ time.Duration) {
		n.dir <- struct{}{}
		defer func() { <-n.dir }()
		n.current().Kill()
		n.current().Bury()
		time.Sleep(2 * time.Second)
		n.start()
	}},
}

func (n *wholeNight) fail(agent string) { set(&n.mu, &n.bad, agent) }

func (n *wholeNight) limit(thread string, until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.limited, n.until = thread, until
}

// cost is what all sessions of a world used.
func cost(w *World) (usd float64) {
	for _, r := range w.Exec.Runs() {
		usd += r.Outcome.Usage.CostUSD
	}
	return usd
}

// play plays the night with its incidents, and returns its cost. They come one after another, or all within three
// hours.
func (n *wholeNight) play(list []incident, atOnce bool) float64 {
	n.start()
	began := time.Now()
	go n.file()
	time.Sleep(30 * time.Minute)
	var all sync.WaitGroup
	for i, in := range list {
		after, lasts := time.Duration(n.random(10))*time.Minute, time.Duration(10+n.random(20))*time.Minute
		if atOnce {
			after = time.Duration(n.random(180)) * time.Minute
		} else {
			time.Sleep(time.Until(began.Add(30*time.Minute + time.Duration(i)*time.Hour)))
		}
		all.Go(func() {
			time.Sleep(after)
			n.logf("---- %s\n", in.name)
			in.play(n, lasts)
		})
		if !atOnce {
			all.Wait()
		}
	}
	all.Wait()
	n.Until(time.Until(began.Add(12*time.Hour)), "everything is merged", n.Forge.Done)
	time.Sleep(2 * time.Minute)
	n.current().Stop()
	n.Check()
	return cost(n.World) + n.twins
}

// kept checks that every promise was kept once, within a minute, and that people got nothing else.
func (n *wholeNight) kept() {
	for _, p := range n.want {
		got := slices.DeleteFunc(n.box.all(), func(l letter) bool { return !strings.Contains(l.text, p.words) })
		if len(got) != 1 || got[0].at.Before(p.from.Add(-time.Minute)) || got[0].at.After(p.from.Add(time.Minute)) {
			n.T.Errorf("got %v with %q, want one within a minute of %s", got, p.words, p.from.Format(time.TimeOnly))
		}
	}
	for _, l := range n.box.all() {
		if !slices.ContainsFunc(n.want, func(p promise) bool { return strings.Contains(l.text, p.words) }) {
			n.T.Errorf("nothing promised: %v", l)
		}
	}
}

// Twelve hours in which everything happens once: a bad agent, a red main, a full disk, an outage, a limit, a rotated
// token, a twin for a minute and a kill. Every issue is merged, for at most 1.3 of what a quiet night costs, and people
// are told of each once, within a minute, and of nothing else.
func TestWholeNight(t *testing.T) {
	OnlyInStorms(t)
	var quiet float64
	synctest.Test(t, func(t *testing.T) {
		n := newNight(t, 0)
		quiet = n.play(nil, false)
		n.kept()
	})
	for seed := range uint64(4) {
		atOnce := seed%2 == 1
		t.Run(fmt.Sprintf("%d, at once %t", seed, atOnce), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNight(t, seed)
				list := slices.Clone(incidents)
				n.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
				spent := n.play(list, atOnce)
				t.Logf("$%.2f, and a quiet night $%.2f", spent, quiet)
				if spent > 1.3*quiet {
					t.Errorf("it cost $%.2f, more than 1.3 of the quiet night's $%.2f", spent, quiet)
				}
				n.kept()
			})
		})
	}
}
