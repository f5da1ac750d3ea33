package forgejo

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/localforge/faults"
)

func TestLabel(t *testing.T) {
	onEach(t, func(w *world) {
		n := w.file("one", "", "backlog", "priority")
		c := w.client()
		for range 2 {
			w.must(c.Label(w.Context(), w.ref(n), []string{"cancelled", "stolen"}, []string{"priority", "in-progress"}))
			if got := w.state(n); got != "backlog cancelled stolen" {
				w.Errorf("got %s", got)
			}
		}
		if err := c.Label(w.Context(), w.ref(n), nil, []string{"backlog"}); err == nil ||
			w.state(n) != "backlog cancelled stolen" {
			w.Errorf("removing backlog: %v, %s", err, w.state(n))
		}
		if err := c.Label(w.Context(), w.ref(9999), []string{"cancelled"}, nil); !errors.Is(err, forge.ErrNotFound) {
			w.Errorf("a missing issue: %v", err)
		}
		owner, name := owner(w.repo)
		all, _, err := w.as(w.owner).ListRepoLabels(owner, name, gitea.ListLabelsOptions{})
		w.must(err)
		for _, l := range all { // a person creates the label again, with another id
			if l.Name == "needs-human" {
				w.must(c.Label(w.Context(), w.ref(n), []string{"needs-human"}, nil))
				_, err := w.as(w.owner).DeleteLabel(owner, name, l.ID)
				w.must(err)
			}
		}
		w.must(c.Label(w.Context(), w.ref(n), []string{"needs-human"}, nil))
		if got := w.state(n); got != "backlog cancelled needs-human stolen" {
			w.Errorf("after the label itself was deleted: %s", got)
		}
	})
}

// An agent with write access can create labels without end, and put each on every item. Issues with 300 labels were
// missing in all scans, and one with 20,000 could not be labelled.
func TestEndlessLabels(t *testing.T) {
	onLocal(t, func(w *world) {
		n := w.file("one", "", "backlog", "priority")
		owner, name := owner(w.repo)
		var ids []int64
		for i := range mostListed {
			l, _, err := w.as(w.owner).CreateLabel(owner, name,
				gitea.CreateLabelOption{Name: fmt.Sprint("0/", i), Color: "#ffffff", Description: "long"})
			w.must(err)
			ids = append(ids, l.ID)
		}
		_, _, err := w.as(w.owner).AddIssueLabels(owner, name, n, gitea.IssueLabelsOption{Labels: ids})
		w.must(err)
		asks := []string{"zeta"}
		zeta, _, err := w.as(w.owner).CreateLabel(owner, name, gitea.CreateLabelOption{Name: asks[0], Color: "#ffffff"})
		w.must(err)
		_, _, err = w.as(w.owner).AddIssueLabels(owner, name, n, gitea.IssueLabelsOption{Labels: []int64{zeta.ID}})
		w.must(err)
		c := w.client(func(o *Options) { o.Labels = func() []string { return asks } })
		w.must(c.Prepare(w.Context()))
		facts := w.scan(c)
		is := facts.Issue(w.ref(n))
		if is == nil || !is.Has("backlog") || !is.Has("priority") || !is.Has("zeta") {
			w.Fatalf("got %+v, want it with the labels backlog, priority and zeta", is)
		}
		asked := w.requests(c, func() {
			w.must(c.Label(w.Context(), w.ref(n), []string{"blocked", "stolen"}, []string{"priority"}))
		})
		facts = w.scan(c)
		is = facts.Issue(w.ref(n))
		if !is.Has("blocked") || !is.Has("stolen") || is.Has("priority") || asked > 30 {
			w.Errorf("got the labels %q with %d requests, want blocked and stolen with at most 30", is.Labels, asked)
		}
		all, _, err := w.as(w.owner).ListRepoLabels(owner, name, gitea.ListLabelsOptions{ListOptions: gitea.ListOptions{
			Page: 1 + (mostListed+pageSize-1)/pageSize, PageSize: pageSize,
		}})
		w.must(err)
		names := labelNames(all)
		if same := slices.Compact(slices.Sorted(slices.Values(names))); len(same) < len(names) {
			w.Errorf("got labels twice: %q", names)
		}
	})
}

