package forgejo

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/localforge/faults"
)

// eventually scans until the item shows as wanted, because a real forge computes some facts late.
func (w *world) eventually(c *Client, n int64, want string) {
	w.Helper()
	var got string
	for range 30 {
		if got = w.show(w.scan(c), n); got == want {
			return
		}
		time.Sleep(2 * time.Second)
	}
	w.Errorf("#%d after a minute:\n got %s\nwant %s", n, got, want)
}

func TestPullChanges(t *testing.T) {
	onEach(t, func(w *world) {
		n := w.file("one", "", "backlog")
		owner, name := owner(w.repo)
		c := w.client()
		w.scan(c)
		p, head := w.pull("fix/issue-1", "Work", "")
		w.eventually(c, p, `pull open dev fix/issue-1->main for #1 clean ci none`)
		w.verdict(w.review, p, head, gitea.ReviewStateRequestChanges)
		w.eventually(c, p, `pull open dev fix/issue-1->main for #1 clean ci none changes by review`)
		next := w.commit("fix/issue-1", "", "fix-issue-1.txt", "better\n")
		w.eventually(c, p, `pull open dev fix/issue-1->main for #1 clean ci none changes by review of an old head`)
		w.verdict(w.review, p, next, gitea.ReviewStateApproved)
		w.verdict(w.human, p, next, gitea.ReviewStateComment)
		w.eventually(c, p, `pull open dev fix/issue-1->main for #1 clean ci none changes by review of an old head `+
			`dismissed approved by review commented by human`)
		_, _, err := w.as(w.dev).EditPullRequest(owner, name, p, gitea.EditPullRequestOption{Title: "WIP: Work"})
		w.must(err)
		w.eventually(c, p, `pull open dev fix/issue-1->main draft for #1 unknown ci none changes by review of an old head `+
			`dismissed approved by review commented by human`)
		_, _, err = w.as(w.dev).EditPullRequest(owner, name, p,
			gitea.EditPullRequestOption{Title: "Work", Body: new("closes #2")})
		w.must(err)
		w.eventually(c, p, `pull open dev fix/issue-1->main for #1 for #2 clean ci none changes by review of an old head `+
			`dismissed approved by review commented by human`)
		w.merge(p)
		w.eventually(c, p, `pull merged dev fix/issue-1->main for #1 for #2 changes by review of an old head dismissed `+
			`approved by review commented by human`)
		if f := w.scan(c); !f.Issue(w.ref(n)).Closed && f.Pull(w.ref(p)).Ended.IsZero() {
			w.Error("the merged pull request has no end time")
		}
	})
}

// TestEndedPulls: an ended pull request is shown only while its issue is open; the issue's history decides whether it
// counts.
func TestEndedPulls(t *testing.T) {
	onEach(t, func(w *world) {
		blocker := w.file("blocker", "")
		stuck := w.file("merged, cannot close", "", "backlog")
		w.depends(stuck, blocker)
		p1, _ := w.pull("fix/issue-2", "Work", "Fixes #2")
		w.merge(p1)
		rejected := w.file("rejected", "", "backlog")
		p2, _ := w.pull(fmt.Sprintf("fix/issue-%d", rejected), "No", "")
		w.setState(p2, gitea.StateClosed)
		again := w.file("opened again", "", "backlog")
		p3, _ := w.pull(fmt.Sprintf("fix/issue-%d-2", again), "Work", fmt.Sprintf("Fixes #%d", again))
		w.merge(p3)
		w.nextSecond()
		w.setState(again, gitea.StateOpen)
		done := w.file("done", "", "backlog")
		p4, _ := w.pull(fmt.Sprintf("fix/issue-%d", done), "Work", fmt.Sprintf("Fixes #%d", done))
		w.merge(p4)

		wants := []struct {
			n    int64
			want string
		}{
			{stuck, `issue open "merged, cannot close" [backlog] blockers: #1 open;`},
			{p1, `pull merged dev fix/issue-2->main for #2`},
			{rejected, `issue open "rejected" [backlog] blockers:`},
			{p2, `pull closed by owner dev fix/issue-4->main for #4`},
			{again, `issue open "opened again" [backlog] reopened blockers:`},
			{p3, `pull merged dev fix/issue-6-2->main for #6`},
			{done, `not there`},
			{p4, `not there`},
		}
		c := w.client()
		var f forge.Facts
		for _, round := range []string{"cold", "again"} {
			f = w.scan(c)
			for _, i := range wants {
				if got := w.show(f, i.n); got != i.want && (round == "cold" || i.n != p4) { // p4 ended just now
					w.Errorf("%s: #%d:\n got %s\nwant %s", round, i.n, got, i.want)
				}
			}
		}
		if i, p := f.Issue(w.ref(again)), f.Pull(w.ref(p3)); i != nil && p != nil && !i.Reopened.After(p.Ended) {
			w.Errorf("the pull request was merged at %v, but the issue was reopened at %v", p.Ended, i.Reopened)
		}
		w.setState(done, gitea.StateOpen)
		if got := strings.Replace(w.show(w.scan(c), done), " reopened", "",
			1); got != `issue open "done" [backlog] blockers:` {
			w.Errorf("reopened long after its pull request ended: %s", got)
		}
	})
}

