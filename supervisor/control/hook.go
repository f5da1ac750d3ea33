package control

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

const (
	// maxHook bounds the body of a web hook, in bytes. A push of a hundred commits has some 100 kB.
	maxHook = 1 << 20
	// hooksAtOnce bounds the bodies that are read at a time: the sender is unknown until its body is read.
	hooksAtOnce = 8
)

// Hooks receives web hooks of the forge. A hook is only a hint that a scan is worth it now: nothing in it is believed
// except that its sender knows the secret, and which repository it names. The functions may be called from any
// goroutine.
type Hooks struct {
	Config func() *threads.Config // in force now; nil without a valid one
	// Signed is called for each hook with a good signature, Unsigned for one that names a repository and has a wrong one.
	Signed, Unsigned func(repo string)
}

// Handler answers POST /v1/hook, and nothing else.
func (h Hooks) Handler() http.Handler {
	turns := make(chan struct{}, hooksAtOnce)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/hook", func(w http.ResponseWriter, r *http.Request) {
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		default:
			refuse(w, http.StatusServiceUnavailable, "not now: too many hooks at once")
			return
		}
		if err := h.receive(w, r); err != nil {
			answer(w, nil, err)
			return
		}
		// The same answer for a repository that is not ours: the sender does not learn which ones are.
		w.WriteHeader(http.StatusAccepted)
	})
	return mux
}

func (h Hooks) receive(w http.ResponseWriter, r *http.Request) error {
	config := h.Config()
	if config == nil || config.Forge.WebhookSecret == "" {
		return NotNow("not now: there is no valid configuration")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxHook))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return &Refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("cannot read a hook of more than %d bytes", maxHook)}
	} else if err != nil {
		return Invalid("cannot read the hook: %s", err)
	}
	repo, err := hookRepo(body)
	if !signed(r.Header, body, config.Forge.WebhookSecret.Reveal()) {
		if err == nil {
			h.Unsigned(repo)
		}
		return &Refusal{http.StatusForbidden, "cannot believe the hook: it is not signed with [forge] webhook_secret"}
	}
	if err == nil {
		h.Signed(repo)
	}
	return err
}

// signatures are the headers in which forges sign the body: Forgejo, Gitea, and as GitHub does it.
var signatures = []struct{ header, prefix string }{
	{"X-Forgejo-Signature", ""}, {"X-Gitea-Signature", ""}, {"X-Hub-Signature-256", "sha256="},
}

// signed reports whether a body was signed with the secret. The first of the headers that is present decides.
func signed(h http.Header, body []byte, secret string) bool {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	for _, s := range signatures {
		said := h.Get(s.header)
		if said == "" {
			continue
		}
		digits, prefixed := strings.CutPrefix(said, s.prefix)
		sum, err := hex.DecodeString(digits)
		return prefixed && err == nil && hmac.Equal(sum, mac.Sum(nil))
	}
	return false
}

// hookRepo is the repository that a hook names.
func hookRepo(body []byte) (string, error) {
	var said struct {
		Repository struct {
			FullName string `json:"full_name"`
		} `json:"repository"`
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return "", Invalid("cannot read the hook: it is not JSON; set its content type to application/json")
	}
	if !forge.ValidRepo(said.Repository.FullName) {
		return "", Invalid("cannot read the hook: it names no repository")
	}
	return said.Repository.FullName, nil
}
