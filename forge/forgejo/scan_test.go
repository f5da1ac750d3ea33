package forgejo

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/localforge"
	"codeberg.org/johba/disinto/forge/localforge/faults"
)

func TestColdScan(t *testing.T) {
	onEach(t, func(w *world) {
		ready := w.file("ready", "do it", "backlog")
		blocked := w.file("blocked", fmt.Sprintf("depends on #%d", ready), "backlog")
		w.depends(blocked, ready)
		second := w.file("two blockers", fmt.Sprintf("## Dependencies\n- #%d", ready), "backlog")
		w.depends(second, blocked)
		human := w.file("assigned to a person", "depends on #1", "backlog")
		w.assign(human, w.human)
		plain := w.file("no backlog", "depends on #1")
		pinned := w.file("pinned", "", "backlog", "priority")
		w.assign(pinned, w.dev)
		convoy := w.file("convoy", "", "convoy")
		w.depends(convoy, ready)
		closed := w.file("closed", "", "backlog")
		w.setState(closed, gitea.StateClosed)
		worked := w.file("worked on", "", "backlog")
		n, head := w.pull(fmt.Sprintf("fix/issue-%d", worked), "Work", fmt.Sprintf("Fixes #%d", worked))
		w.status(head, "ci/test", gitea.StatusSuccess)
		w.verdict(w.review, n, head, gitea.ReviewStateApproved)
		w.merges(n)

		f := w.scan(w.client())
		for _, c := range []struct {
			n    int64
			want string
		}{
			{ready, `issue open "ready" [backlog] blockers:`},
			{blocked, `issue open "blocked" [backlog] blockers: #1 open;`},
			{second, `issue open "two blockers" [backlog] blockers: #1 open (text); #2 open;`},
			{human, `issue open "assigned to a person" [backlog] @human`},
			{plain, `issue open "no backlog"`},
			{pinned, `issue open "pinned" [backlog priority] @dev blockers:`},
			{convoy, `issue open "convoy" [convoy] blockers: #1 open;`},
			{closed, `not there`},
			{worked, `issue open "worked on" [backlog]`},
			{n, `pull open dev fix/issue-9->main for #9 clean ci success approved by review`},
		} {
			if got := w.show(f, c.n); got != c.want {
				w.Errorf("#%d:\n got %s\nwant %s", c.n, got, c.want)
			}
		}
		if r, ok := f.Repo(w.repo); !ok || r.DefaultBranch != "main" || r.AsOf.IsZero() {
			w.Errorf("repository %+v", r)
		}
		if p := f.Pull(w.ref(n)); p != nil && (p.HeadSHA != head || p.HeadRepo != w.repo || p.CISince.IsZero() ||
			p.Reviews[0].CommitSHA != head) {
			w.Errorf("pull request %+v", *p)
		}
	})
}

