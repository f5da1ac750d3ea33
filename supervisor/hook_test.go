package supervisor_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/simtest"
)

const hookSecret = "the secret of the hook"

func sign(secret, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

const aboutUs = `{"action":"opened","repository":{"full_name":"Johba/Harb"}}`

// send sends a web hook and returns the response's status.
func send(h http.Handler, body string, header ...string) int {
	r := httptest.NewRequest("POST", "/v1/hook", strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// idle returns a supervisor that scans the forge once an hour, and has just done so.
func idle(t *testing.T) (*simtest.World, *simtest.Life, http.Handler) {
	t.Helper()
	w := simtest.New(t)
	for i := range w.Config.Threads {
		w.Config.Threads[i].Interval, w.Config.Threads[i].IdleInterval = time.Hour, time.Hour
	}
	w.Config.Forge.WebhookSecret = hookSecret
	l := w.Start()
	time.Sleep(time.Minute)
	return w, l, l.HookHandler()
}

// A signed hook starts an agent of an idle factory in less than a second; an unsigned one does nothing.
func TestHookStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l, h := idle(t)
		w.Forge.Issue("one")
		sum := sign(hookSecret, aboutUs)
		elsewhere := `{"repository":{"full_name":"a/b"}}`
		quiet := `{"action":"edited","comment":{"body":"x\n\n<!-- disinto:receipts-1 -->"},` + aboutUs[len(`{"action":"opened",`):]
		for _, tt := range []struct {
			name   string
			body   string
			header []string
			want   int
		}{
			{"unsigned", aboutUs, nil, 403},
			{"signed with another secret", aboutUs, []string{"X-Forgejo-Signature", sign("x", aboutUs)}, 403},
			{"about a comment with receipts", quiet, []string{"X-Forgejo-Signature", sign(hookSecret, quiet)}, 202},
			{"about another repository", elsewhere, []string{"X-Forgejo-Signature", sign(hookSecret, elsewhere)}, 202},
		} {
			if got := send(h, tt.body, tt.header...); got != tt.want {
				t.Errorf("%s: got status %d, want %d", tt.name, got, tt.want)
			}
		}
		time.Sleep(30 * time.Minute)
		alarms := l.Document().Alarms
		if len(alarms) != 1 || alarms[0].Code != control.HookSecret || !strings.Contains(w.Log.String(), alarms[0].Words) {
			t.Errorf("got %+v, want an alarm about hooks with a wrong signature, also in the log:\n%s", alarms, w.Log.String())
		}
		if n := len(w.Exec.Runs()); n != 0 {
			t.Fatalf("hooks that were refused or about other items started %d sessions, want 0", n)
		}
		began := time.Now()
		if got := send(h, aboutUs, "X-Forgejo-Signature", sum); got != 202 {
			t.Errorf("a signed hook: got status %d, want 202", got)
		}
		if alarms := l.Document().Alarms; len(alarms) > 0 {
			t.Errorf("after a signed hook: got alarms %+v, want none", alarms)
		}
		w.Until(3*time.Second, "a session", func() bool { return len(w.Exec.Runs()) == 1 })
		if took := w.Exec.Runs()[0].Begin.Sub(began); took > time.Second {
			t.Errorf("the session started %s after the hook, want at most 1 s", took)
		}
		l.Stop()
		w.Check()
	})
}

// Many hooks cause one scan, and the issue of the last hook is still seen.
func TestHooksCoalesce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l, h := idle(t)
		before := w.Forge.Requests()
		for range 200 {
			send(h, aboutUs, "X-Forgejo-Signature", sign(hookSecret, aboutUs))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		if n := w.Forge.Requests() - before; n < 2 || n > 3 {
			t.Errorf("200 hooks in a fifth of a second caused %d requests, want 2 or 3", n)
		}
		send(h, aboutUs, "X-Forgejo-Signature", sign(hookSecret, aboutUs))
		time.Sleep(35 * time.Millisecond)
		w.Forge.Issue("one") // too late for the first hook's scan
		send(h, aboutUs, "X-Forgejo-Signature", sign(hookSecret, aboutUs))
		if alarms := l.Document().Alarms; len(alarms) > 0 {
			t.Errorf("after a signed hook: got alarms %+v, want none", alarms)
		}
		w.Until(3*time.Second, "a session", func() bool { return len(w.Exec.Runs()) == 1 })
		l.Stop()
		w.Check()
	})
}
