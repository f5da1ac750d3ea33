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

func TestReassign(t *testing.T) {
	onEach(t, func(w *world) {
		c := w.client()
		for _, tc := range []struct {
			name   string
			labels []string
			assign []string
			from   string
			closed bool
			taken  bool
			want   string
		}{
			{
				name: "pinned", labels: []string{"backlog"}, assign: []string{w.review}, from: w.review,
				want: "backlog stolen @dev",
			},
			{name: "without an assignee", labels: []string{"backlog"}, want: "backlog stolen @dev"},
			{
				name: "already moved", labels: []string{"backlog", "stolen"}, assign: []string{w.dev}, from: w.review,
				want: "backlog stolen @dev",
			},
			{
				name: "moved and begun", labels: []string{"backlog", "stolen", "in-progress"}, assign: []string{w.dev},
				from: w.review, want: "backlog in-progress stolen @dev",
			},
			{
				name: "moved and done", labels: []string{"backlog", "stolen"}, assign: []string{w.dev}, from: w.review,
				closed: true, want: "backlog stolen @dev closed",
			},
			{
				name: "assigned by a person, and begun", labels: []string{"backlog", "in-progress"}, assign: []string{w.dev},
				from: w.review, taken: true, want: "backlog in-progress @dev",
			},
			{
				name: "half moved", labels: []string{"backlog", "stolen"}, assign: []string{w.review}, from: w.review,
				want: "backlog stolen @dev",
			},
			{
				name: "begun", labels: []string{"backlog", "in-progress"}, assign: []string{w.review}, from: w.review, taken: true,
				want: "backlog in-progress @review",
			},
			{
				name: "now a person's", labels: []string{"backlog"}, assign: []string{w.human}, from: w.review, taken: true,
				want: "backlog @human",
			},
			{name: "now unassigned", labels: []string{"backlog"}, from: w.review, taken: true, want: "backlog"},
			{
				name: "now assigned", labels: []string{"backlog"}, assign: []string{w.human}, taken: true,
				want: "backlog @human",
			},
			{
				name: "closed", labels: []string{"backlog"}, assign: []string{w.review}, from: w.review, closed: true, taken: true,
				want: "backlog @review closed",
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
				err := c.Reassign(w.Context(), w.ref(n), tc.from, w.dev, []string{"stolen"}, "move-"+tc.name)
				if errors.Is(err, forge.ErrTaken) != tc.taken || !tc.taken && err != nil {
					w.Errorf("%s: %v", tc.name, err)
				}
				if got := w.state(n); got != tc.want {
					w.Errorf("%s: afterwards %s, want %s", tc.name, got, tc.want)
				}
			}
		}
	})
}

// TestReassignSteps breaks each request of a move, and loses the answer to each. The repeated move then succeeds, from
// the same supervisor or from its next run, and leaves nothing that would keep the agent from claiming the issue. make
// test breaks only every third request, and loses only the answers to others, again every third.
func TestReassignSteps(t *testing.T) {
	onLocal(t, func(w *world) {
		for i, fault := range []faults.Fault{faults.Drop, faults.Lose} {
			n := sized(1, 1+i)
			for w.brokenMove(fault, n) {
				n += sized(1, 3)
			}
			if n < 5 {
				t.Errorf("a move made only %d requests", n-1)
			}
		}
	})
}

// brokenMove applies the fault to the n-th request of a move; it reports whether the move made so many requests.
func (w *world) brokenMove(fault faults.Fault, n int) bool {
	w.Helper()
	issue := w.file("one", "", "backlog")
	w.assign(issue, w.review)
	host := w.instance("aaa")
	count := 0
	w.fault = func(r *http.Request) faults.Fault {
		if count++; count == n {
			return fault
		}
		return faults.None
	}
	err := host.Reassign(w.Context(), w.ref(issue), w.review, w.dev, []string{"stolen"}, "aaa-move")
	w.fault = nil
	if count < n {
		w.must(err)
		return false
	}
	if n%2 == 0 {
		host = w.instance("aaa") // the supervisor was restarted
	}
	if err != nil {
		w.must(host.Reassign(w.Context(), w.ref(issue), w.review, w.dev, []string{"stolen"}, "aaa-move"))
	}
	if got := w.state(issue); got != "backlog stolen @dev" {
		w.Errorf("fault %v of request %d: afterwards %s", fault, n, got)
	}
	w.must(w.instance("bbb").Claim(w.Context(), w.ref(issue), w.dev, "bbb-run"))
	return true
}

