package control

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

const (
	// maxHook bounds the body of a web hook, in bytes. The hook of a push with a hundred commits has some 100 kB.
	maxHook = 1 << 20
	// hooksAtOnce bounds the bodies read at a time, because the sender is unknown until its body is read.
	hooksAtOnce = 32
)

// readers are the hooks whose bodies are being read. When there are too many, the oldest is dropped. A forge sends a
// hook in milliseconds, and slow senders must not keep the forge out.
type readers struct {
	mu   sync.Mutex // guards the fields below
	list []*reader  // oldest first
}

// reader is a body that is being read.
type reader struct{ giveUp func() }

// add adds a reader. giveUp makes its read fail at once. The caller calls leave after the read.
func (r *readers) add(giveUp func()) (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) >= hooksAtOnce {
		r.list[0].giveUp()
		r.list = r.list[1:]
	}
	one := &reader{giveUp}
	r.list = append(r.list, one)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.list = slices.DeleteFunc(r.list, func(other *reader) bool { return other == one })
	}
}

// Hooks receives web hooks of the forge. A hook is a hint that a scan is useful now. Its signature proves that the
// sender knows the secret. Apart from that, Hooks uses only the name of the repository, and what a new comment said
// when it was written, which an edit of the comment cannot change any more. The functions may be called from any
// goroutine.
type Hooks struct {
	Config func() *threads.Config // in force now; nil without a valid one
	// Hooks that name a repository lead to a call: of Signed if the signature is valid and the hook is not about one of
	// our comments for people, of Unsigned if the signature is wrong or missing.
	Signed, Unsigned func(repo string)
	// Written is called before Signed for a comment that the hook's sender has just written. The command is the zero
	// Command if the comment has none. Only ID, Author and Command are set.
	Written func(forge.CommandComment)
}

// Handler answers POST /v1/hook and nothing else.
func (h Hooks) Handler() http.Handler {
	var reading readers
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/hook", func(w http.ResponseWriter, r *http.Request) {
		if err := h.receive(w, r, &reading); err != nil {
			answer(w, nil, err)
			return
		}
		// The same answer for a repository that is not ours: the sender does not learn which ones we have.
		w.WriteHeader(http.StatusAccepted)
	})
	return mux
}

func (h Hooks) receive(w http.ResponseWriter, r *http.Request, reading *readers) error {
	config := h.Config()
	if config == nil || config.Forge.WebhookSecret == "" {
		return NotNow("not now: there is no valid configuration")
	}
	in := http.NewResponseController(w)
	leave := reading.add(func() { _ = in.SetReadDeadline(time.Now()) })
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxHook))
	leave()
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return &Refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("cannot read a hook of more than %d bytes", maxHook)}
	} else if err != nil {
		return Invalid("cannot read the hook: %s", err)
	}
	body = payload(r.Header, body)
	said, err := readHook(body)
	if !signed(r.Header, body, config.Forge.WebhookSecret.Reveal()) {
		if err == nil {
			h.Unsigned(said.Repository.FullName)
		}
		return &Refusal{http.StatusForbidden, "cannot accept the hook: it is not signed with [forge] webhook_secret"}
	}
	if err != nil {
		return err
	}
	if comment, ok := said.written(); ok {
		h.Written(comment)
	}
	// A scan would find nothing new after one of our comments for people, such as one with expected times.
	if !forge.IsForPeople(said.Comment.Body) {
		h.Signed(said.Repository.FullName)
	}
	return nil
}

// payload returns the JSON of a hook: the body, or a field of the form if the hook's content type is
// application/x-www-form-urlencoded. The signature is of the JSON in both cases.
func payload(h http.Header, body []byte) []byte {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return body
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || !form.Has("payload") {
		return body
	}
	return []byte(form.Get("payload"))
}

// signatures are the headers in which forges sign the body: Forgejo's, Gitea's, and GitHub's.
var signatures = []struct{ header, prefix string }{
	{"X-Forgejo-Signature", ""}, {"X-Gitea-Signature", ""}, {"X-Hub-Signature-256", "sha256="},
}

// signed reports whether a payload was signed with the secret. The first header that is present decides.
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

// hook is what we read of a web hook.
type hook struct {
	Action     string `json:"action"`
	Repository struct {
		FullName string `json:"full_name"`
	} `json:"repository"`
	Comment struct {
		ID   int64   `json:"id"`
		Body string  `json:"body"`
		User account `json:"user"`
	} `json:"comment"`
	Sender account `json:"sender"`
}

type account struct {
	Login string `json:"login"`
}

// readHook parses a hook. Without an error, it names a repository.
func readHook(body []byte) (said hook, err error) {
	if err := json.Unmarshal(body, &said); err != nil {
		return hook{}, Invalid("cannot read the hook: it is neither JSON nor a form with a payload in JSON")
	}
	if !forge.ValidRepo(said.Repository.FullName) {
		return hook{}, Invalid("cannot read the hook: it names no repository")
	}
	return said, nil
}

// written returns the comment that the hook's sender has just written; ok is false if the hook is about anything else.
func (h *hook) written() (comment forge.CommandComment, ok bool) {
	author := h.Comment.User.Login
	if h.Action != "created" || h.Comment.ID <= 0 || author == "" || h.Sender.Login != author {
		return comment, false
	}
	command, _ := forge.CommandIn(h.Comment.Body)
	return forge.CommandComment{ID: h.Comment.ID, Author: author, Command: command}, true
}
