package rules

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const (
	// patience bounds the wait for a late effect. The slowest effect seen on Forgejo 10, reviews that become stale
	// after a push, took two seconds.
	patience = 30 * time.Second
	// firstPoll and lastPoll are the first and the longest interval between two polls for a late effect. Reading a pull
	// request costs a real server 40 ms of CPU time, which is scarce just then.
	firstPoll, lastPoll = 20 * time.Millisecond, 320 * time.Millisecond
)

// world is the setting of one rule: a test, a server, and the rule's own accounts and repositories.
type world struct {
	*testing.T
	server Server
	ctx    context.Context
	admin  *account
	suffix string
	made   *cleanup
}

func newWorld(t *testing.T, server Server, made *cleanup) *world {
	t.Helper()
	w := &world{
		T: t, server: server, ctx: context.WithoutCancel(t.Context()), suffix: strings.ToLower(rand.Text()[:8]),
		made: made,
	}
	w.server.URL = strings.TrimSuffix(server.URL, "/")
	w.admin = &account{w: w, token: server.AdminToken}
	return w
}

// account makes an account with a token that has all rights. Its login begins with its purpose.
func (w *world) account(purpose string) *account {
	w.Helper()
	a := w.newcomer(purpose)
	a.token = a.newToken("test", "all")
	return a
}

// newcomer makes an account that has a password but no token.
func (w *world) newcomer(purpose string) *account {
	w.Helper()
	a := &account{w: w, name: purpose + "-" + w.suffix, password: rand.Text()}
	w.admin.post("/admin/users", fields{
		"username": a.name, "email": a.name + "@example.invalid", "password": a.password, "must_change_password": false,
	}).want(http.StatusCreated)
	w.made.user(a.name)
	return a
}

// newToken makes a token, for which Forgejo requires the password.
func (a *account) newToken(name string, scopes ...string) string {
	a.w.Helper()
	return decode[struct {
		Secret string `json:"sha1"`
	}](a.withPassword(http.MethodPost, "/users/"+a.name+"/tokens", fields{"name": name, "scopes": scopes}).
		want(http.StatusCreated)).Secret
}

// as returns the same account with another token.
func (a *account) as(token string) *account {
	return &account{w: a.w, name: a.name, password: a.password, token: token}
}

// anonymous returns an account that makes requests without a token.
func (w *world) anonymous() *account { return &account{w: w} }

// nextSecond waits until the forge's clock shows another second.
func (w *world) nextSecond() {
	const second = time.Second + 50*time.Millisecond // 50 ms of margin: the forge rounds down
	if w.server.Pass != nil {
		w.server.Pass(second)
		return
	}
	time.Sleep(second)
}

// eventually polls for a late effect.
func (w *world) eventually(what string, holds func() bool) {
	w.Helper()
	wait := firstPoll
	for end := time.Now().Add(patience); !holds(); wait = min(2*wait, lastPoll) {
		if time.Now().After(end) {
			w.Fatalf("after %v still not true: %s", patience, what)
		}
		time.Sleep(wait)
	}
}

// same reports a difference, and lets the test continue.
func same[T comparable](w *world, what string, got, want T) {
	w.Helper()
	if got != want {
		w.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// list formats a slice so that it can be compared and printed.
func list[T any](items []T) string { return fmt.Sprint(items) }
