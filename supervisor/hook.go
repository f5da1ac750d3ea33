package supervisor

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
)

const (
	// hookRest is the least time between two scans that hooks ask for. One claim alone is two labels and an assignment.
	hookRest = 500 * time.Millisecond
	// hookWarning is the least time between two warnings about hooks with a wrong signature: any client can send them.
	hookWarning = time.Hour
)

// HookHandler answers POST /v1/hook, and nothing else.
func (s *Supervisor) HookHandler() http.Handler {
	s.init()
	return control.Hooks{Config: s.currentConfig, Signed: s.hint, Unsigned: s.warnOfHook}.Handler()
}

// warnOfHook logs once an hour that hooks about a repository of ours are refused. After a change of the secret nothing
// else shows that: work begins later, and the forge lists the refusals on a page that few people open.
func (s *Supervisor) warnOfHook(repo string) {
	s.mu.Lock()
	now := time.Now()
	due := s.isOursLocked(repo) && (s.hookWarned.IsZero() || now.Sub(s.hookWarned) >= hookWarning)
	if due {
		s.hookWarned = now
	}
	s.mu.Unlock()
	if due {
		s.log.Warn("a web hook of " + repo + " is refused: it is not signed with [forge] webhook_secret: " +
			"disinto check --fix registers it anew")
	}
}

func (s *Supervisor) isOursLocked(repo string) bool {
	same := func(r string) bool { return strings.EqualFold(r, repo) }
	return s.config != nil && slices.ContainsFunc(s.config.Forge.Repos, same)
}

// hint has the forge scanned, if the repository is one of ours: at once after a pause, else together with the hints
// that follow within half a second.
func (s *Supervisor) hint(repo string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isOursLocked(repo) || s.hintDue {
		return
	}
	now := time.Now()
	wait := s.hinted.Add(hookRest).Sub(now)
	if wait <= 0 {
		s.hinted = now
		s.kickAllLocked(now)
		return
	}
	s.hintDue = true
	time.AfterFunc(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.hintDue, s.hinted = false, time.Now()
		s.kickAllLocked(s.hinted)
	})
}
