package forgejo

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/localforge/faults"
)

// state returns the labels and assignees that an item has on the forge now.
func (w *world) state(n int64) string {
	w.Helper()
	in := w.issue(n)
	parts := labelNames(in.Labels)
	for _, login := range logins(in.Assignees) {
		parts = append(parts, "@"+login)
	}
	if in.State == gitea.StateClosed {
		parts = append(parts, "closed")
	}
	return w.short(strings.Join(parts, " "))
}

func TestClaim(t *testing.T) {
	onEach(t, func(w *world) {
		c := w.client(func(o *Options) { o.Bots = func(login string) bool { return login == w.review } })
		c.ours = func(login string) bool { return login == w.dev }
		for _, tc := range []struct {
			name   string
			labels []string
			assign []string
			closed bool
			pull   bool
			taken  bool
			want   string
		}{
			{name: "free", labels: []string{"backlog"}, want: "backlog in-progress @dev"},
			{name: "pinned to it", labels: []string{"backlog"}, assign: []string{w.dev}, want: "backlog in-progress @dev"},
			{
				name: "claimed by it", labels: []string{"backlog", "in-progress"}, assign: []string{w.dev},
				want: "backlog in-progress @dev",
			},
			{name: "with a person", labels: []string{"backlog"}, assign: []string{w.human}, taken: true, want: "backlog @human"},
			{
				name: "pinned to another", labels: []string{"backlog"}, assign: []string{w.review}, taken: true,
				want: "backlog @review",
			},
			{
				name: "claimed by another", labels: []string{"backlog", "in-progress"}, assign: []string{w.review}, taken: true,
				want: "backlog in-progress @review",
			},
			{
				name: "half-written by another", labels: []string{"backlog", "in-progress"}, taken: true,
				want: "backlog in-progress",
			},
			{name: "closed", labels: []string{"backlog"}, closed: true, taken: true, want: "backlog closed"},
			{name: "cancelled", labels: []string{"backlog", "cancelled"}, taken: true, want: "backlog cancelled"},
			{name: "pull", pull: true, want: "in-progress @dev"},
			{name: "pull with a person", pull: true, assign: []string{w.human}, want: "in-progress @dev @human"},
			{
				name: "pull claimed by another", pull: true, labels: []string{"in-progress"}, assign: []string{w.review},
				taken: true, want: "in-progress @review",
			},
			{name: "pull with another assigned", pull: true, assign: []string{w.review}, want: "in-progress @dev @review"},
			{
				name: "pull half-written", pull: true, labels: []string{"in-progress"}, assign: []string{w.human}, taken: true,
				want: "in-progress @human",
			},
		} {
			var n int64
			if tc.pull {
				n, _ = w.pull(strings.ReplaceAll(tc.name, " ", "-"), tc.name, "")
				w.label(n, tc.labels...)
			} else {
				n = w.file(tc.name, "", tc.labels...)
			}
			if tc.assign != nil {
				w.assign(n, tc.assign...)
			}
			if tc.closed {
				w.setState(n, gitea.StateClosed)
			}
			for range 2 {
				err := c.Claim(w.Context(), w.ref(n), w.dev, "run-"+tc.name)
				if errors.Is(err, forge.ErrTaken) != tc.taken || !tc.taken && err != nil {
					w.Errorf("%s: %v", tc.name, err)
				}
				if got := w.state(n); got != tc.want {
					w.Errorf("%s: afterwards %s, want %s", tc.name, got, tc.want)
				}
			}
		}
		if err := c.Claim(w.Context(), w.ref(9999), w.dev, "run"); !errors.Is(err, forge.ErrNotFound) {
			w.Errorf("a missing issue: %v", err)
		}
	})
}

// TestClaimOrder: the label is written before the assignee, so that a claim that broke off is still visible as a claim.
func TestClaimOrder(t *testing.T) {
	onLocal(t, func(w *world) {
		n := w.file("one", "", "backlog")
		c := w.client()
		w.fault = func(r *http.Request) faults.Fault {
			if r.Method == http.MethodPatch {
				return faults.Drop
			}
			return faults.None
		}
		if err := c.Claim(w.Context(), w.ref(n), w.dev, "run-1"); !errors.Is(err, forge.ErrUnavailable) {
			w.Errorf("the connection broke while the assignee was written: %v", err)
		}
		w.fault = nil
		if got := w.state(n); got != "backlog in-progress" {
			w.Errorf("half-written: %s", got)
		}
		if err := c.Claim(w.Context(), w.ref(n), w.review, "run-2"); !errors.Is(err, forge.ErrTaken) {
			w.Errorf("another run's claim: %v", err)
		}
		w.must(c.Claim(w.Context(), w.ref(n), w.dev, "run-1"))
		if got := w.state(n); got != "backlog in-progress @dev" {
			w.Errorf("after the second try: %s", got)
		}
	})
}

