package forgejo

import (
	"strings"
	"testing"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// minute returns the n-th minute of a fixed hour: the times at which these tests' requests begin.
func minute(n int) time.Time { return time.Date(2026, 1, 2, 3, n, 0, 0, time.UTC) }

func cacheOf(t *testing.T) (*Client, *repo) {
	t.Helper()
	c := clientOf(t, say(500, "these tests make no requests"))
	c.ours = func(login string) bool { return login == "dev" }
	c.repos[0].asOf = minute(0)
	return c, c.repos[0]
}

func listed(n int64, title string, closed bool) *gitea.Issue {
	in := &gitea.Issue{Index: n, Title: title, State: gitea.StateOpen, Created: minute(0), Updated: minute(1)}
	if closed {
		in.State, in.Closed = gitea.StateClosed, &in.Updated
	}
	return in
}

// TestOlderAnswer: of two answers about one item, the one whose request began later wins, whichever arrives first.
func TestOlderAnswer(t *testing.T) {
	c, r := cacheOf(t)
	pull := func(title string) *gitea.Issue {
		in := listed(2, title, false)
		in.PullRequest = &gitea.PullRequestMeta{}
		return in
	}
	for _, step := range []struct {
		title string
		began int
		want  string
	}{{"first", 5, "first"}, {"older", 4, "first"}, {"same", 5, "same"}, {"newer", 6, "newer"}} {
		c.applyListed(r, listed(1, step.title, false), minute(step.began))
		c.applyListed(r, pull(step.title), minute(step.began))
		if got := r.issues[1].Title; got != step.want {
			t.Errorf("issue %s: got %s", step.title, got)
		}
		if got := r.pulls[2].Title; got != step.want {
			t.Errorf("pull request %s: got %s", step.title, got)
		}
	}
	c.applyDetails(r, &gitea.PullRequest{Index: 2, Title: "details, older"}, &exchange{began: minute(3)})
	if got := r.pulls[2].Title; got != "newer" {
		t.Errorf("older details: got %s", got)
	}
}

// TestPrune: closed items are removed an hour after they were closed, unless an open issue waits for them.
func TestPrune(t *testing.T) {
	c, r := cacheOf(t)
	waits := listed(1, "waits", false)
	waits.Body = "depends on #2"
	c.applyListed(r, waits, minute(1))
	for _, n := range []int64{2, 3} {
		c.applyListed(r, listed(n, "open", false), minute(1))
		c.applyListed(r, listed(n, "closed", true), minute(2))
	}
	c.applyListed(r, listed(4, "closed before we looked", true), minute(2))
	has := func(at time.Time, want ...int64) {
		t.Helper()
		c.prune(r, at)
		if len(r.issues) != len(want) {
			t.Errorf("at %v: %d issues, want %v", at, len(r.issues), want)
		}
		for _, n := range want {
			if r.issues[n] == nil {
				t.Errorf("at %v: #%d is gone", at, n)
			}
		}
	}
	has(minute(2).Add(keepEnded), 1, 2, 3)
	has(minute(3).Add(keepEnded), 1, 2)
	waits = listed(1, "waits no more", true)
	c.applyListed(r, waits, minute(3))
	has(minute(4).Add(keepEnded))
}

// TestUnloadable: an entry that the forge cannot load can be any item, so no item counts as deleted then.
func TestUnloadable(t *testing.T) {
	one := []*gitea.Issue{nil}
	for name, tc := range map[string]struct {
		open, changed []*gitea.Issue
		want          int
	}{"neither": {nil, nil, 0}, "open": {one, nil, 1}, "changed": {nil, one, 1}} {
		c, r := cacheOf(t)
		c.applyListed(r, listed(1, "open", false), minute(1))
		c.applyFull(r, listing{tc.open, minute(2)}, listing{tc.changed, minute(3)})
		if len(r.issues) != tc.want {
			t.Errorf("%s: %d issues, want %d", name, len(r.issues), tc.want)
		}
	}
}

func TestWantsBlockers(t *testing.T) {
	c, r := cacheOf(t)
	c.applyListedPull(r, &gitea.Issue{
		Index: 9, Title: "Fixes #7", State: gitea.StateOpen,
		PullRequest: &gitea.PullRequestMeta{},
	}, minute(1))
	for n, tc := range []struct {
		labels, assignees string
		closed, want      bool
	}{
		{labels: "backlog", want: true},
		{labels: "backlog", closed: true},
		{labels: "other"},
		{labels: "backlog blocked"},
		{labels: "backlog prediction/unreviewed"},
		{labels: "backlog", assignees: "johba"},
		{labels: "backlog"}, // #7 has an open pull request
		{labels: "backlog", assignees: "dev", want: true},
		{labels: "backlog", assignees: "dev johba"},
		{labels: "convoy", want: true},
		{labels: "convoy staged", assignees: "johba", want: true},
		{labels: "convoy", closed: true},
		{labels: "backlog", assignees: "elsewhere"},
	} {
		i := &issue{Issue: forge.Issue{
			Ref: forge.Ref{Repo: "o/r", Number: int64(n + 1)}, Closed: tc.closed,
			Labels: strings.Fields(tc.labels), Assignees: strings.Fields(tc.assignees),
		}}
		c.moves, c.bots = nil, func(login string) bool { return login == "elsewhere" }
		underWay, merged := c.worked()
		if got := c.wantsBlockers(i, underWay, merged); got != tc.want {
			t.Errorf("#%d: %+v: got %v", n+1, tc, got)
		}
		c.moves = func() bool { return true } // a hub can move an issue from another host's agent, but not from a person
		if got := c.wantsBlockers(i, underWay, merged); got != (tc.want || tc.assignees == "elsewhere") {
			t.Errorf("#%d, as a hub: %+v: got %v", n+1, tc, got)
		}
	}
}

func TestLastPage(t *testing.T) {
	for _, tc := range []struct {
		here, soFar, total int
		want               bool
	}{
		{0, 0, 0, true},
		{50, 50, 50, true},
		{50, 50, 51, false},
		{1, 51, 51, true},
		{0, 40, 51, true},   // the forge promises more entries, but sends none
		{20, 20, 51, false}, // the forge's limit is lower than our page size
		{50, 50, -1, false},
		{9, 59, -1, true}, // the forge sends no total
		{20, 20, -1, false},
	} {
		if got := lastPage(tc.here, tc.soFar, tc.total); got != tc.want {
			t.Errorf("%+v: got %v", tc, got)
		}
	}
}