// TestScanSeesChanges makes a series of changes to an issue and to the issues it waits for.
func TestScanSeesChanges(t *testing.T) {
	onEach(t, func(w *world) {
		n := w.file("one", "text", "backlog")
		other := w.file("other", "", "backlog")
		third := w.file("third", "")
		owner, name := owner(w.repo)
		edit := func(option gitea.EditIssueOption) {
			_, _, err := w.as(w.owner).EditIssue(owner, name, n, option)
			w.must(err)
		}
		c := w.client()
		w.scan(c)
		for _, step := range []struct {
			name   string
			change func()
			want   string
		}{
			{"title", func() { edit(gitea.EditIssueOption{Title: "new"}) }, `issue open "new" [backlog] blockers:`},
			{"dependency", func() { w.depends(n, other) }, `issue open "new" [backlog] blockers: #2 open;`},
			{
				"blocker closed", func() { w.setState(other, gitea.StateClosed) },
				`issue open "new" [backlog] blockers: #2 closed;`,
			},
			{"blocker cancelled", func() { w.label(other, "cancelled") }, `issue open "new" [backlog] blockers: #2 cancelled;`},
			{"blocker reopened", func() { w.setState(other, gitea.StateOpen) }, `issue open "new" [backlog] blockers: #2 open;`},
			{
				"no dependency", func() { w.dependency(http.MethodDelete, n, w.ref(other)) },
				`issue open "new" [backlog] blockers:`,
			},
			{
				"text", func() { edit(gitea.EditIssueOption{Body: new("blocked by #3")}) },
				`issue open "new" [backlog] blockers: #3 open (text);`,
			},
			{
				"third closed", func() { w.setState(third, gitea.StateClosed) },
				`issue open "new" [backlog] blockers: #3 closed (text);`,
			},
			{"label", func() { w.label(n, "priority") }, `issue open "new" [backlog priority] blockers: #3 closed (text);`},
			{"pin", func() { w.assign(n, w.dev) }, `issue open "new" [backlog priority] @dev blockers: #3 closed (text);`},
			{"closed", func() { w.setState(n, gitea.StateClosed) }, `issue closed "new" [backlog priority] @dev`},
			{
				"opened", func() { w.setState(n, gitea.StateOpen) },
				`issue open "new" [backlog priority] @dev blockers: #3 closed (text);`,
			},
			// What a person's issue waits for is not read again.
			{"person", func() { w.assign(n, w.human) }, `issue open "new" [backlog priority] @human`},
		} {
			step.change()
			if got := w.show(w.scan(c), n); !strings.HasPrefix(got, step.want) || strings.HasSuffix(step.want, ":") &&
				got != step.want {
				w.Errorf("%s:\n got %s\nwant %s", step.name, got, step.want)
			}
		}
	})
}

// TestSecondChangeInOneSecond: the forge's times are whole seconds, so a second change within the same second leaves
// updated_at as it is.
func TestSecondChangeInOneSecond(t *testing.T) {
	onEach(t, func(w *world) {
		n, other := w.file("one", "", "backlog"), w.file("other", "", "backlog")
		c := w.client()
		w.scan(c)
		w.depends(n, other) // in the bubble no time has passed since the scan
		w.nextSecond()
		if got := w.show(w.scan(c), n); got != `issue open "one" [backlog] blockers: #2 open;` {
			w.Errorf("got %s", got)
		}
	})
}

// TestC7_UnchangedCost checks the cost that the package comment promises.
func TestC7_UnchangedCost(t *testing.T) {
	onLocal(t, func(w *world) {
		for n := range 60 {
			w.file(fmt.Sprintf("issue %d", n), "", "backlog")
		}
		w.file("closed blocker", "depends on #61 and #7", "backlog")
		for n := range 5 {
			_, head := w.pull(fmt.Sprintf("topic-%d", n), "Work", fmt.Sprintf("Fixes #%d", n+1))
			w.status(head, "ci", gitea.StatusSuccess)
		}
		c := w.client()
		w.scan(c)
		for range 3 { // items that were read in the second of their change are read again
			time.Sleep(5 * time.Second)
			w.scan(c)
		}
		most, total := int64(0), int64(0)
		scans := sized(120, 30)
		for range scans {
			time.Sleep(15 * time.Second)
			n := w.requests(c, func() { w.scan(c) })
			most, total = max(most, n), total+n
		}
		if most > 3 { // a third for the settings, every five minutes
			w.Errorf("a scan of an unchanged repository made %d requests, want 3 at most", most)
		}
		if total < int64(scans)*5/4 {
			w.Errorf("%d scans made only %d requests: settled items are not refreshed", scans, total)
		}
	})
}

// TestPendingCost: a pull request with pending CI costs one more request every 30 s.
func TestPendingCost(t *testing.T) {
	onLocal(t, func(w *world) {
		for n := range 3 {
			_, head := w.pull(fmt.Sprintf("topic-%d", n), "Work", "")
			w.status(head, "ci", gitea.StatusPending)
		}
		c := w.client()
		w.scan(c)
		time.Sleep(5 * time.Second)
		w.scan(c)
		total := w.requests(c, func() {
			for range 60 {
				time.Sleep(5 * time.Second)
				w.scan(c)
			}
		})
		// 60 lists, 10 times three polls, and at most one refresh per scan.
		if total < 60+30-3 || total > 60+30+20 {
			w.Errorf("60 scans in 5 minutes with 3 pending pull requests made %d requests, want about 100", total)
		}
	})
}

