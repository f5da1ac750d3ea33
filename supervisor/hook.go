package supervisor

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
)

const (
	// maxHook bounds the body of a web hook, in bytes. A push of a hundred commits has some 100 kB.
	maxHook = 1 << 20
	// hooksAtOnce is how many bodies are read at a time: who sends is not known before the body is.
	hooksAtOnce = 8
	// hookRest is the least time between two scans that hooks ask for. One claim alone is two labels and an assignment.
	hookRest = 500 * time.Millisecond
	// hookWarning is how often the log tells of hooks with a wrong signature: anybody can send them.
	hookWarning = time.Hour
)

// HookHandler answers POST /v1/hook, and nothing else. A hook is only a hint that it is worth looking at the forge now:
// nothing in it is believed but that its sender knows the secret, and which repository it is about.
func (s *Supervisor) HookHandler() http.Handler {
	s.init()
	turns := make(chan struct{}, hooksAtOnce)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/hook", func(w http.ResponseWriter, r *http.Request) {
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		default:
			refuse(w, http.StatusServiceUnavailable, errors.New("not now: too many hooks at once"))
			return
		}
		if status, err := s.hook(w, r); err != nil {
			refuse(w, status, err)
			return
		}
		// The same answer for a repository that is not ours: who asks does not learn which ones are.
		w.WriteHeader(http.StatusAccepted)
	})
	return mux
}

// hook checks a web hook and has its repository scanned.
func (s *Supervisor) hook(w http.ResponseWriter, r *http.Request) (status int, err error) {
	s.mu.Lock()
	secret := ""
	if s.config != nil {
		secret = s.config.Forge.WebhookSecret.Reveal()
	}
	s.mu.Unlock()
	if secret == "" {
		return http.StatusServiceUnavailable, errors.New("not now: there is no valid configuration")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxHook))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return http.StatusRequestEntityTooLarge, fmt.Errorf("cannot read a hook of more than %d bytes", maxHook)
	} else if err != nil {
		return http.StatusBadRequest, fmt.Errorf("cannot read the hook: %w", err)
	}
	if !signed(r.Header, body, secret) {
		s.warnOfHook(body)
		return http.StatusForbidden, errors.New("cannot believe the hook: it is not signed with [forge] webhook_secret")
	}
	repo, err := hookRepo(body)
	if err != nil {
		return http.StatusBadRequest, err
	}
	s.hint(repo)
	return http.StatusAccepted, nil
}

// signatures are the headers in which forges sign the body: Forgejo, Gitea, and as GitHub does it.
var signatures = []struct{ header, prefix string }{
	{"X-Forgejo-Signature", ""}, {"X-Gitea-Signature", ""}, {"X-Hub-Signature-256", "sha256="},
}

// signed reports whether a body was signed with the secret. The first header that is there has to be right.
func signed(h http.Header, body []byte, secret string) bool {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	for _, s := range signatures {
		said := h.Get(s.header)
		if said == "" {
			continue
		}
		text, ok := strings.CutPrefix(said, s.prefix)
		sum, err := hex.DecodeString(text)
		return ok && err == nil && hmac.Equal(sum, mac.Sum(nil))
	}
	return false
}

// hookRepo is the repository that a hook is about.
func hookRepo(body []byte) (string, error) {
	var said struct {
		Repository struct {
			FullName string `json:"full_name"`
		} `json:"repository"`
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return "", errors.New("cannot read the hook: it is not JSON; set its content type to application/json")
	}
	if !forge.ValidRepo(said.Repository.FullName) {
		return "", errors.New("cannot read the hook: it names no repository")
	}
	return said.Repository.FullName, nil
}

// warnOfHook says now and then that hooks about a repository of ours are refused. After a change of the secret nothing else
// would: work only begins later, and the forge shows the refusals to nobody who is not looking for them.
func (s *Supervisor) warnOfHook(body []byte) {
	repo, err := hookRepo(body)
	if err != nil {
		return
	}
	s.mu.Lock()
	now := time.Now()
	due := s.isOursLocked(repo) && (s.hookWarned.IsZero() || now.Sub(s.hookWarned) >= hookWarning)
	if due {
		s.hookWarned = now
	}
	s.mu.Unlock()
	if due {
		s.log.Warn("a web hook of " + repo + " is refused: it is not signed with [forge] webhook_secret: disinto check --fix registers it anew")
	}
}

func (s *Supervisor) isOursLocked(repo string) bool {
	return s.config != nil && slices.ContainsFunc(s.config.Forge.Repos, func(r string) bool { return strings.EqualFold(r, repo) })
}

// hint has the forge scanned, if the repository is one of ours. The first hint counts at once; those that follow it closely
// become one.
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