func TestComment(t *testing.T) {
	onEach(t, func(w *world) {
		n := w.file("one", "")
		owner, name := owner(w.repo)
		// Another account's comment with the same mark does not keep us from writing ours.
		_, _, err := w.as(w.human).CreateIssueComment(owner, name, n,
			gitea.CreateIssueCommentOption{Body: "<!-- disinto:blocked-1 -->"})
		w.must(err)
		c := w.client()
		for range 2 {
			w.must(c.Comment(w.Context(), w.ref(n), "blocked-1", "It failed."))
			w.must(c.Comment(w.Context(), w.ref(n), "blocked-11", "It failed again."))
		}
		all, _, err := w.as(w.owner).ListIssueComments(owner, name, n, gitea.ListIssueCommentOptions{})
		w.must(err)
		var texts []string
		for _, one := range all {
			if one.Poster.UserName == w.boss {
				texts = append(texts, one.Body)
			}
		}
		want := []string{"It failed.\n\n<!-- disinto:blocked-1 -->", "It failed again.\n\n<!-- disinto:blocked-11 -->"}
		if strings.Join(texts, "|") != strings.Join(want, "|") {
			w.Errorf("got %q, want %q", texts, want)
		}
		for _, key := range []string{"", "a b", "a-->b", "a--b"} {
			if err := c.Comment(w.Context(), w.ref(n), key, "text"); err == nil {
				w.Errorf("Comment accepted the key %q", key)
			}
		}
	})
}

func TestClose(t *testing.T) {
	onEach(t, func(w *world) {
		n, blocker := w.file("one", ""), w.file("blocker", "")
		w.depends(n, blocker)
		c := w.client()
		if err := c.Close(w.Context(), w.ref(n)); !errors.Is(err, forge.ErrConflict) ||
			!strings.Contains(err.Error(), "dependencies") {
			w.Errorf("with an open blocker: %v", err)
		}
		w.must(c.Close(w.Context(), w.ref(blocker)))
		for range 2 {
			w.must(c.Close(w.Context(), w.ref(n)))
		}
		if got := w.state(n); got != "closed" {
			w.Errorf("got %s", got)
		}
		if err := c.Close(w.Context(), w.ref(9999)); !errors.Is(err, forge.ErrNotFound) {
			w.Errorf("a missing issue: %v", err)
		}
	})
}

func TestMerge(t *testing.T) {
	onEach(t, func(w *world) {
		owner, name := owner(w.repo)
		branches := func() string {
			all, _, err := w.as(w.owner).ListRepoBranches(owner, name, gitea.ListRepoBranchesOptions{})
			w.must(err)
			var names []string
			for _, b := range all {
				names = append(names, b.Name)
			}
			return strings.Join(names, " ")
		}
		c := w.client()
		w.file("one", "", "backlog")
		n, head := w.pull("fix/issue-1", "Work", "Fixes #1")
		topic, topicHead := w.pull("topic", "Other", "")
		if err := c.Merge(w.Context(), w.ref(n), strings.Repeat("1", 40), "main"); !errors.Is(err, forge.ErrConflict) {
			w.Errorf("another head: %v", err)
		}
		if err := c.Merge(w.Context(), w.ref(n), "", "main"); !errors.Is(err, forge.ErrConflict) {
			w.Errorf("no head: %v", err)
		}
		w.mergeBy(c, n, head)
		w.must(c.Merge(w.Context(), w.ref(n), head, "main")) // already merged
		if got := w.state(1); got != "backlog closed" {
			w.Errorf("the issue: %s", got)
		}
		w.mergeBy(c, topic, topicHead)
		if got := branches(); strings.Contains(got, "fix/issue-1") || !strings.Contains(got, "topic") {
			w.Errorf("branches afterwards: %s", got)
		}
		shut, head := w.pull("shut", "No", "")
		w.setState(shut, gitea.StateClosed)
		if err := c.Merge(w.Context(), w.ref(shut), head, "main"); !errors.Is(err, forge.ErrConflict) {
			w.Errorf("closed: %v", err)
		}
		draft, head := w.pull("draft", "WIP: not yet", "")
		if err := c.Merge(w.Context(), w.ref(draft), head, "main"); !errors.Is(err, forge.ErrConflict) ||
			!strings.Contains(err.Error(), "progress") {
			w.Errorf("a draft: %v", err)
		}
		if err := c.Merge(w.Context(), w.ref(9999), head, "main"); !errors.Is(err, forge.ErrNotFound) {
			w.Errorf("missing: %v", err)
		}
	})
}