func TestPages(t *testing.T) {
	onEach(t, func(w *world) {
		want := map[int64]bool{}
		for n := range 120 {
			want[w.file(fmt.Sprintf("issue %d", n), "")] = true
		}
		f := w.scan(w.client())
		if len(f.Issues) != len(want) {
			w.Fatalf("%d issues, want %d", len(f.Issues), len(want))
		}
		for n, i := range f.Issues {
			if !want[i.Number] || n > 0 && f.Issues[n-1].Compare(i.Ref) >= 0 {
				w.Errorf("issue %d of the facts is %s: unknown, twice, or not sorted", n, i.Ref)
			}
		}
	})
}

// TestChangedPages: between two scans more items change than fit on a page.
func TestChangedPages(t *testing.T) {
	onLocal(t, func(w *world) {
		c := w.client()
		w.scan(c)
		for n := range 130 {
			w.file(fmt.Sprintf("issue %d", n), "")
		}
		if f := w.scan(c); len(f.Issues) != 130 {
			w.Errorf("%d issues, want 130", len(f.Issues))
		}
	})
}

// TestListMovesWhileRead: after the first page was read, an issue on it is closed, so that the first issue of the
// second page moves to the first page.
func TestListMovesWhileRead(t *testing.T) {
	onLocal(t, func(w *world) {
		for n := range 101 {
			w.file(fmt.Sprintf("issue %d", n+1), "")
		}
		time.Sleep(time.Minute) // otherwise all of them would be in the list of changes too
		c := w.client()
		var done atomic.Bool
		w.fault = func(r *http.Request) faults.Fault {
			if r.URL.Query().Get("page") == "2" && strings.HasSuffix(r.URL.Path, "/issues") && !done.Swap(true) {
				w.setState(101, gitea.StateClosed) // the newest issue is on the first page
			}
			return faults.None
		}
		f := w.scan(c)
		if !done.Load() {
			w.Fatal("the second page was not requested")
		}
		for n := int64(1); n <= 100; n++ {
			if f.Issue(w.ref(n)) == nil {
				w.Errorf("#%d is missing", n)
			}
		}
		if i := f.Issue(w.ref(101)); i != nil && !i.Closed {
			w.Error("#101 is still open")
		}
	})
}

// TestDeletion: no list of changes shows a deletion, only the hourly complete listing.
func TestDeletion(t *testing.T) {
	onLocal(t, func(w *world) {
		n, waits := w.file("goes", "", "backlog"), w.file("waits", "", "backlog")
		w.depends(waits, n)
		w.nextSecond()
		w.nextSecond()
		c := w.client()
		w.scan(c)
		owner, name := owner(w.repo)
		_, err := w.as(w.owner).DeleteIssue(owner, name, n)
		w.must(err)
		time.Sleep(30 * time.Minute)
		if got := w.show(w.scan(c), n); got == "not there" {
			w.Error("a list of changes showed the deletion; the hourly listing is not needed")
		}
		time.Sleep(31 * time.Minute)
		f := w.scan(c)
		if got := w.show(f, n); got != "not there" {
			w.Errorf("an hour later: %s", got)
		}
		if got := w.show(f, waits); got != `issue open "waits" [backlog] blockers:` {
			w.Errorf("the issue that waited for it: %s", got)
		}
	})
}

// TestEndsBeforeTheFullListing: an item that ended between the last scan and a complete listing is shown as ended, and
// does not just disappear.
func TestEndsBeforeTheFullListing(t *testing.T) {
	onLocal(t, func(w *world) {
		n := w.file("one", "", "backlog")
		p, _ := w.pull("topic", "Work", "")
		c := w.client()
		w.scan(c)
		time.Sleep(fullEvery - 20*time.Second)
		w.scan(c)
		time.Sleep(time.Second)
		w.setState(n, gitea.StateClosed)
		w.merge(p)
		time.Sleep(20 * time.Second)
		f := w.scan(c)
		if got := w.show(f, n); got != `issue closed "one" [backlog]` {
			w.Errorf("issue: %s", got)
		}
		if got := w.show(f, p); got != `pull merged dev topic->main` {
			w.Errorf("pull request: %s", got)
		}
	})
}

