package forgejo

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/localforge/faults"
)

// elsewhere creates a repository that is not scanned, with one issue, and returns that issue.
func (w *world) elsewhere(name string, private bool) forge.Ref {
	w.Helper()
	_, _, err := w.as(w.owner).CreateRepo(gitea.CreateRepoOption{Name: name, Private: private})
	w.must(err)
	if w.local == nil {
		w.Cleanup(func() { _, _ = w.as("admin").DeleteRepo(w.owner, name) })
	}
	in, _, err := w.as(w.owner).CreateIssue(w.owner, name, gitea.CreateIssueOption{Title: "elsewhere"})
	w.must(err)
	return forge.Ref{Repo: w.owner + "/" + name, Number: in.Index}
}

func (w *world) closeRef(ref forge.Ref) {
	w.Helper()
	owner, name := owner(ref.Repo)
	closed := gitea.StateClosed
	_, _, err := w.as(w.owner).EditIssue(owner, name, ref.Number, gitea.EditIssueOption{State: &closed})
	w.must(err)
}

func TestBlockerStates(t *testing.T) {
	onEach(t, func(w *world) {
		open, closed := w.file("open", ""), w.file("closed", "")
		w.setState(closed, gitea.StateClosed)
		cancelled := w.file("cancelled", "", "cancelled")
		w.setState(cancelled, gitea.StateClosed)
		pull, _ := w.pull("topic", "Work", "")
		ended, _ := w.pull("ended", "Work", "")
		w.setState(ended, gitea.StateClosed)
		public, private := w.elsewhere("public", false), w.elsewhere("private", true)
		publicClosed := w.elsewhere("shut", false)
		w.closeRef(publicClosed)

		cases := []struct {
			name, text, want string
			on               []forge.Ref
		}{
			{"text: open", "depends on #1", `#1 open (text);`, nil},
			{"text: closed", "depends on #2", `#2 closed (text);`, nil},
			{"text: cancelled", "depends on #3", `#3 cancelled (text);`, nil},
			{"text: missing", "depends on #999", `#999 missing (text);`, nil},
			{"text: pull request", "depends on #4", `#4 open (text);`, nil},
			{"text: closed pull request", "depends on #5", `#5 closed (text);`, nil},
			{"text: other repository", "depends on " + public.String(), public.String() + ` open (text);`, nil},
			{
				"text: closed in other repository", "depends on " + publicClosed.String(),
				publicClosed.String() + ` closed (text);`, nil,
			},
			{"text: private repository", "depends on " + private.String(), private.String() + ` missing (text);`, nil},
			{"text: other spelling", "depends on " + strings.ToUpper(w.repo) + "#1", `#1 open (text);`, nil},
			{"forge: open", "", `#1 open;`, []forge.Ref{w.ref(open)}},
			{"forge: closed", "", `#2 closed;`, []forge.Ref{w.ref(closed)}},
			{"forge: cancelled", "", `#3 cancelled;`, []forge.Ref{w.ref(cancelled)}},
			{"forge: closed pull request", "", `#5 closed;`, []forge.Ref{w.ref(ended)}},
			{"forge: other repository", "", public.String() + ` open;`, []forge.Ref{public}},
			{"forge: private repository", "", `hidden unreadable;`, []forge.Ref{private}},
			{"both", "depends on #1", `#1 open; #4 open;`, []forge.Ref{w.ref(open), w.ref(pull)}},
		}
		numbers := make([]int64, len(cases))
		for n, c := range cases {
			numbers[n] = w.file(c.name, c.text, "backlog")
			for _, ref := range c.on {
				w.dependency(http.MethodPost, numbers[n], ref)
			}
		}
		c := w.client()
		for _, round := range []string{"cold", "later"} {
			f := w.scan(c)
			for n, tc := range cases {
				want := fmt.Sprintf("issue open %q [backlog] blockers: %s", tc.name, w.short(tc.want))
				if got := w.show(f, numbers[n]); got != want {
					w.Errorf("%s:\n got %s\nwant %s", round, got, want)
				}
			}
			if w.local != nil {
				time.Sleep(2 * time.Hour)
				w.scan(c) // includes a complete listing
				w.scan(c)
			}
		}
	})
}

// TestSelfDependency: Forgejo allows an issue to depend on itself.
func TestSelfDependency(t *testing.T) {
	onEach(t, func(w *world) {
		n := w.file("itself", "", "backlog")
		w.depends(n, n)
		if got := w.show(w.scan(w.client()), n); got != `issue open "itself" [backlog] blockers: #1 open;` {
			w.Errorf("got %s", got)
		}
	})
}