// The commit of a merge closes no issue but the branch's own, whatever the title and text of the pull request say. A
// squash takes over the text.
func TestMergeMessage(t *testing.T) {
	for style, want := range map[gitea.MergeStyle]string{
		gitea.MergeStyleSquash: "Sibling fixes `#2` (#4)\n\nFixes #1, closes `#3`",
		gitea.MergeStyleMerge:  "Merge pull request 'Sibling fixes `#2`' (#4) from fix/issue-1 into main",
	} {
		t.Run(string(style), func(t *testing.T) {
			onEach(t, func(w *world) {
				owner, name := owner(w.repo)
				for range 3 {
					w.file("one", "", "backlog")
				}
				_, _, err := w.as(w.owner).EditRepo(owner, name, gitea.EditRepoOption{DefaultMergeStyle: &style})
				w.must(err)
				n, head := w.pull("fix/issue-1", "Sibling fixes #2", "Fixes #1, closes #3")
				w.mergeBy(w.client(), n, head)
				main, _, err := w.as(w.owner).GetRepoBranch(owner, name, "main")
				w.must(err)
				in, _, err := w.as(w.owner).GetSingleCommit(owner, name, main.Commit.ID)
				w.must(err)
				if got := strings.TrimSpace(in.RepoCommit.Message); got != want {
					w.Errorf("got the message %q, want %q", got, want)
				}
			})
		})
	}
}

// mergeBy merges with the client; the forge can need a moment after a push.
func (w *world) mergeBy(c *Client, n int64, head string) {
	w.Helper()
	var err error
	for range 10 {
		if err = c.Merge(w.Context(), w.ref(n), head, "main"); !errors.Is(err, forge.ErrConflict) {
			break
		}
		w.nextSecond()
	}
	w.must(err)
}

// TestMergeLostAnswer: the merge succeeded, but its answer was lost.
func TestMergeLostAnswer(t *testing.T) {
	for name, fault := range map[string]faults.Fault{"lost": faults.Lose, "half": faults.Half} {
		t.Run(name, func(t *testing.T) {
			onLocal(t, func(w *world) {
				n, head := w.pull("topic", "Work", "")
				c := w.client()
				w.fault = func(r *http.Request) faults.Fault {
					if strings.HasSuffix(r.URL.Path, "/merge") {
						return fault
					}
					return faults.None
				}
				w.must(c.Merge(w.Context(), w.ref(n), head, "main"))
			})
		})
	}
}

// TestMergeHeadMoves: the head moves between our reading and the merge.
func TestMergeHeadMoves(t *testing.T) {
	onLocal(t, func(w *world) {
		n, head := w.pull("topic", "Work", "")
		c := w.client()
		w.fault = func(r *http.Request) faults.Fault {
			if strings.HasSuffix(r.URL.Path, "/merge") {
				w.fault = nil
				w.commit("topic", "", "topic.txt", "more\n")
			}
			return faults.None
		}
		if err := c.Merge(w.Context(), w.ref(n), head, "main"); !errors.Is(err, forge.ErrConflict) {
			w.Errorf("got %v", err)
		}
		if got := w.state(n); got != "" {
			w.Errorf("afterwards %s", got)
		}
	})
}

func TestLook(t *testing.T) {
	onEach(t, func(w *world) {
		n := w.file("one", "depends on #2", "backlog")
		w.file("blocker", "")
		c := w.client()
		owner, name := owner(w.repo)
		say := func(login string, n int64) int64 {
			in, _, err := w.as(login).CreateIssueComment(owner, name, n, gitea.CreateIssueCommentOption{Body: "hello"})
			w.must(err)
			return in.ID
		}
		old := say(w.dev, n)
		w.scan(c)
		w.nextSecond()
		w.nextSecond()
		begin := time.Now()
		w.nextSecond()
		say(w.dev, n)
		say(w.dev, n)
		say(w.human, n)
		_, _, err := w.as(w.dev).EditIssueComment(owner, name, old, gitea.EditIssueCommentOption{Body: "edited since"})
		w.must(err)
		p, head := w.pull("fix/issue-1", "Work", "")
		other, _ := w.pull("topic", "Other", "")
		w.verdict(w.review, p, head, gitea.ReviewStateApproved)

		look, err := c.FetchItem(w.Context(), w.ref(n), begin)
		w.must(err)
		if look.Pull != nil || look.Issue == nil || len(look.Pulls) != 1 || look.Pulls[0].Number != p {
			w.Fatalf("got %+v", look)
		}
		if len(look.Comments) != 2 || look.Comments[w.dev] != 2 || look.Comments[w.human] != 1 {
			w.Errorf("comments: %v", look.Comments)
		}
		if got := w.short(showIssue(look.Issue)); !strings.HasPrefix(got, `issue open "one" [backlog]`) {
			w.Errorf("issue: %s", got)
		}
		if got := w.short(showPull(&look.Pulls[0])); got != `pull open dev fix/issue-1->main for #1 clean ci none approved `+
			`by review` {
			w.Errorf("pull request: %s", got)
		}
		// The cache contains what a look read, although no scan has seen it.
		if got := w.show(c.facts(false),
			p); got != `pull open dev fix/issue-1->main for #1 clean ci none approved by review` {
			w.Errorf("facts: %s", got)
		}
		next := w.commit("fix/issue-1", "", "more.txt", "more\n")
		look, err = c.FetchItem(w.Context(), w.ref(p), begin)
		w.must(err)
		if look.Issue != nil || look.Pull == nil || look.Pull.HeadSHA != next || look.Pull.AsOf.Before(begin) {
			w.Errorf("after a push: %+v", look.Pull)
		}
		if look, err = c.FetchItem(w.Context(), w.ref(other), begin); err != nil || len(look.Pull.Closes) != 0 {
			w.Errorf("another pull request: %+v, %v", look.Pull, err)
		}
		w.setState(n, gitea.StateClosed)
		look, err = c.FetchItem(w.Context(), w.ref(n), begin)
		w.must(err)
		if look.Issue == nil || !look.Issue.Closed {
			w.Errorf("closed: %+v", look.Issue)
		}
		if _, err := c.FetchItem(w.Context(), w.ref(9999), begin); !errors.Is(err, forge.ErrNotFound) {
			w.Errorf("missing: %v", err)
		}
	})
}

