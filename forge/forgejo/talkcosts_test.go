package forgejo

import (
	"fmt"
	"testing"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// Waiting for people costs few requests. While nothing changes, a question costs one request for writers and one for
// comments every five minutes, and a plan one more every ten seconds.
func TestTalkCosts(t *testing.T) {
	onLocal(t, func(w *world) {
		c := w.client()
		w.must(c.Prepare(w.Context()))
		asked := w.file("asks", "", forge.LabelNeedsAnswer)
		planned := w.file("plans", "", forge.LabelPlanFirst)
		ref := func(n int64) forge.Ref { return forge.Ref{Repo: w.repo, Number: n} }
		w.must(c.Comment(w.Context(), ref(asked), "question-1", "which?"))
		w.must(c.Comment(w.Context(), ref(planned), "plan-1", "first"))
		w.nextSecond()
		w.scan(c)
		time.Sleep(time.Minute)
		w.scan(c) // items that changed in the second of their reading are read once more

		scans := func(n int, pause time.Duration) (requests int64) {
			for range n {
				requests += w.requests(c, func() { w.scan(c) })
				time.Sleep(pause)
			}
			return requests
		}
		const reactions = "GET /repos/{owner}/{repo}/issues/comments/{id}/reactions"
		before := w.local.Requests()[reactions]
		scans(20, time.Second)
		if n := w.local.Requests()[reactions] - before; n < 1 || n > 3 {
			t.Errorf("the scans made %d requests for reactions in 20 s, want 1 to 3", n)
		}
		comments := "GET /repos/{owner}/{repo}/issues/{number}/comments"
		before = w.local.Requests()[comments]
		if n := scans(20, time.Second); n > 20+5 {
			t.Errorf("20 scans of an unchanged forge made %d requests", n)
		}
		if n := w.local.Requests()[comments] - before; n > 2 {
			t.Errorf("the scans made %d requests for comments in 20 s, want at most 2", n)
		}
	})
}

// A thousand comments of a stranger (150 in make test) neither hide the answer nor use memory.
func TestTalkOfStrangers(t *testing.T) {
	onLocal(t, func(w *world) {
		c := w.client()
		w.must(c.Prepare(w.Context()))
		n := w.file("asks", "", forge.LabelNeedsAnswer)
		ref := forge.Ref{Repo: w.repo, Number: n}
		w.must(c.Comment(w.Context(), ref, "question-1", "which?"))
		owner, name := owner(w.repo)
		say := func(login, body string) {
			_, _, err := w.as(login).CreateIssueComment(owner, name, n, gitea.CreateIssueCommentOption{Body: body})
			w.must(err)
		}
		for i := range sized(1000, 150) {
			say(w.human, fmt.Sprintf("%d <!-- disinto:question-1 -->", i))
		}
		say(w.owner, "that one")
		w.nextSecond()
		facts := w.scan(c)
		got := facts.Issue(ref).Talk
		if !got.Known || len(got.Remarks) != 2 || got.Remarks[0].Key != "question-1" || got.Remarks[1].Author != w.owner {
			t.Errorf("the talk has Known %v and %d remarks, want true, the question and the answer", got.Known, len(got.Remarks))
		}
	})
}