// TestMergedBetweenScans: a pull request was opened and merged between two scans, and only its branch names its
// issue. It counts for the issue, although the forge could not close the issue.
func TestMergedBetweenScans(t *testing.T) {
	onEach(t, func(w *world) {
		n, blocker := w.file("one", "", "backlog"), w.file("blocker", "")
		w.depends(n, blocker)
		c := w.client()
		w.scan(c)
		p, _ := w.pull("fix/issue-1", "Work", "")
		w.merge(p)
		if got := w.show(w.scan(c), p); got != `pull merged dev fix/issue-1->main for #1` {
			w.Errorf("got %s", got)
		}
	})
}

// TestUnreadableHistory: an issue does not start while we do not know whether it was reopened after its pull request
// ended.
func TestUnreadableHistory(t *testing.T) {
	onLocal(t, func(w *world) {
		n := w.file("one", "", "backlog")
		p, _ := w.pull("fix/issue-1", "Work", "Fixes #1")
		w.setState(p, gitea.StateClosed)
		w.fault = func(r *http.Request) faults.Fault {
			if strings.HasSuffix(r.URL.Path, "/timeline") {
				return faults.Fail
			}
			return faults.None
		}
		c := w.client()
		f, err := c.Scan(w.Context())
		if err == nil || !strings.Contains(err.Error(), "history of") {
			w.Errorf("got %v", err)
		}
		if got := w.show(f, n); got != `issue open "one" [backlog]` {
			w.Errorf("got %s", got)
		}
		time.Sleep(overlap + time.Second)
		w.scan(c) // reads the comments for the last time
		if n := w.requests(c, func() { w.scan(c) }); n > 2 {
			w.Errorf("the next scan made %d requests, want at most 2", n)
		}
		w.fault = nil
		time.Sleep(triedEvery)
		if got := w.show(w.scan(c), n); got != `issue open "one" [backlog] blockers:` {
			w.Errorf("once it can be read again: %s", got)
		}
	})
}

// TestNewHeadOldChecks: the checks of the old head do not count for the new one.
func TestNewHeadOldChecks(t *testing.T) {
	onLocal(t, func(w *world) {
		p, head := w.pull("topic", "Work", "")
		w.status(head, "ci", gitea.StatusSuccess)
		c := w.client()
		w.scan(c)
		time.Sleep(time.Minute)
		next := w.commit("topic", "", "topic.txt", "more\n")
		w.fault = func(r *http.Request) faults.Fault {
			if strings.Contains(r.URL.Path, "/commits/"+next) {
				return faults.Fail
			}
			return faults.None
		}
		f, err := c.Scan(w.Context())
		if err == nil {
			w.Error("no error")
		}
		if got := f.Pull(w.ref(p)); got.HeadSHA != next || got.CI != forge.CIPending || !got.CISince.IsZero() {
			w.Errorf("head %.7s (want %.7s) ci %s since %v", got.HeadSHA, next, cis[got.CI], got.CISince)
		}
	})
}

