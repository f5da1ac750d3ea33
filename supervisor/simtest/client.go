package simtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
)

// Faults that are not refusals: the call takes effect with each of them.
var (
	errAnswerLost = errors.New("the answer was lost")
	errAnswerHalf = errors.New("the answer breaks off") // a scan returns only the issues
	errAnswerLate = errors.New("the answer is stale")   // the answer shows the state at the request
)

const (
	// late is the delay of a stale answer, just below the time limit of a call.
	late = 25 * time.Second
	// showEnded is how long a scan still shows an issue that the client saw open.
	showEnded = time.Hour
)

// client is one supervisor's client of a Forge, and implements supervisor.Forge.
type client struct {
	f *Forge
	// use performs a method by its name, or refuses to.
	use func(name string, do func() error) error
	// instance is the id of the supervisor's state directory, host its name for people. A restarted supervisor has the
	// instance of the one before.
	instance func() string
	host     string
	// boot identifies this client among those with its instance, since is when it was made.
	boot  string
	since time.Time

	// Guarded by the mutex of f.
	whole forge.Facts         // facts of the last complete scan
	seen  map[int64]time.Time // update time in the last scan, of each issue that a scan showed open
	runs  map[int64]string    // runs of this client's claims
	// twin is another client with the instance twinOf, which was ours.
	twin   forge.Peer
	twinOf string
	sharer forge.Peer // another supervisor
}

// home is the instance and the host of a world's supervisors.
const home = "home"

func newClient(f *Forge, instance, host string, use func(string, func() error) error) *client {
	return &client{
		f: f, use: use, instance: func() string { return instance }, host: host, boot: rand.Text(), since: time.Now(),
		seen: map[int64]time.Time{}, runs: map[int64]string{},
	}
}

// Client returns the forge's client for a supervisor outside a Life.
func (f *Forge) Client() supervisor.Forge {
	return newClient(f, home, home, func(_ string, do func() error) error { return do() })
}