// TestLookDoesNotGoBack: a scan that began before a look does not undo what the look read.
func TestLookDoesNotGoBack(t *testing.T) {
	onLocal(t, func(w *world) {
		p, _ := w.pull("topic", "Work", "")
		n := w.file("one", "", "backlog")
		c := w.client()
		w.scan(c)
		w.nextSecond()
		w.label(n, "priority")
		var listed chan struct{}
		w.transport = holding{w.transport, func(r *http.Request) { // called between the forge's answer and its arrival
			if r.URL.Query().Has("since") && listed == nil {
				listed = make(chan struct{})
				w.nextSecond()
				w.unlabel(n, "priority")
				w.label(p, "priority")
				for _, ref := range []forge.Ref{w.ref(n), w.ref(p)} {
					_, err := c.FetchItem(w.Context(), ref, time.Now())
					w.must(err)
				}
			}
		}}
		c.through(w.transport)
		f := w.scan(c)
		if listed == nil {
			w.Fatal("the scan requested no list")
		}
		if got := w.show(f, n); got != `issue open "one" [backlog] blockers:` && got != `issue open "one" [backlog]` {
			w.Errorf("issue: %s", got)
		}
		if got := w.show(f, p); !strings.HasPrefix(got, `pull open dev topic->main [priority]`) {
			w.Errorf("pull request: %s", got)
		}
	})
}

// TestLookOvertaken: while a look reads a new pull request, a scan lists it. The list is newer but lacks the branches,
// so the look's answer is dropped and must be read again. In a young repository no base is known either.
func TestLookOvertaken(t *testing.T) {
	onLocal(t, func(w *world) {
		n := w.file("one", "", "backlog")
		c := w.client()
		w.scan(c)
		p, _ := w.pull("fix/issue-1", "Work", "")
		path, overtaken := fmt.Sprintf("/pulls/%d", p), 0
		c.through(holding{w.transport, func(r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, path) || overtaken == 2 {
				return
			}
			overtaken++
			w.nextSecond()
			owner, name := owner(w.repo)
			in, _, err := w.as(w.dev).GetIssue(owner, name, p)
			w.must(err)
			c.mu.Lock()
			c.applyListed(c.repos[0], in, time.Now())
			c.mu.Unlock()
		}})
		look, err := c.FetchItem(w.Context(), w.ref(n), time.Now())
		w.must(err)
		if overtaken != 2 {
			w.Fatalf("the look was overtaken %d times, want 2", overtaken)
		}
		if len(look.Pulls) != 1 {
			w.Fatalf("got %+v", look.Pulls)
		}
		if got := w.short(showPull(&look.Pulls[0])); got != `pull open dev fix/issue-1->main for #1 clean ci none` {
			w.Errorf("got %s", got)
		}
	})
}

// holding calls a function between the forge's answer and its arrival.
type holding struct {
	next   http.RoundTripper
	answer func(*http.Request)
}

func (h holding) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := h.next.RoundTrip(req)
	h.answer(req)
	return resp, err
}