// TestOneFailingRefresh: a pull request that cannot be refreshed does not keep the others from being refreshed.
func TestOneFailingRefresh(t *testing.T) {
	onLocal(t, func(w *world) {
		p1, _ := w.pull("one", "Work", "")
		p2, head := w.pull("two", "Work", "")
		w.status(head, "ci", gitea.StatusSuccess)
		c := w.client()
		w.scan(c)
		time.Sleep(time.Minute)
		w.label(p2, "priority") // makes p2 the one that was read later, so that p1 is refreshed first
		w.scan(c)
		w.nextSecond()
		w.nextSecond()
		w.scan(c)
		w.status(head, "ci", gitea.StatusFailure)
		w.fault = func(r *http.Request) faults.Fault {
			if strings.HasSuffix(r.URL.Path, fmt.Sprintf("/pulls/%d", p1)) {
				return faults.Fail
			}
			return faults.None
		}
		for range 120 {
			time.Sleep(10 * time.Second)
			_, _ = c.Scan(w.Context())
		}
		f := c.facts(false)
		if got := w.show(f, p2); got != `pull open dev two->main [priority] clean ci failure` {
			w.Errorf("got %s", got)
		}
		if p, r := f.Pull(w.ref(p1)), f.Repos[0]; !p.AsOf.Before(r.AsOf) {
			w.Errorf("AsOf of the unreadable pull request is %v, want it older than the repository's", p.AsOf)
		}
	})
}

// TestMergeabilityOfAnOldBase: mergeability with an old base does not count once another pull request was merged.
func TestMergeabilityOfAnOldBase(t *testing.T) {
	onLocal(t, func(w *world) {
		p1, _ := w.pull("one", "Work", "")
		p2, _ := w.pull("two", "Work", "")
		c := w.client()
		w.scan(c)
		time.Sleep(time.Minute)
		w.eventually(c, p2, `pull open dev two->main clean ci none`)
		w.merge(p1)
		w.fault = func(r *http.Request) faults.Fault {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, fmt.Sprintf("/pulls/%d", p2)) {
				return faults.Fail
			}
			return faults.None
		}
		f, err := c.Scan(w.Context())
		if got := w.show(f, p2); err == nil || got != `pull open dev two->main unknown ci none` {
			w.Errorf("got %s, %v", got, err)
		}
		time.Sleep(overlap + time.Second)
		w.scan(c) // reads the comments for the last time
		if n := w.requests(c, func() { w.scan(c) }); n > 2 {
			w.Errorf("the next scan made %d requests, want at most 2", n)
		}
		w.fault = nil
		time.Sleep(pollEvery)
		w.eventually(c, p2, `pull open dev two->main clean ci none`)
	})
}

// rivals opens two pull requests that add the same file: a merge of one puts the other in conflict.
func (w *world) rivals() (one, two int64) {
	w.commit("main", "", "same.txt", "base\n")
	w.commit("one", "main", "same.txt", "one\n")
	w.commit("two", "main", "same.txt", "two\n")
	owner, name := owner(w.repo)
	open := func(head string) int64 {
		in, _, err := w.as(w.dev).CreatePullRequest(owner, name,
			gitea.CreatePullRequestOption{Head: head, Base: "main", Title: head})
		w.must(err)
		return in.Index
	}
	return open("one"), open("two")
}

// TestStaleMergeable: after a base has moved, Forgejo still answers "mergeable" for a while, with the new base. A
// conflict is noticed soon, before the settled pull request would be read again. A clean pull request costs few
// readings.
func TestStaleMergeable(t *testing.T) {
	const lag = 1500 * time.Millisecond
	onLateEmpty(t, lag, func(w *world) {
		w.settle()
		p1, p2 := w.rivals()
		p3, _ := w.pull("three", "Work", "")
		c := w.client()
		w.scan(c)
		time.Sleep(time.Minute)
		w.eventually(c, p2, `pull open dev two->main clean ci none`)
		time.Sleep(time.Minute)
		w.scan(c)
		w.merge(p1)
		merged := time.Now()
		if got := w.show(w.scan(c), p2); got != `pull open dev two->main clean ci none` {
			w.Errorf("right after the merge: %s, want the old mergeability", got)
		}
		read := 0
		w.fault = func(r *http.Request) faults.Fault {
			if strings.HasSuffix(r.URL.Path, fmt.Sprintf("/pulls/%d", p3)) {
				read++
			}
			return faults.None
		}
		var seen time.Duration
		for time.Since(merged) < 2*time.Minute {
			time.Sleep(time.Second)
			f := w.scan(c)
			if f.Pull(w.ref(p2)).Mergeable == forge.MergeNotClean && seen == 0 {
				seen = time.Since(merged)
			}
		}
		if seen == 0 || seen > conflictAfter+20*time.Second {
			w.Errorf("the conflict was seen %v after the merge", seen)
		}
		if read < 1 || read > 5 {
			w.Errorf("the clean pull request was read %d times, want 1 to 5", read)
		}
	})
}