// TestTooManyBlockers: if a text names a thousand issues (250 in make test), the client does not request them all.
func TestTooManyBlockers(t *testing.T) {
	onLocal(t, func(w *world) {
		var text strings.Builder
		text.WriteString("## Dependencies\n")
		many := sized(1000, 250)
		for n := range many {
			fmt.Fprintf(&text, "- #%d\n", n+100)
		}
		n := w.file("greedy", text.String(), "backlog")
		c := w.client()
		f := w.scan(c)
		if got := w.local.Requests()["GET /repos/{owner}/{repo}/issues/{number}"]; got != mostAsked {
			w.Errorf("the client requested %d issues, want %d", got, mostAsked)
		}
		blockers := f.Issue(w.ref(n)).Blockers
		if len(blockers) != many || blockers[0].State != forge.BlockerMissing ||
			blockers[many-1].State != forge.BlockerUnknown {
			w.Errorf("the issue has %d blockers, the first %+v; want %d", len(blockers), blockers[0], many)
		}
	})
}

// TestForeignBlocker: a blocker in a repository that is not scanned is read once a minute, and not more often.
func TestForeignBlocker(t *testing.T) {
	onLocal(t, func(w *world) {
		other := w.elsewhere("other", false)
		n := w.file("waits", "depends on "+other.String(), "backlog")
		time.Sleep(2 * time.Second)
		c := w.client()
		w.scan(c)
		asked := func() int { return w.local.Requests()["GET /repos/{owner}/{repo}/issues/{number}"] }
		before := asked()
		for range 60 {
			time.Sleep(10 * time.Second)
			w.scan(c)
		}
		if got := asked() - before; got != 10 {
			w.Errorf("the client read the blocker %d times in ten minutes, want 10", got)
		}
		w.closeRef(other)
		time.Sleep(singleEvery)
		if got := w.show(w.scan(c), n); !strings.HasSuffix(got, " closed (text);") {
			w.Errorf("a minute after it was closed: %s", got)
		}
	})
}

// TestMissingBlockerAppears: when a missing blocker in a scanned repository appears, no extra request is needed to see
// it.
func TestMissingBlockerAppears(t *testing.T) {
	onEach(t, func(w *world) {
		n := w.file("waits", "depends on #2", "backlog")
		c := w.client()
		if got := w.show(w.scan(c), n); got != `issue open "waits" [backlog] blockers: #2 missing (text);` {
			w.Errorf("got %s", got)
		}
		w.file("appears", "")
		if got := w.show(w.scan(c), n); got != `issue open "waits" [backlog] blockers: #2 open (text);` {
			w.Errorf("got %s", got)
		}
	})
}

// TestMissingBlockerComesAndGoes: the blocker is created and closed between two scans.
func TestMissingBlockerComesAndGoes(t *testing.T) {
	onEach(t, func(w *world) {
		n := w.file("waits", "depends on #2", "backlog")
		c := w.client()
		w.scan(c)
		w.setState(w.file("comes and goes", ""), gitea.StateClosed)
		if got := w.show(w.scan(c), n); got != `issue open "waits" [backlog] blockers: #2 closed (text);` {
			w.Errorf("got %s", got)
		}
	})
}

// TestMissingBlockerCost: a missing blocker in a scanned repository costs no request while nothing changes. The second
// sweep of abandoned claims, after five minutes, costs one, and the settings cost one every five minutes.
func TestMissingBlockerCost(t *testing.T) {
	onLocal(t, func(w *world) {
		w.file("waits", "depends on #99", "backlog")
		time.Sleep(time.Minute)
		c := w.client()
		w.scan(c)
		for minute := range 20 {
			time.Sleep(time.Minute)
			want := 1
			if minute%5 == 4 {
				want = 2
			}
			if minute == 4 {
				want = 3
			}
			if n := int(w.requests(c, func() { w.scan(c) })); n != want {
				w.Errorf("after %d minutes a scan made %d requests, want %d", minute+1, n, want)
			}
		}
	})
}

// TestBlockerBecomesPrivate: the forge still lists the dependency, but no longer shows its state.
func TestBlockerBecomesPrivate(t *testing.T) {
	onLocal(t, func(w *world) {
		other := w.elsewhere("other", false)
		n := w.file("waits", "", "backlog")
		w.dependency(http.MethodPost, n, other)
		c := w.client()
		w.nextSecond()
		w.nextSecond()
		w.scan(c)
		_, _, err := w.as(w.owner).EditRepo(w.owner, "other", gitea.EditRepoOption{Private: new(true)})
		w.must(err)
		time.Sleep(singleEvery)
		if got := w.show(w.scan(c), n); got != `issue open "waits" [backlog] blockers: owner/other#1 unreadable;` {
			w.Errorf("got %s", got)
		}
	})
}