// call performs a request with its latency and fault.
func (f *Forge) call(ctx context.Context, name string, effect func() error) error {
	f.mu.Lock()
	fault := f.fault
	f.mu.Unlock()
	var how error
	if fault != nil {
		how = fault(ctx, name)
	}
	lost := errors.Is(how, errAnswerLost) || errors.Is(how, errAnswerHalf)
	if how != nil && !lost && !errors.Is(how, errAnswerLate) {
		return how
	}
	if err := f.wait(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	f.requests++
	err := effect()
	f.mu.Unlock()
	if lost {
		return fmt.Errorf("%s: %w: %w", name, forge.ErrUnavailable, how)
	}
	if errors.Is(how, errAnswerLate) {
		time.Sleep(late)
	}
	if late := f.wait(ctx); late != nil {
		return late
	}
	return err
}

func (f *Forge) wait(ctx context.Context) error {
	if ctx.Err() == nil {
		select {
		case <-time.After(f.Latency / 2):
			return nil
		case <-ctx.Done():
		}
	}
	return fmt.Errorf("%w: %w", forge.ErrUnavailable, ctx.Err())
}

// do is a method of one request.
func (c *client) do(ctx context.Context, name string, effect func() error) error {
	return c.use(name, func() error { return c.f.call(ctx, name, effect) })
}

// Prepare does nothing.
func (c *client) Prepare(ctx context.Context) error {
	return c.do(ctx, "prepare", func() error { return nil })
}

// Scan reads everything. Like every client's, its facts carry the time of the request. No time passes between two
// statements in a bubble, so Scan sleeps a microsecond first: otherwise the request would start at the very time of
// the write before it.
func (c *client) Scan(ctx context.Context) (facts forge.Facts, err error) {
	err = c.use("scan", func() (err error) { facts, err = c.scan(ctx); return err })
	return facts, err
}

func (c *client) scan(ctx context.Context) (facts forge.Facts, err error) {
	time.Sleep(time.Microsecond)
	began := time.Now()
	err = c.f.call(ctx, "scan", func() error {
		facts = c.factsLocked(began)
		if c.f.cold > 0 {
			c.f.cold--
			facts.More = true
			for i := range facts.Issues {
				facts.Issues[i].BlockersKnown = false
			}
		}
		return nil
	})
	if errors.Is(err, errAnswerHalf) {
		return c.half(facts), err
	}
	if err != nil {
		return forge.Facts{}, err
	}
	time.Sleep(c.f.Lag)
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	c.whole = facts
	for i := range facts.Issues {
		is := &facts.Issues[i]
		if _, open := c.seen[is.Number]; open || !is.Closed {
			c.seen[is.Number] = is.Updated
		}
	}
	return facts, nil
}

// half returns the facts of a scan that broke off: the current issues, and pull requests and repositories as of the
// last whole scan.
func (c *client) half(facts forge.Facts) forge.Facts {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if c.whole.Repos == nil {
		return forge.Facts{}
	}
	return forge.Facts{Repos: c.whole.Repos, Issues: facts.Issues, Pulls: c.whole.Pulls}
}

func (c *client) factsLocked(began time.Time) forge.Facts {
	f := c.f
	facts := forge.Facts{Commands: slices.Clone(f.said)}
	for _, name := range f.Repos {
		repo := forge.Repo{Name: name, AsOf: began, DefaultBranch: "main", CommentsAsOf: began}
		if f.checks != nil {
			repo.Branches = f.branchesLocked(name)
		}
		if f.off != "" {
			repo.Off, repo.AsOf = f.off, time.Time{}
		}
		facts.Repos = append(facts.Repos, repo)
	}
	blocks := make(map[int64]bool)
	for _, is := range f.issues {
		for _, b := range f.blockersLocked(is) {
			blocks[b.Number] = blocks[b.Number] || !is.Closed
		}
	}
	for n, is := range f.issues {
		_, sawOpen := c.seen[n]
		if is.Closed && !blocks[n] && (!sawOpen || began.Sub(is.Ended) > showEnded) {
			continue
		}
		got := *is
		got.AsOf, got.Blockers, got.HeldBy = began, f.blockersLocked(is), c.holderLocked(is.Ref)
		got.Talk = f.talkLocked(n, is.Labels)
		facts.Issues = append(facts.Issues, got)
	}
	facts.Twin, facts.Sharer = c.peersLocked()
	slices.SortFunc(facts.Issues, func(a, b forge.Issue) int { return a.Ref.Compare(b.Ref) })
	facts.Pulls = f.pullsLocked(func(p *forge.Pull) bool {
		return !p.Closed || began.Sub(p.Ended) <= showEnded || slices.ContainsFunc(p.Closes, func(ref forge.Ref) bool {
			is := f.issues[ref.Number]
			return is != nil && !is.Closed
		})
	})
	for i := range facts.Pulls {
		p := &facts.Pulls[i]
		p.AsOf, p.HeldBy, p.Talk = began, c.holderLocked(p.Ref), f.talkLocked(p.Number, p.Labels)
	}
	return facts
}

// FetchItem reads one item.
func (c *client) FetchItem(ctx context.Context, ref forge.Ref, since time.Time) (look forge.ItemFacts, err error) {
	err = c.do(ctx, "look", func() error {
		f := c.f
		look.Comments = make(map[string]int)
		for login, times := range f.asked[ref.Number] {
			for _, t := range times {
				if !t.Before(since) {
					look.Comments[login]++
				}
			}
		}
		if is := f.issues[ref.Number]; is != nil {
			got := *is
			look.Issue = &got
			look.Pulls = f.pullsLocked(func(p *forge.Pull) bool { return slices.Contains(p.Closes, ref) })
			return nil
		}
		if p := f.pulls[ref.Number]; p != nil {
			got := *p
			if f.checks != nil {
				f.checkedLocked(&got)
			}
			look.Pull = &got
			return nil
		}
		return missing(ref)
	})
	return look, err
}

func missing(ref forge.Ref) error { return fmt.Errorf("%s: %w", ref.Short(), forge.ErrNotFound) }

// WhoAmI returns the login of a token in Tokens. The supervisor's own account is disinto.
func (c *client) WhoAmI(ctx context.Context, token string) (login string, err error) {
	err = c.do(ctx, "whoami", func() error {
		if login = c.f.Tokens[token]; login == "" {
			return fmt.Errorf("token: %w", forge.ErrForbidden)
		}
		return nil
	})
	return login, err
}

// MayWork allows every account that has a token.
func (c *client) MayWork(ctx context.Context, token, _ string) error {
	return c.do(ctx, "maywork", func() error {
		if c.f.Tokens[token] == "" {
			return fmt.Errorf("token: %w", forge.ErrForbidden)
		}
		return nil
	})
}

// Requests returns the number of requests that all clients have made.
func (c *client) Requests() int64 { return c.f.Requests() }

// Requests returns the number of requests of all clients.
func (f *Forge) Requests() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}