// TestEndsAreSeen: a session on an item can see that the item ended.
func TestEndsAreSeen(t *testing.T) {
	onEach(t, func(w *world) {
		n := w.file("one", "", "backlog")
		p, _ := w.pull("fix/issue-1", "Work", "Fixes #1")
		p2, _ := w.pull("topic", "Other", "")
		c := w.client()
		w.scan(c)
		w.merge(p)
		w.setState(p2, gitea.StateClosed)
		f := w.scan(c)
		for n, want := range map[int64]string{
			n: `issue closed "one" [backlog]`, p: `pull merged dev fix/issue-1->main for #1`, p2: `pull closed dev topic->main`,
		} {
			if got := w.show(f, n); got != want {
				w.Errorf("#%d: got %s, want %s", n, got, want)
			}
		}
		if w.local == nil {
			return
		}
		time.Sleep(3 * time.Hour)
		w.scan(c)
		f = w.scan(c)
		for _, n := range []int64{n, p, p2} {
			if got := w.show(f, n); got != "not there" {
				w.Errorf("#%d three hours later: %s", n, got)
			}
		}
	})
}

// TestConflict: "not mergeable" counts as a conflict only if the forge still reports it ten seconds later.
func TestConflict(t *testing.T) {
	onLocal(t, func(w *world) {
		p1, p2 := w.rivals()
		c := w.client()
		time.Sleep(time.Minute)
		w.eventually(c, p2, `pull open dev two->main clean ci none`)
		w.merge(p1)
		merged := time.Now()
		f := w.scan(c)
		if got := w.show(f, p2); got != `pull open dev two->main unknown ci none` {
			w.Errorf("right after the merge: %s", got)
		}
		since := f.Pull(w.ref(p2)).ConflictSince
		if !since.Equal(merged) {
			w.Errorf("not mergeable since %v, want %v", since, merged)
		}
		for time.Since(merged) < conflictAfter-3*time.Second {
			time.Sleep(3 * time.Second)
			f := w.scan(c)
			if got := w.show(f, p2); got != `pull open dev two->main unknown ci none` {
				w.Errorf("%v after the merge: %s", time.Since(merged), got)
			}
			if p := f.Pull(w.ref(p2)); p.AsOf.Sub(p.ConflictSince) >= conflictAfter {
				w.Errorf("%v after the merge: as of %v", time.Since(merged), p.AsOf)
			}
		}
		time.Sleep(9 * time.Second)
		f = w.scan(c)
		if got := w.show(f, p2); got != `pull open dev two->main conflict ci none` {
			w.Errorf("%v after the merge: %s", time.Since(merged), got)
		}
		if p := f.Pull(w.ref(p2)); !p.ConflictSince.Equal(since) || p.AsOf.Sub(since) < conflictAfter {
			w.Errorf("not mergeable since %v as of %v, was since %v", p.ConflictSince, p.AsOf, since)
		}
		w.commit("two", "", "same.txt", "base\n") // the same text as on main: the conflict is gone
		w.commit("main", "", "same.txt", "base\n")
		time.Sleep(time.Minute)
		w.eventually(c, p2, `pull open dev two->main clean ci none`)
		if got := w.scan(c); !got.Pull(w.ref(p2)).ConflictSince.IsZero() {
			w.Error("a pull request without a conflict still has ConflictSince")
		}
	})
}

// TestBaseMovesUnseen: no list shows a push to the base branch, so the branch is read every few minutes.
func TestBaseMovesUnseen(t *testing.T) {
	onLocal(t, func(w *world) {
		w.commit("main", "", "same.txt", "base\n")
		w.commit("two", "main", "same.txt", "two\n")
		owner, name := owner(w.repo)
		in, _, err := w.as(w.dev).CreatePullRequest(owner, name,
			gitea.CreatePullRequestOption{Head: "two", Base: "main", Title: "two"})
		w.must(err)
		c := w.client()
		w.scan(c)
		time.Sleep(time.Minute)
		w.commit("main", "", "same.txt", "main\n")
		for range 20 {
			time.Sleep(15 * time.Second)
			w.scan(c)
		}
		if got := w.show(w.scan(c), in.Index); got != `pull open dev two->main conflict ci none` {
			w.Errorf("five minutes after the push: %s", got)
		}
	})
}

