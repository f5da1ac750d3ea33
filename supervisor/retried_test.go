package supervisor_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/simtest"
)

// The answer of retry names the hold of the agent that it does not end, and what ends it, the second time, too.
func TestRetryNamesTheHoldThatRemains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Exec.Script = func(agents.Job, int) simtest.Script {
			return simtest.Script{Takes: time.Second, Outcome: agents.Outcome{Result: agents.Unanswered, Reason: "no credit"}}
		}
		w.Forge.Issue("one")
		l := w.Start()
		w.Until(time.Minute, "a session", func() bool { return len(w.Exec.Runs()) == 1 })
		time.Sleep(5 * time.Second)
		tell(t, l, "/v1/retry", `{"ref":"1"}`) // the thread's other agent takes it
		time.Sleep(5 * time.Second)
		for range 2 {
			got := tell(t, l, "/v1/retry", `{"ref":"1"}`)
			for _, want := range []string{
				"it still waits: ", "no credit", "until 20", "; to change that: ",
			} {
				if !strings.Contains(got, want) {
					t.Errorf("got %q, want %q in it", got, want)
				}
			}
		}
		l.Stop()
	})
}

// The answer to a retry in a comment names the rest, too.
func TestRetryInACommentNamesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		n := w.Forge.Issue("one")
		w.Forge.Edit(n, func(is *forge.Issue) { is.Labels = append(is.Labels, forge.LabelBlocked) })
		l := w.Start()
		tell(t, l, "/v1/pause", `{}`)
		w.Forge.Command(n, "johba", "/disinto retry")
		w.Until(time.Hour, "an answer that names it", func() bool {
			return slices.ContainsFunc(w.Forge.Comments(), func(c simtest.Comment) bool {
				return strings.Contains(c.Body, "it still waits: everything is paused; to change that: disinto resume")
			})
		})
		l.Stop()
	})
}

// While the forge does not answer, show tells what the scans and the journal know, and says so.
func TestShowWithForgeDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := simtest.New(t)
		w.Forge.Issue("one")
		l := w.Start()
		w.Until(time.Minute, "a session", func() bool { return len(w.Exec.Runs()) == 1 })
		w.Forge.Fail(func(context.Context, string) error { return forge.ErrUnavailable })
		time.Sleep(2 * time.Minute)
		for path, want := range map[string][]string{
			"/v1/show?ref=1": {
				`"title":"one"`, `"state":"open"`, "(as of 2000-01-01T00:00:0", "the forge is not read",
				`"not_read":"cannot show johba/harb#1 now: `,
			},
			"/v1/show?ref=9": {"cannot show johba/harb#9 now: forge unavailable"},
		} {
			r := httptest.NewRecorder()
			l.Handler().ServeHTTP(r, httptest.NewRequest("GET", path, nil))
			for _, part := range want {
				if !strings.Contains(r.Body.String(), part) {
					t.Errorf("%s: got %s, want %q in it", path, r.Body, part)
				}
			}
		}
		w.Forge.Fail(func(ctx context.Context, _ string) error { <-ctx.Done(); return ctx.Err() })
		r, began := httptest.NewRecorder(), time.Now()
		l.Handler().ServeHTTP(r, httptest.NewRequest("GET", "/v1/show?ref=1", nil))
		const want = `"not_read":"cannot show johba/harb#1 now: the forge does not answer"`
		if took := time.Since(began); took >= 4*time.Second || !strings.Contains(r.Body.String(), want) {
			t.Errorf("got %s after %s, want %s before the client gives up", r.Body, took, want)
		}
		w.Forge.Fail(nil)
		l.Stop()
	})
}