// TestReassignLate loses each answer of a move in turn, and finally none, as if the hub was killed before it could
// record the move. Before the hub repeats the move, the agent begins the issue. The repeated move then succeeds, and
// leaves the agent's claim alone.
func TestReassignLate(t *testing.T) {
	begun, broken := 0, true
	onLocal(t, func(w *world) {
		for n := 1; broken; n++ {
			issue := w.file("one", "", "backlog")
			w.assign(issue, w.review)
			hub, there := w.instance("aaa"), w.instance("bbb")
			count := 0
			w.fault = func(*http.Request) faults.Fault {
				if count++; count == n {
					return faults.Lose
				}
				return faults.None
			}
			_ = hub.Reassign(w.Context(), w.ref(issue), w.review, w.dev, []string{"stolen"}, "aaa-move")
			w.fault = nil
			broken = count >= n
			if w.state(issue) != "backlog stolen @dev" {
				continue
			}
			claimed := there.Claim(w.Context(), w.ref(issue), w.dev, "bbb-run")
			if err := w.instance("aaa").Reassign(w.Context(), w.ref(issue), w.review, w.dev, []string{"stolen"},
				"aaa-move"); err != nil {
				w.Errorf("answer %d was lost: the repeated move returned %v", n, err)
			}
			if claimed == nil {
				begun++
				w.must(there.Release(w.Context(), w.ref(issue), w.dev)) // the broken move still had the ref
			} else {
				w.must(there.Claim(w.Context(), w.ref(issue), w.dev, "bbb-run")) // the repeated move dropped the ref
			}
		}
	})
	if begun == 0 {
		t.Error("the agent's claim never succeeded before the repeated move")
	}
}

// TestReassignRace: another host's agent begins the issue while it is being moved. Either the claim or the move
// succeeds.
func TestReassignRace(t *testing.T) {
	onLocal(t, func(w *world) {
		for step := 1; step <= 8; step++ {
			issue := w.file(fmt.Sprint("race ", step), "", "backlog")
			w.assign(issue, w.review)
			hub, there := w.instance("aaa"), w.instance("bbb")
			count, claimed := 0, error(nil)
			w.fault = func(*http.Request) faults.Fault {
				if count++; count == step {
					w.fault = nil
					claimed = there.Claim(w.Context(), w.ref(issue), w.review, "bbb-run")
				}
				return faults.None
			}
			moved := hub.Reassign(w.Context(), w.ref(issue), w.review, w.dev, []string{"stolen"}, "aaa-move")
			w.fault = nil
			if count < step {
				break
			}
			got := w.state(issue)
			switch {
			case moved == nil && errors.Is(claimed, forge.ErrTaken) && got == "backlog stolen @dev":
			case errors.Is(moved, forge.ErrTaken) && claimed == nil && strings.HasSuffix(got, "in-progress @review"):
			default:
				w.Errorf("step %d: moved %v, claimed %v, afterwards %s", step, moved, claimed, got)
			}
		}
	})
}

// TestReassignTwoHubs: two independent hubs move one issue to two agents; the second acts at each step of the first.
// One move succeeds, and the issue belongs to one agent.
func TestReassignTwoHubs(t *testing.T) {
	onLocal(t, func(w *world) {
		for step := 1; step <= 12; step++ {
			issue := w.file(fmt.Sprint("two hubs ", step), "", "backlog")
			w.assign(issue, w.review)
			one, two := w.instance("aaa"), w.instance("bbb")
			count, other := 0, error(nil)
			w.fault = func(*http.Request) faults.Fault {
				if count++; count == step {
					w.fault = nil
					other = two.Reassign(w.Context(), w.ref(issue), w.review, w.human, []string{"stolen"}, "bbb-move")
				}
				return faults.None
			}
			first := one.Reassign(w.Context(), w.ref(issue), w.review, w.dev, []string{"stolen"}, "aaa-move")
			w.fault = nil
			if count < step {
				break
			}
			got := w.state(issue)
			switch {
			case first == nil && errors.Is(other, forge.ErrTaken) && got == "backlog stolen @dev":
			case errors.Is(first, forge.ErrTaken) && other == nil && got == "backlog stolen @human":
			default:
				w.Errorf("step %d: the first hub got %v, the second %v, afterwards %s", step, first, other, got)
			}
		}
	})
}
