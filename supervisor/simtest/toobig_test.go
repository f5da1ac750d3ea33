package simtest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// A reviewer that was not shown a change whole does not let it be merged, even if its program approved it on the forge
// with the agent's own account. The pull request is reviewed and told once. A new head is reviewed like any other, and
// a person's approval merges it.
func TestTooBigToReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		pull := w.Forge.Open(w.Forge.Issue("one"), "dev-qwen")
		w.Exec.Script = func(job agents.Job, n int) Script {
			s := w.Work(job, n)
			if job.Kind == agents.KindReview {
				s.Outcome = agents.Outcome{Result: agents.TooBig, Claimed: true, Reason: "model.bin: binary @ada"}
			}
			return s
		}
		l := w.Start()
		held := func(reviews int) {
			t.Helper()
			time.Sleep(2 * time.Hour)
			p, queue := w.Forge.Pulls()[0], l.Document().Queue
			switch runs := len(w.Exec.RunsOf(agents.KindReview, pull)); {
			case p.Merged || runs != reviews || len(w.Forge.Comments()) != reviews:
				t.Fatalf("got merged %v after %d reviews, with comments %+v, want %d reviews and as many comments", p.Merged, runs,
					w.Forge.Comments(), reviews)
			case len(queue) == 0 || queue[0].Code != threads.TooBigToReview:
				t.Fatalf("got the queue %+v, want %s", queue, threads.TooBigToReview)
			}
		}
		held(1)
		if c := w.Forge.Comments()[0].Body; !strings.Contains(c, "```text\nmodel.bin: binary @ada\n```") {
			t.Errorf("the agent's words are not fenced:\n%s", c)
		}
		w.Forge.Push(pull)
		held(2)
		w.Forge.Review(pull, "ada", forge.Approved)
		time.Sleep(30 * time.Minute)
		if p := w.Forge.Pulls()[0]; !p.Merged {
			t.Errorf("got %+v, want it merged after a person's approval", p)
		}
		l.Stop()
		w.Check()
	})
}
