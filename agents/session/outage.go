package session

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// outageTime is how long a session, once its model has answered, waits altogether for a forge that does not answer.
// A forge is restarted in less; afterwards the work is kept, and the slot is free for the other work of its thread.
const outageTime = 10 * time.Minute

var (
	// noForge matches git's words about an address that does not answer, or answers 5xx or 429, after that address.
	noForge = regexp.MustCompile(`^[^']*': (Failed to connect|Could not resolve host|Couldn't connect|Connection |` +
		`Operation timed out|Empty reply|Recv failure|Send failure|(The )?[Rr]equested URL returned error: (5\d\d|429))`)
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

// outlast carries out what can be repeated, and repeats it while the forge does not answer, after 1 s, doubled up to
// 30 s. Before the model's first answer it does not: nothing would be lost, and another session may start later.
func (r *run) outlast(ctx context.Context, do func() error) error {
	pause := time.Second
	err := do()
	for errors.Is(err, forge.ErrUnavailable) && r.worthWaiting() && ctx.Err() == nil {
		if r.outage >= outageTime {
			return fmt.Errorf("waited %s for the forge: %w", outageTime, err)
		}
		r.logf("the forge does not answer; next try in %s: %v", pause, err)
		began := r.Now()
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
