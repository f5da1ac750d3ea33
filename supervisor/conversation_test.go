package supervisor_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/simtest"
)

// wroteHook is the body of the web hook for a comment that sender has just written.
func wroteHook(id int64, author, sender, text string) string {
	return fmt.Sprintf(`{"action":"created","comment":{"id":%d,"body":%q,"user":{"login":%q}},"sender":{"login":%q},`+
		`"repository":{"full_name":"Johba/Harb"}}`, id, text, author, sender)
}

// about lists the supervisor's comments about a command.
func about(w *simtest.World, id int64) string {
	var all []string
	for _, c := range w.Forge.Comments() {
		switch c.Key {
		case fmt.Sprintf("command-%d", id):
			all = append(all, "answer")
		case fmt.Sprintf("command-%d-confirm", id):
			all = append(all, "question")
		}
	}
	return strings.Join(all, ", ")
}

// A command that its author's web hook proves is carried out at once. One that lifts a limit waits for its author
// without such a hook, and every command does that differs from what the hook says: somebody edited the comment.
func TestCommandsAreProven(t *testing.T) {
	const retry, why = "/disinto retry", "/disinto why"
	for _, tt := range []struct {
		name, said    string
		sender, wrote string // of the hook; no hook if sender is empty
		done          bool
	}{
		{"as written", retry, "johba", retry, true},
		{"without a hook", retry, "", "", false},
		{"of another sender", retry, "dev-qwen", retry, false},
		{"edited text", retry, "johba", "Thanks.", false},
		{"edited command", retry, "johba", why, false},
		{"another, as written", why, "johba", why, true},
		{"another, without a hook", why, "", "", true},
		{"another, edited", why, "johba", "Thanks.", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, l, h := idle(t)
				w.Forge.Hesitate()
				n := w.Forge.Issue("one")
				w.Forge.Edit(n, func(is *forge.Issue) { is.Labels = []string{"backlog", "blocked"} })
				id := w.Forge.Command(n, "johba", tt.said)
				hook := aboutUs
				if tt.sender != "" {
					hook = wroteHook(id, "johba", tt.sender, tt.wrote)
				}
				send(h, hook, "X-Forgejo-Signature", sign(hookSecret, hook))
				time.Sleep(2 * time.Second)
				if got := about(w, id) == "answer"; got != tt.done {
					t.Errorf("after 2 s: the command was carried out: %t, want %t", got, tt.done)
				}
				time.Sleep(10 * time.Minute)
				l.Stop()
				l = w.Start() // which asks once only, and still waits
				time.Sleep(10 * time.Minute)
				if got, want := about(w, id), map[bool]string{true: "answer", false: "question"}[tt.done]; got != want {
					t.Errorf("got comments %q, want %q", got, want)
				}
				l.Stop()
				w.Check()
			})
		})
	}
}

// A confirmed command is carried out within seconds, although the forge reports no reaction, and so is one whose hook
// comes after the question.
func TestCommandsAreConfirmed(t *testing.T) {
	const retry = "/disinto retry"
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, l, h := idle(t)
			stop := w.Forge.Hesitate()
			n := w.Forge.Issue("one")
			w.Forge.Edit(n, func(is *forge.Issue) { is.Labels = []string{"backlog", "blocked"} })
			id := w.Forge.Command(n, "johba", retry)
			send(h, aboutUs, "X-Forgejo-Signature", sign(hookSecret, aboutUs))
			w.Until(time.Minute, "a question", func() bool { return about(w, id) == "question" })
			if late {
				hook := wroteHook(id, "johba", "johba", retry)
				send(h, hook, "X-Forgejo-Signature", sign(hookSecret, hook))
			} else {
				stop()
			}
			w.Until(15*time.Second, "an answer", func() bool { return about(w, id) == "question, answer" })
			if got := w.Forge.Get(n).Labels; slices.Contains(got, "blocked") {
				t.Errorf("labels %v, want blocked removed", got)
			}
			l.Stop()
			w.Check()
		})
	}
}

// A hook that comes seconds after the scan that found its command is waited for.
func TestHooksAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l, h := idle(t)
		n := w.Forge.Issue("one")
		id := w.Forge.Command(n, "johba", "/disinto retry")
		send(h, aboutUs, "X-Forgejo-Signature", sign(hookSecret, aboutUs))
		time.Sleep(7 * time.Second)
		hook := wroteHook(id, "johba", "johba", "/disinto retry")
		send(h, hook, "X-Forgejo-Signature", sign(hookSecret, hook))
		w.Until(time.Minute, "an answer", func() bool { return about(w, id) == "answer" })
		l.Stop()
		w.Check()
	})
}
