package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/forge/rest"
)

// inbox is a recipient of [notify] that accepts every message.
type inbox struct {
	*httptest.Server
	mu   sync.Mutex // guards the fields below
	got  []string   // the messages
	keys []string   // their Authorization headers
}

func newInbox(t *testing.T) *inbox {
	t.Helper()
	in := new(inbox)
	in.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var letter struct{ Message, Link string }
		_ = json.NewDecoder(r.Body).Decode(&letter)
		in.mu.Lock()
		defer in.mu.Unlock()
		in.got = append(in.got, letter.Message+" "+letter.Link)
		in.keys = append(in.keys, r.Header.Get("Authorization"))
	}))
	t.Cleanup(in.Close)
	return in
}

// letters returns the messages so far, and their Authorization headers.
func (in *inbox) letters() (got, keys []string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.got), slices.Clone(in.keys)
}

// about counts the messages that contain a text.
func (in *inbox) about(words string) (n int) {
	got, _ := in.letters()
	for _, m := range got {
		if strings.Contains(m, words) {
			n++
		}
	}
	return n
}

// The real program sends a message about an issue that needs a person. One url is in a variable with a secret; at the
// other nothing listens. A restart repeats no message.
func TestNotify(t *testing.T) {
	leftToStorms(t, "the messages and retries of supervisor/notify")
	t.Parallel()
	f := newTestForge(t)
	in := newInbox(t)
	state := t.TempDir()
	urls := fmt.Sprintf("[notify]\nurls = [\"$NOTIFY_URL\", \"ntfy://%s/t0pic?scheme=http\"]\n\n[factory]", deadAddress(t))
	secret := map[string]string{"NOTIFY_URL": "generic+http://:s3cret-token@" + in.Listener.Addr().String() +
		"/s3cret-path"}
	r := f.startRun(state, secret, "[factory]", urls)
	f.file404(t)
	eventually(t, "the message", func() bool { return in.about("depends on") == 1 })
	if letters, keys := in.letters(); in.about("/"+demo.Repo+"/issues/") == 0 || keys[0] != "Bearer s3cret-token" {
		t.Errorf("got messages %q with %q", letters, keys)
	}
	got := disinto(t.Context(), f.environ(secret), "status", "--state", state)
	if !strings.Contains(got.stdout, "cannot send messages to url 2 of [notify] (ntfy ") {
		t.Errorf("the status does not name the url that fails:\n%s", got.stdout)
	}
	r.signal(syscall.SIGTERM)
	r.wait()
	for _, path := range []string{r.stderr, filepath.Join(state, "status.json"), filepath.Join(state, "notified.json")} {
		text, err := os.ReadFile(path)
		if err != nil || strings.Contains(string(text), "s3cret") || strings.Contains(string(text), "t0pic") {
			t.Errorf("%s contains a secret, or cannot be read: %v\n%s", path, err, text)
		}
	}
	r = f.startRun(state, secret, "[factory]", urls)
	f.file404(t)
	eventually(t, "the next message", func() bool { return in.about("depends on") > 1 })
	if n := in.about("depends on"); n != 2 {
		t.Errorf("after a restart: got %d messages, want 2", n)
	}
	r.signal(syscall.SIGTERM)
	r.wait()
}

// file404 files an issue that depends on a missing one.
func (f *testForge) file404(t *testing.T) {
	t.Helper()
	var labels []struct {
		ID   int64
		Name string
	}
	f.get("/labels", &labels)
	human := rest.API{URL: f.URL, Token: f.HumanToken}
	for _, l := range labels {
		if l.Name == "backlog" {
			issue := map[string]any{"title": "lost", "body": "Depends on #40404", "labels": []int64{l.ID}}
			if err := human.Post(t.Context(), "/repos/"+demo.Repo+"/issues", issue, nil); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("the repository has no label backlog")
}

// check --notify sends one message to each url, and names the recipients that failed, without their urls.
func TestCheckNotify(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	in := newInbox(t)
	urls := fmt.Sprintf("[notify]\nurls = [\"generic+http://%s/s3cret\", \"generic+http://%s/s3cret\"]\n\n[factory]",
		in.Listener.Addr(), deadAddress(t))
	path := f.file(t.TempDir(), "[factory]", urls)
	got := disinto(t.Context(), f.environ(nil), "check", "--config", path)
	if letters, _ := in.letters(); len(letters) > 0 || strings.Contains(got.stdout, "accepted a message") {
		t.Errorf("check without --notify sent %q", letters)
	}
	got = disinto(t.Context(), f.environ(nil), "check", "--notify", "--config", path)
	letters, _ := in.letters()
	if len(letters) != 1 || !strings.Contains(letters[0], "disinto check --notify on ") || got.code != 1 ||
		!strings.Contains(got.stdout, " url 1 of [notify] (generic "+in.Listener.Addr().String()+") accepted a message") ||
		!strings.Contains(got.stdout, "connection refused") || strings.Contains(got.stdout+got.stderr, "s3cret") {
		t.Errorf("check --notify: got exit code %d and messages %q:\n%s", got.code, letters, got.stdout)
	}
	none := disinto(t.Context(), f.environ(nil), "check", "--notify", "--config", f.file(t.TempDir()))
	if none.code != 1 || !strings.Contains(none.stdout, "[notify] in factory.toml names no urls") {
		t.Errorf("check --notify without urls: got exit code %d:\n%s", none.code, none.stdout)
	}
	if got := disinto(t.Context(), f.environ(nil), "check", "--notify", "--offline", "--config", path); got.code != 2 {
		t.Errorf("check --notify --offline: got exit code %d: %s", got.code, got.stderr)
	}
}