// TestChecks: commit statuses do not show in a list of changes, so they are polled.
func TestChecks(t *testing.T) {
	onLocal(t, func(w *world) {
		p, head := w.pull("topic", "Work", "")
		c := w.client()
		want := func(want string) {
			w.Helper()
			if got := w.show(w.scan(c), p); got != "pull open dev topic->main clean ci "+want {
				w.Errorf("got %s, want ci %s", got, want)
			}
		}
		want("none")
		w.nextSecond()
		w.nextSecond()
		want("none")
		time.Sleep(20 * time.Second)
		w.status(head, "a", gitea.StatusPending)
		want("none")
		time.Sleep(11 * time.Second)
		want("pending") // a new head is polled although it had no statuses
		w.status(head, "a", gitea.StatusSuccess)
		w.status(head, "b", gitea.StatusSuccess)
		time.Sleep(31 * time.Second)
		want("success")
		w.status(head, "b", gitea.StatusFailure)
		time.Sleep(20 * time.Minute)
		w.scan(c)
		w.scan(c)
		w.scan(c)
		want("failure") // a settled pull request is still refreshed
	})
}

func TestRequiredChecks(t *testing.T) {
	onEach(t, func(w *world) {
		owner, name := owner(w.repo)
		_, _, err := w.as(w.owner).CreateBranchProtection(owner, name, gitea.CreateBranchProtectionOption{
			RuleName: "main", EnableStatusCheck: true, StatusCheckContexts: []string{"ci/*"},
		})
		w.must(err)
		p, head := w.pull("topic", "Work", "")
		w.status(head, "other", gitea.StatusFailure)
		p2, head2 := w.pull("second", "Work", "")
		w.status(head2, "ci/test", gitea.StatusSuccess)
		f := w.scan(w.client())
		if got := f.Pull(w.ref(p)).CI; got != forge.CIPending {
			w.Errorf("a required check is missing, but ci is %s", cis[got])
		}
		if got := f.Pull(w.ref(p2)).CI; got != forge.CISuccess {
			w.Errorf("all required checks succeeded, but ci is %s", cis[got])
		}
	})
}

// TestUnreadablePull: a pull request that cannot be read delays only itself and its issue.
func TestUnreadablePull(t *testing.T) {
	onLocal(t, func(w *world) {
		w.file("one", "", "backlog")
		n := w.file("two", "", "backlog")
		p, _ := w.pull("fix/issue-1", "Work", "Fixes #1")
		w.fault = func(r *http.Request) faults.Fault {
			if strings.HasSuffix(r.URL.Path, fmt.Sprintf("/pulls/%d/reviews", p)) {
				return faults.Fail
			}
			return faults.None
		}
		c := w.client()
		f, err := c.Scan(w.Context())
		if err == nil || !strings.Contains(err.Error(), w.ref(p).String()) {
			w.Errorf("the error does not name the pull request: %v", err)
		}
		if got := w.show(f, n); got != `issue open "two" [backlog] blockers:` {
			w.Errorf("another issue: %s", got)
		}
		if got := w.show(f, p); got != `pull open dev fix/issue-1->main for #1 unknown ci pending` {
			w.Errorf("the pull request: %s", got)
		}
		if r, _ := f.Repo(w.repo); r.AsOf.IsZero() {
			w.Error("the repository does not count as read")
		}
		time.Sleep(overlap + time.Second)
		w.scan(c) // reads the comments for the last time
		if n := w.requests(c, func() { w.scan(c) }); n > 2 {
			w.Errorf("the next scan made %d requests, want at most 2", n)
		}
		w.fault = nil
		time.Sleep(pollEvery)
		if got := w.show(w.scan(c), p); got != `pull open dev fix/issue-1->main for #1 clean ci none` {
			w.Errorf("once it can be read again: %s", got)
		}
	})
}

// TestBrokenStatuses: half of an answer must not read as "no checks".
func TestBrokenStatuses(t *testing.T) {
	onLocal(t, func(w *world) {
		p, head := w.pull("topic", "Work", "")
		w.status(head, "ci", gitea.StatusFailure)
		w.fault = func(r *http.Request) faults.Fault {
			if strings.Contains(r.URL.Path, "/status") {
				return faults.Half
			}
			return faults.None
		}
		f, err := w.client().Scan(w.Context())
		if err == nil {
			w.Error("no error")
		}
		if got := w.show(f, p); got != `pull open dev topic->main unknown ci pending` {
			w.Errorf("got %s", got)
		}
	})
}

