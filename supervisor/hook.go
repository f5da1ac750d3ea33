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
	// hookWarning is the shortest time between two warnings about hooks with a wrong signature: any client can send them.
	hookWarning = time.Hour
)

// hints times the scans for web hooks. The zero value has had none.
type hints struct {
	mu     sync.Mutex // guards the fields below
	hinted time.Time  // when a hook last caused a scan
	due    bool       // another hook waits to cause one
	warned time.Time  // the last warning about a hook with a wrong signature
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

// warn reports whether a warning is due.
func (h *hints) warn(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.warned.IsZero() && now.Sub(h.warned) < hookWarning {
		return false
	}
	h.warned = now
	return true
}

// warnOfHook logs once an hour that the supervisor refuses hooks of one of its repositories. After a change of the
// secret nothing else shows that: work starts later, and the forge lists the refusals on a page that few people open.
func (s *scanner) warnOfHook(repo string) {
	if s.isOurs(repo) && s.hints.warn(time.Now()) {
		s.log.Warn("refused a web hook of " + repo + ": it is not signed with [forge] webhook_secret; " +
			"disinto check --fix registers it again")
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
