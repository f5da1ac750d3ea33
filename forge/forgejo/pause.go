package forgejo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"codeberg.org/johba/disinto/forge"
)

const (
	firstPause = time.Second
	longPause  = time.Minute
	// longestAsked bounds a Retry-After: a proxy that sends an hour must not cost an hour of work.
	longestAsked = 10 * time.Minute
)

// pause spaces retries: each consecutive failure doubles the time until the next try. The zero value means no failure.
type pause struct {
	failures int
	until    time.Time
	why      error
}

// fail records a failed try. Half of the pause is random, so that the supervisors of a fleet do not retry at the same
// time.
func (p *pause) fail(now time.Time, err error) {
	wait := min(firstPause<<min(p.failures, 10), longPause)
	p.failures++
	wait = wait/2 + rand.N(wait/2+1)
	if e, ok := errors.AsType[*requestError](err); ok && e.retryAfter > wait {
		wait = min(e.retryAfter, longestAsked)
	}
	p.until, p.why = now.Add(wait), err
}

func (p *pause) succeed() { *p = pause{} }

// check returns nil when the next try is due; before, it returns the last failure with the time of the next try.
func (p *pause) check(now time.Time) error {
	if !now.Before(p.until) {
		return nil
	}
	return fmt.Errorf("%w; next try at %s", p.why, p.until.Format(time.TimeOnly))
}

// isOutage reports whether err makes other requests pointless for now: no answer, a gateway's answer, "too many
// requests", or an ended context. A 500 is not an outage, because Forgejo also sends it for single items.
func isOutage(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	e, ok := errors.AsType[*requestError](err)
	if !ok || !errors.Is(e, forge.ErrUnavailable) {
		return false
	}
	switch e.status {
	case 0, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}