// TestClaimLostAnswer: a write that succeeded although its answer was lost can be repeated.
func TestClaimLostAnswer(t *testing.T) {
	for _, lost := range []string{http.MethodPost, http.MethodPatch} {
		t.Run(lost, func(t *testing.T) {
			onLocal(t, func(w *world) {
				n := w.file("one", "", "backlog")
				c := w.client()
				w.fault = func(r *http.Request) faults.Fault {
					if r.Method == lost {
						return faults.Lose
					}
					return faults.None
				}
				if err := c.Claim(w.Context(), w.ref(n), w.dev, "run-1"); !errors.Is(err, forge.ErrUnavailable) {
					w.Errorf("a lost answer: %v", err)
				}
				w.fault = nil
				w.must(c.Claim(w.Context(), w.ref(n), w.dev, "run-1"))
				if got := w.state(n); got != "backlog in-progress @dev" {
					w.Errorf("after the second try: %s", got)
				}
			})
		})
	}
}

// TestClaimRace: between our first reading and the writing of the assignee, the issue is assigned to another account.
// The label that remains is part of a claim only if claims have no refs.
func TestClaimRace(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		single     bool
	}{
		{"human", "backlog @human", false},
		{"review", "backlog @review", false},
		{"human", "backlog @human", true},
		{"review", "backlog in-progress @review", true},
	} {
		t.Run(fmt.Sprint(tc.name, tc.single), func(t *testing.T) {
			onLocal(t, func(w *world) {
				n := w.file("one", "", "backlog")
				c := w.client()
				if tc.single {
					c.refs = nil
				}
				w.fault = func(r *http.Request) faults.Fault {
					if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/labels") {
						w.fault = nil
						w.assign(n, tc.name+"-"+w.suffix)
					}
					return faults.None
				}
				if err := c.Claim(w.Context(), w.ref(n), w.dev, "run-1"); !errors.Is(err, forge.ErrTaken) {
					w.Errorf("got %v", err)
				}
				if got := w.state(n); got != tc.want {
					w.Errorf("afterwards %s, want %s", got, tc.want)
				}
			})
		})
	}
}

func TestRelease(t *testing.T) {
	onEach(t, func(w *world) {
		c := w.client()
		for _, tc := range []struct {
			name   string
			labels []string
			assign []string
			closed bool
			want   string
		}{
			{name: "claimed", labels: []string{"backlog", "in-progress"}, assign: []string{w.dev}, want: "backlog"},
			{name: "with a person", labels: []string{"in-progress"}, assign: []string{w.dev, w.human}, want: "@human"},
			{name: "half-written", labels: []string{"backlog", "in-progress"}, want: "backlog"},
			{name: "not claimed", labels: []string{"backlog"}, want: "backlog"},
			{
				name: "claimed by another agent meanwhile", labels: []string{"in-progress"}, assign: []string{w.review},
				want: "in-progress @review",
			},
			{name: "closed", labels: []string{"in-progress"}, assign: []string{w.dev}, closed: true, want: "closed"},
			{
				name: "other labels", labels: []string{"in-progress", "needs-human", "priority"}, assign: []string{w.dev},
				want: "needs-human priority",
			},
		} {
			n := w.file(tc.name, "", tc.labels...)
			if tc.assign != nil {
				w.assign(n, tc.assign...)
			}
			if tc.closed {
				w.setState(n, gitea.StateClosed)
			}
			for range 2 {
				w.must(c.Release(w.Context(), w.ref(n), w.dev))
				if got := w.state(n); got != tc.want {
					w.Errorf("%s: afterwards %s, want %s", tc.name, got, tc.want)
				}
			}
			before := w.issue(n).Updated
			w.nextSecond()
			w.must(c.Release(w.Context(), w.ref(n), w.dev))
			if after := w.issue(n).Updated; !after.Equal(before) {
				w.Errorf("%s: a repeated release changed the issue", tc.name)
			}
		}
		w.must(c.Release(w.Context(), w.ref(9999), w.dev))
	})
}

// TestReleaseOrder: the assignee is removed first, so that a release that breaks off leaves no agent assigned.
func TestReleaseOrder(t *testing.T) {
	onLocal(t, func(w *world) {
		n := w.file("one", "", "backlog", "in-progress")
		w.assign(n, w.dev)
		c := w.client()
		w.fault = func(r *http.Request) faults.Fault {
			if r.Method == http.MethodDelete {
				return faults.Drop
			}
			return faults.None
		}
		if err := c.Release(w.Context(), w.ref(n), w.dev); !errors.Is(err, forge.ErrUnavailable) {
			w.Errorf("got %v", err)
		}
		if got := w.state(n); got != "backlog in-progress" {
			w.Errorf("half released: %s", got)
		}
	})
}