// TestMergedWithBlockers: an issue whose pull request is merged cannot be closed before its dependencies, with the
// label backlog or without.
func TestMergedWithBlockers(t *testing.T) {
	onEach(t, func(w *world) {
		blocker, n := w.file("blocker", ""), w.file("merged", "")
		w.depends(n, blocker)
		c := w.client()
		p, _ := w.pull("fix/issue-2", "Work", "Fixes #2")
		if got := w.show(w.scan(c), n); got != `issue open "merged"` {
			w.Errorf("before the merge: got %s", got)
		}
		w.merge(p)
		if got := w.show(w.scan(c), n); got != `issue open "merged" #1 open;` {
			w.Errorf("after the merge: got %s", got)
		}
	})
}

func TestRequireMerged(t *testing.T) {
	onEach(t, func(w *world) {
		merged, rejected, byHand := w.file("merged", ""), w.file("rejected", ""), w.file("by hand", "")
		n := w.file("waits", "depends on #1, #2 and #3", "backlog")
		strict := w.client(func(o *Options) { o.RequireMerged = true })
		loose := w.client()
		w.scan(strict)
		w.scan(loose)
		p1, _ := w.pull("fix/issue-1", "Work", "Fixes #1")
		w.merge(p1)
		p2, _ := w.pull("fix/issue-2", "Work", "Fixes #2")
		w.setState(p2, gitea.StateClosed)
		w.setState(rejected, gitea.StateClosed)
		w.setState(byHand, gitea.StateClosed)
		if got, want := w.show(w.scan(strict),
			n), `issue open "waits" [backlog] blockers: #1 closed (text); #2 unmerged (text); #3 closed (text);`; got != want {
			w.Errorf("\n got %s\nwant %s", got, want)
		}
		if got, want := w.show(w.scan(loose),
			n), `issue open "waits" [backlog] blockers: #1 closed (text); #2 closed (text); #3 closed (text);`; got != want {
			w.Errorf("\n got %s\nwant %s", got, want)
		}
		_ = merged
	})
}

// TestB6_UnreadableDependencies: an issue whose dependencies cannot be read is not started, and delays no other issue.
func TestB6_UnreadableDependencies(t *testing.T) {
	onLocal(t, func(w *world) {
		for n := range 2 * batch {
			w.file(fmt.Sprintf("bad %d", n+1), "", "backlog", "priority")
		}
		good := w.file("good", "", "backlog")
		w.fault = func(r *http.Request) faults.Fault {
			if strings.HasSuffix(r.URL.Path, "/dependencies") &&
				!strings.HasSuffix(r.URL.Path, fmt.Sprintf("/%d/dependencies", good)) {
				return faults.Fail
			}
			return faults.None
		}
		time.Sleep(2 * time.Second)
		c := w.client()
		var f forge.Facts
		for range 4 {
			f, _ = c.Scan(w.Context())
		}
		if got := w.show(f, 1); got != `issue open "bad 1" [backlog priority]` {
			w.Errorf("unread dependencies: %s", got)
		}
		if got := w.show(f, good); got != `issue open "good" [backlog] blockers:` {
			w.Errorf("an issue after %d unreadable ones: %s", 2*batch, got)
		}
		w.fault = nil
		time.Sleep(triedEvery)
		if got := w.show(w.scan(c), 1); got != `issue open "bad 1" [backlog priority] blockers:` {
			w.Errorf("once the dependencies can be read again: %s", got)
		}
	})
}

// TestNoDependencies: dependencies can be switched off in a repository. The forge then answers 404.
func TestNoDependencies(t *testing.T) {
	onEach(t, func(w *world) {
		n := w.file("one", "depends on #2", "backlog")
		owner, name := owner(w.repo)
		_, _, err := w.as(w.owner).EditRepo(owner, name,
			gitea.EditRepoOption{InternalTracker: &gitea.InternalTracker{EnableIssueDependencies: false}})
		w.must(err)
		w.transport = trackerOff{w.transport}
		c := w.client()
		for range 2 {
			if got := w.show(w.scan(c), n); got != `issue open "one" [backlog] blockers: #2 missing (text);` {
				w.Errorf("got %s", got)
			}
		}
	})
}

// trackerOff makes a repository look as if its dependencies were switched off, which localforge cannot do.
type trackerOff struct{ next http.RoundTripper }

func (o trackerOff) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := o.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(req.URL.Path, "/dependencies") {
		resp.StatusCode = http.StatusNotFound
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	text = bytes.ReplaceAll(text, []byte(`"enable_issue_dependencies":true`), []byte(`"enable_issue_dependencies":false`))
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return resp, nil
}