// TestUnloadedEntry: if the forge could not load an entry of a list, the scan does not conclude that another item is
// gone.
func TestUnloadedEntry(t *testing.T) {
	onLocal(t, func(w *world) {
		n := w.file("one", "", "backlog")
		c := w.client()
		w.scan(c)
		time.Sleep(time.Minute)
		w.scan(c)
		time.Sleep(2 * fullEvery)
		c.through(answers(func(req *http.Request) (*http.Response, error) {
			if req.URL.Query().Get("state") == "open" {
				return say(200, `[{"number":0,"title":""}]`, "Date", time.Now().UTC().Format(http.TimeFormat), "X-Total-Count",
					"1")(req)
			}
			return w.transport.RoundTrip(req)
		}))
		if got := w.show(w.scan(c), n); got != `issue open "one" [backlog] blockers:` {
			w.Errorf("got %s", got)
		}
	})
}

// TestDispatchOrder: of many issues, those to be dispatched first are read first, and can start before the others have
// been read. Each further scan reads twice as many.
func TestDispatchOrder(t *testing.T) {
	onLocal(t, func(w *world) {
		for n := range 100 {
			w.file(fmt.Sprintf("issue %d", n+1), "", "backlog")
		}
		w.label(90, "priority")
		w.file("convoy", "", "convoy")
		time.Sleep(5 * time.Second)
		c := w.client()
		f, err := c.Scan(w.Context())
		w.must(err)
		if !f.More {
			w.Error("the first scan does not set More")
		}
		for _, i := range f.Issues {
			want := i.Number == 101 || i.Number == 90 || i.Number <= batch-2
			if i.BlockersKnown != want {
				w.Errorf("%s: BlockersKnown is %v after the first scan", i.Ref, i.BlockersKnown)
			}
		}
		for _, left := range []int{101 - 3*batch, 0} {
			f, err = c.Scan(w.Context())
			w.must(err)
			unread := 0
			for _, i := range f.Issues {
				if !i.BlockersKnown {
					unread++
				}
			}
			if unread != left || f.More != (left > 0) {
				w.Errorf("a further scan leaves %d issues unread, More %v; want %d", unread, f.More, left)
			}
		}
		w.label(1, "priority")
		w.scan(c)
		if c.batch != 0 {
			w.Errorf("the next series begins with %d", c.batch)
		}
		if n := w.local.Requests()["GET /repos/{owner}/{repo}/issues/{number}/dependencies"]; n != 102 {
			w.Errorf("%d requests for dependencies of 101 issues, one of which changed", n)
		}
	})
}

// TestAsOf: AsOf is when the request began that reported or confirmed the fact.
func TestAsOf(t *testing.T) {
	onLocal(t, func(w *world) {
		n := w.file("one", "", "backlog")
		second := w.newRepo("second", w.boss, w.dev, w.review)
		c := w.client(func(o *Options) { o.Repos = append(o.Repos, second) })
		w.scan(c)
		time.Sleep(time.Minute)
		w.scan(c)
		time.Sleep(time.Minute)
		at := time.Now()
		f := w.scan(c)
		if got := f.Issue(w.ref(n)).AsOf; !got.Equal(at) {
			w.Errorf("the issue was confirmed at %v, but AsOf is %v", at, got)
		}
		time.Sleep(time.Minute)
		w.fault = func(r *http.Request) faults.Fault {
			if strings.Contains(r.URL.Path, "/harb/") {
				return faults.Fail
			}
			return faults.None
		}
		f, err := c.Scan(w.Context())
		if !errors.Is(err, forge.ErrUnavailable) || !strings.Contains(err.Error(), w.repo) {
			w.Errorf("one repository failing: %v", err)
		}
		if got := f.Issue(w.ref(n)).AsOf; !got.Equal(at) {
			w.Errorf("after a failed scan: the issue was confirmed at %v, but AsOf is %v", at, got)
		}
		if r, _ := f.Repo(second); !r.AsOf.Equal(at.Add(time.Minute)) {
			w.Errorf("AsOf of the other repository is %v", r.AsOf)
		}
	})
}