// TestDoneWithout: a scan shows that an issue is closed as long as a pull request for it is open, even from a client
// that started after the issue was closed. Otherwise the pull request would be reworked and merged an hour later,
// although the issue was done without it.
func TestDoneWithout(t *testing.T) {
	onLocal(t, func(w *world) {
		n := w.file("one", "", "backlog")
		c := w.client()
		shown := func(c *Client) *forge.Issue {
			f := w.scan(c)
			return f.Issue(w.ref(n))
		}
		shown(c)
		p, _ := w.pull("fix/issue-1", "Work", "")
		shown(c)
		w.setState(n, gitea.StateClosed)
		for range 4 {
			time.Sleep(40 * time.Minute)
			for name, client := range map[string]*Client{"this client": c, "a new client": w.client()} {
				if is := shown(client); is == nil || !is.Closed {
					t.Fatalf("%s shows %+v", name, is)
				}
			}
		}
		w.setState(n, gitea.StateOpen)
		if is := shown(c); is == nil || is.Closed {
			t.Errorf("reopened: %+v", is)
		}
		w.setState(n, gitea.StateClosed)
		owner, name := owner(w.repo)
		_, _, err := w.as(w.dev).EditPullRequest(owner, name, p,
			gitea.EditPullRequestOption{State: new(gitea.StateClosed)})
		w.must(err)
		shown(c)
		time.Sleep(2 * time.Hour)
		if is := shown(c); is != nil {
			t.Errorf("a closed issue without an open pull request is still shown: %+v", is)
		}
	})
}

// The mergeability is read at once after the base has moved, but only until it was read since the move.
func TestMergeabilityDue(t *testing.T) {
	now := time.Now()
	r := newRepo("o/r")
	b := &base{sha: "b1", moved: now.Add(-10 * time.Second)}
	r.bases["main"] = b
	for _, tt := range []struct {
		name string
		p    pull
		want bool
	}{
		{"the base moved since", pull{baseSHA: "b0", detailsAt: now.Add(-11 * time.Second)}, true},
		{"read since, and early", pull{baseSHA: "b0", detailsAt: now.Add(-time.Second)}, false},
		{"read since, and late", pull{baseSHA: "b0", detailsAt: now.Add(-9 * time.Second)}, true},
		{"settled", pull{baseSHA: "b1", clean: true, detailsAt: now.Add(-time.Hour)}, false},
		{"not known yet", pull{baseSHA: "b1", detailsAt: now.Add(-3 * time.Second)}, true},
		{"a draft", pull{Pull: forge.Pull{Draft: true}, baseSHA: "b0"}, false},
	} {
		tt.p.Base, tt.p.ConflictSince = "main", tt.p.detailsAt
		if got := r.mergeabilityDue(&tt.p, now); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestMergeBaseIsOfTheHead: right after a push the forge still answers with the merge base of the head before.
func TestMergeBaseIsOfTheHead(t *testing.T) {
	onLateEmpty(t, 20*time.Second, func(w *world) {
		w.settle()
		n, head := w.pull("topic", "Work", "")
		c := w.client()
		w.scan(c)
		base := w.commit("main", "", "other.txt", "x\n")
		x := c.begin(w.Context())
		_, err := x.sendJSON(http.MethodPost, api+at(w.repo, "/pulls/%d/update", n), struct{}{})
		w.must(x.wrote(err))
		in, _, err := c.readDetails(w.Context(), w.ref(n))
		w.must(err)
		look, err := c.FetchItem(w.Context(), w.ref(n), time.Now())
		w.must(err)
		p := look.Pull
		if in.MergeBase == base || p.HeadSHA == head || p.MergeBase != base {
			w.Errorf("got head %s on %s, want on %s; the forge says %s", p.HeadSHA, p.MergeBase, base, in.MergeBase)
		}
		time.Sleep(time.Minute)
		f := w.scan(c)
		if p := f.Pull(w.ref(n)); p.MergeBase != base {
			w.Errorf("a minute later: got merge base %s, want %s", p.MergeBase, base)
		}
	})
}
