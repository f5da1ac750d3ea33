package session

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// outageTime is how long a session, once its model has answered, waits altogether for a forge that does not answer.
// A forge is restarted in less; afterwards the work is kept, and the slot is free for the other work of its thread.
const outageTime = 10 * time.Minute

var (
	// noForge matches git's words about an address that does not answer, or answers 5xx or 429, after that address.
	noForge = regexp.MustCompile(`^[^']*': (Failed to connect|Could not resolve host|Couldn't connect|Connection |` +
		`Operation (timed out|too slow)|Empty reply|Recv failure|Send failure|` +
		`(The )?[Rr]equested URL returned error: (5\d\d|429))`)
	// brokenOff matches git's and git-lfs' words about a transfer that the forge broke off.
	brokenOff = regexp.MustCompile(`RPC failed; (HTTP (5\d\d|429)|curl (7|18|28|52|55|56|92) )|` +
		`dial tcp .*(connection refused|no such host|timeout)`)
)

// unreachable reports whether git's words say that the forge at an address did not answer. Another address, which the
// agent's own settings may name, does not count.
func unreachable(said, url string) bool {
	_, rest, ok := strings.Cut(said, "unable to access '"+strings.TrimSuffix(url, "/")+"/")
	return ok && noForge.MatchString(rest) || brokenOff.MatchString(said)
}

// ask is do for a command that talks to the forge. git has no deadline for a forge that accepts a connection and has
// stopped, or is lost on the way. So the forge is asked meanwhile, and git is ended once that has failed for downTime.
func (g *git) ask(ctx context.Context, dir string, args ...string) (string, error) {
	if g.answers == nil {
		return g.do(ctx, dir, args...)
	}
	asking, end := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if err := g.awaitSilence(asking); err != nil {
			end(fmt.Errorf("git %s: %w", args[0], err))
		}
	}()
	out, err := g.do(asking, dir, args...)
	end(nil)
	<-watched
	if silent := context.Cause(asking); err != nil && errors.Is(silent, forge.ErrUnavailable) {
		err = silent
	}
	return out, err
}

// awaitSilence returns an error once the forge has not answered for downTime, and nil when ctx is done.
func (g *git) awaitSilence(ctx context.Context) error {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	var since time.Time // zero while it answers
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		began := time.Now()
		err := g.answers(ctx)
		switch {
		case !errors.Is(err, forge.ErrUnavailable):
			since = time.Time{}
		case since.IsZero():
			since = began
		case time.Since(since) >= downTime:
			return err
		}
	}
}

// outlast carries out what can be repeated, and repeats it while the forge does not answer, after 1 s, doubled up to
// 30 s. Before the model's first answer it does not: nothing would be lost, and another session may start later.
func (r *run) outlast(ctx context.Context, do func() error) error {
	began, pause := r.Now(), time.Second
	err := do()
	waits := func() bool { return errors.Is(err, forge.ErrUnavailable) && r.worthWaiting() && ctx.Err() == nil }
	if !waits() {
		return err
	}
	r.show(agents.Doing{Phase: agents.PhaseForge, Since: began})
	defer r.show(agents.Doing{})
	for r.outage += r.Now().Sub(began); waits(); {
		if r.outage >= outageTime {
			return fmt.Errorf("waited %s for the forge: %w", outageTime, err)
		}
		r.logf("the forge does not answer; next try in %s: %v", pause, err)
		began = r.Now()
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		err = do()
		r.outage, pause = r.outage+r.Now().Sub(began), min(2*pause, 30*time.Second)
	}
	return err
}

// awaitForge waits until the forge answers, before what must not be repeated.
func (r *run) awaitForge(ctx context.Context) error {
	return r.outlast(ctx, func() error {
		_, err := r.base(ctx)
		return err
	})
}

// worthWaiting reports whether a session has work that it would lose or put off.
func (r *run) worthWaiting() bool { return r.heard || r.verifying.before }