// TestHalfAPage: if the second page of a list breaks off, no change is lost, and the repository does not count as read.
func TestHalfAPage(t *testing.T) {
	onLocal(t, func(w *world) {
		c := w.client()
		w.scan(c)
		for n := range 60 {
			w.file(fmt.Sprintf("issue %d", n+1), "")
		}
		time.Sleep(time.Minute)
		old := w.scan(c)
		before, _ := old.Repo(w.repo)
		for n := range 60 {
			w.label(int64(n+1), "priority")
		}
		w.fault = func(r *http.Request) faults.Fault {
			if r.URL.Query().Get("page") == "2" {
				return faults.Half
			}
			return faults.None
		}
		time.Sleep(time.Minute)
		f, err := c.Scan(w.Context())
		if !errors.Is(err, forge.ErrUnavailable) {
			w.Errorf("half an answer: %v", err)
		}
		if after, _ := f.Repo(w.repo); !after.AsOf.Equal(before.AsOf) {
			w.Errorf("the repository counts as read at %v", after.AsOf)
		}
		w.fault = nil
		time.Sleep(time.Minute)
		for _, i := range w.scan(c).Issues {
			if !i.Has("priority") {
				w.Errorf("%s: the change was lost", i.Ref)
			}
		}
	})
}

// TestFactsDoNotChange: later scans do not modify the facts that a scan returned.
func TestFactsDoNotChange(t *testing.T) {
	onEach(t, func(w *world) {
		n, other := w.file("one", "depends on #2", "backlog"), w.file("other", "", "backlog")
		p, head := w.pull("fix/issue-9", "Work", "")
		w.verdict(w.review, p, head, gitea.ReviewStateRequestChanges)
		c := w.client()
		old := w.scan(c)
		issue, pull := w.show(old, n), w.show(old, p)
		w.label(n, "priority")
		w.assign(n, w.dev)
		w.setState(other, gitea.StateClosed)
		w.verdict(w.review, p, head, gitea.ReviewStateApproved)
		now := w.scan(c)
		if w.show(now, n) == issue || w.show(now, p) == pull {
			w.Error("the later scan does not show the changes")
		}
		if got := w.show(old, n); got != issue {
			w.Errorf("the old facts now say %s", got)
		}
		if got := w.show(old, p); got != pull {
			w.Errorf("the old facts now say %s", got)
		}
	})
}

// TestClockGoesBack: after the forge's clock was set back, new changes have times before the last scan.
func TestClockGoesBack(t *testing.T) {
	onLocal(t, func(w *world) {
		back := time.Duration(0)
		clock := func() time.Time { return time.Now().Add(-back) }
		f, err := localforge.New(localforge.Options{Dir: w.TempDir(), Run: runGit, URL: w.url, Now: clock})
		w.must(err)
		w.Cleanup(f.Close)
		w.local, w.transport = f, dated{inMemory{f}, clock}
		w.must(f.AddUser("root", "root-password", true))
		token, err := f.AddToken("root")
		w.must(err)
		w.begin(token).settle()
		n := w.file("one", "", "backlog")
		c := w.client()
		w.scan(c)
		back = 10 * time.Minute
		w.label(n, "priority")
		time.Sleep(time.Minute)
		w.scan(c)
		if got := w.show(w.scan(c), n); got != `issue open "one" [backlog priority] blockers:` {
			w.Errorf("got %s", got)
		}
	})
}

// dated is a transport whose Date headers come from its own clock.
type dated struct {
	next  http.RoundTripper
	clock func() time.Time
}

func (d dated) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := d.next.RoundTrip(req)
	if err == nil {
		resp.Header.Set("Date", d.clock().UTC().Format(http.TimeFormat))
	}
	return resp, err
}
