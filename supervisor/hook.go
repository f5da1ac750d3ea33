package supervisor

import (
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// hookRest is the shortest time between two scans for web hooks. One claim alone causes three hooks: two labels and
	// an assignment.
	hookRest = 500 * time.Millisecond
	// staleFor is how long a hook with a wrong signature is an alarm, if none with the right one follows: any client can
	// send them.
	staleFor = time.Hour
)

// hints times the scans for web hooks. The zero value has had none.
type hints struct {
	mu     sync.Mutex // guards the fields below
	hinted time.Time  // when a hook last caused a scan
	due    bool       // another hook waits to cause one

	unsigned   string // the repository of the last hook, if its signature was wrong
	unsignedAt time.Time
}

// schedule returns how long a hint that comes now waits for more hints; due reports that another hint waits already.
func (h *hints) schedule(now time.Time) (wait time.Duration, due bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.due {
		return 0, true
	}
	if wait = h.hinted.Add(hookRest).Sub(now); wait > 0 {
		h.due = true
		return wait, false
	}
	h.hinted = now
	return 0, false
}

// fire ends the wait of a hint.
func (h *hints) fire(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.due, h.hinted = false, now
}

// refused records a hook with a wrong signature, or with "" that one had the right signature.
func (h *hints) refused(repo string, now time.Time) (isNew bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	isNew = repo != h.unsigned
	h.unsigned, h.unsignedAt = repo, now
	return isNew
}

// stale returns a repository of which a hook with a wrong signature came last, within staleFor; "" if there is none.
func (h *hints) stale(now time.Time) (repo string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now.Sub(h.unsignedAt) >= staleFor {
		return ""
	}
	return h.unsigned
}

// refuseHook records that a hook of one of the supervisor's repositories was refused. After a change of the secret
// nothing else shows that: work starts later, and the forge lists the refusals on a page that few people open.
func (s *scanner) refuseHook(repo string) {
	if s.isOurs(repo) && s.hints.refused(repo, time.Now()) {
		s.touchStatus()
	}
}

func (s *scanner) isOurs(repo string) bool {
	cfg := s.state.config()
	return cfg != nil && slices.ContainsFunc(cfg.Forge.Repos, func(r string) bool { return strings.EqualFold(r, repo) })
}

// hint scans the forge if the repository is a configured one: at once if no hint came within hookRest, else together
// with the hints that follow until then.
func (s *scanner) hint(repo string) {
	if !s.isOurs(repo) {
		return
	}
	now := time.Now()
	if s.hints.refused("", now) {
		s.touchStatus()
	}
	switch wait, due := s.hints.schedule(now); {
	case due:
	case wait == 0:
		s.kicks.all(now)
	default:
		time.AfterFunc(wait, func() {
			s.safely("a hook", func() {
				now := time.Now()
				s.hints.fire(now)
				s.kicks.all(now)
			})
		})
	}
}
