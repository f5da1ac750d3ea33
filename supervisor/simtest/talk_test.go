package simtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// speaks is a session that ends with a question or a plan.
func speaks(result agents.Result, words string) Script {
	return Script{Takes: time.Minute, Outcome: agents.Outcome{
		Result: result, Claimed: true, Reason: strings.Join(strings.Fields(words), " "), Words: words,
	}}
}

// labelled reports whether an issue carries a label.
func (w *World) labelled(issue int64, label string) bool {
	is := w.Forge.Get(issue)
	return is.Has(label)
}

// asksFirst makes sessions on an issue ask until they get an answer. All other sessions work.
func asksFirst(w *World, issue int64) {
	w.Exec.Script = func(job agents.Job, n int) Script {
		if job.Kind == agents.KindIssue && job.Number == issue && variable(job, "DISINTO_COMMENTS") == "" {
			return speaks(agents.Question, "Which one?\n\n- `a`\n- @b fixes #1 <!-- disinto:x -->")
		}
		return w.Work(job, n)
	}
}

// An agent asks a question. The issue's author is notified within seconds, the slot takes other work at once, and the
// answer starts the same agent, with the comments, in its first attempt.
func TestQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		issue := w.Forge.Issue("unclear")
		asksFirst(w, issue)
		told := &toldPeople{needy: map[string]time.Time{}}
		l := w.Start(func(l *Life) { l.Notify = told })
		w.Until(time.Hour, "it is asked", func() bool { return w.labelled(issue, forge.LabelNeedsAnswer) })
		time.Sleep(5 * time.Second)
		asked := w.Exec.RunsOf(agents.KindIssue, issue)[0]
		told.mu.Lock()
		heard := told.needy[fmt.Sprintf("%s#%d", Repo, issue)]
		told.mu.Unlock()
		if heard.IsZero() || heard.Sub(asked.End) > 5*time.Second {
			t.Errorf("the session ended at %v, and people were notified at %v, want within 5s", asked.End, heard)
		}
		comments := w.Forge.Comments()
		want := "@johba, " + asked.Job.Agent +
			" asks:\n\n```text\nWhich one?\n\n- `a`\n- @b fixes #1 <! -- disinto:x -->\n```\n\n" +
			"Please answer in a comment below; the agent then continues its work. Those who may write to this repository " +
			"can answer. To have it continue without an answer, remove the label `needs-answer`."
		if len(comments) != 1 || comments[0].Body != want {
			t.Errorf("got comments %+v, want %s", comments, want)
		}
		if claims := w.Forge.Claimed(); len(claims) > 0 {
			t.Errorf("claims left: %v", claims)
		}

		// Hours without an answer change nothing, and other work is done.
		other := w.Forge.Issue("clear")
		w.Until(time.Hour, "other work is done", func() bool { return w.Forge.Get(other).Closed })
		time.Sleep(Size(3*time.Hour, 70*time.Minute))
		if n := len(w.Exec.RunsOf(agents.KindIssue, issue)); n != 1 || len(w.Forge.Comments()) != 1 {
			t.Errorf("got %d sessions and %d comments after hours, want one of each", n, len(w.Forge.Comments()))
		}
		why := ""
		for _, q := range l.Document().Queue {
			why += q.Why
		}
		if !strings.Contains(why, asked.Job.Agent+" asked @johba at ") || !strings.Contains(why, "no answer: Which one?") {
			t.Errorf("got reason %q, want the agent, @johba and the question", why)
		}

		w.Forge.Answer(issue, "stranger")
		w.Forge.Answer(issue, "dev-elsewhere")
		time.Sleep(4 * time.Minute)
		if n := len(w.Exec.RunsOf(agents.KindIssue, issue)); n != 1 {
			t.Errorf("got %d sessions after comments that are not answers, want 1", n)
		}
		id := w.Forge.Answer(issue, "ada")
		w.Until(time.Hour, "it is merged", func() bool { return w.Forge.Get(issue).Closed })
		l.Stop()
		w.Check()
		runs := w.Exec.RunsOf(agents.KindIssue, issue)
		if len(runs) != 2 || runs[1].Job.Agent != asked.Job.Agent || variable(runs[1].Job, "DISINTO_ATTEMPT") != "1" {
			t.Fatalf("got sessions %+v, want 2 by the same agent at attempt 1", runs)
		}
		question := w.Forge.Remarks(issue)[0].ID
		if got, want := variable(runs[1].Job, "DISINTO_COMMENTS"), fmt.Sprintf("%d,%d", question, id); got != want {
			t.Errorf("got comments %s, want %s", got, want)
		}
	})
}

// A kill before or after any call loses neither question nor answer: one comment, one label, one answered session.
func TestQuestionKilledAnywhere(t *testing.T) {
	for i, at := range []struct {
		call string
		n    int
	}{{"comment", 1}, {"label", 1}, {"label", 2}, {"release", 1}, {"scan", 9}, {"scan", 10}, {"scan", 11}, {"claim", 2}} {
		for _, after := range []bool{false, true} {
			other := at.call == "scan" && at.n != 10 || at.call == "label" || at.call == "release"
			if !Storms() && (after != (i%2 == 0) || other) {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d/after=%v", at.call, at.n, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { questionKilledAt(t, at.call, at.n, after) })
			})
		}
	}
}

func questionKilledAt(t *testing.T, call string, n int, after bool) {
	w := New(t)
	Size(w.Usual, w.Minutely)()
	issue := w.Forge.Issue("unclear")
	asksFirst(w, issue)
	l := w.Start(KillAt(call, n, after))
	answered := false
	again := func() {
		l.Bury()
		l = w.Start()
	}
	for range 3600 {
		time.Sleep(time.Second)
		select {
		case <-l.Killed:
			again()
		default:
		}
		if !answered && len(w.Forge.Remarks(issue)) == 1 { // possibly before the label is written
			w.Forge.Answer(issue, "ada")
			answered = true
		}
		if w.Forge.Get(issue).Closed {
			break
		}
	}
	l.Stop()
	w.Check()
	if !w.Forge.Get(issue).Closed || !answered {
		t.Fatalf("not merged; answered = %v\n%s", answered, w.Log.String())
	}
	if comments := w.Forge.Comments(); len(comments) != 1 {
		t.Errorf("got comments %+v, want 1", comments)
	}
	runs := w.Exec.RunsOf(agents.KindIssue, issue)
	if last := runs[len(runs)-1]; variable(last.Job, "DISINTO_COMMENTS") == "" {
		t.Errorf("the last of %d sessions does not get the answer\n%s", len(runs), w.Log.String())
	}
	if is := w.Forge.Get(issue); is.Has(forge.LabelNeedsAnswer) {
		t.Errorf("got labels %v, want no needs-answer", is.Labels)
	}
}

// People may remove the label, delete the question or retry. An agent that asks for ever is stopped.
func TestQuestionWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		issue := w.Forge.Issue("unclear")
		w.Exec.Script = func(agents.Job, int) Script { return speaks(agents.Question, "Which one?") }
		l := w.Start()
		asked := func(n int) func() bool {
			return func() bool {
				return w.labelled(issue, forge.LabelNeedsAnswer) && len(w.Forge.Comments()) == n
			}
		}
		w.Until(time.Hour, "it is asked", asked(1))
		question := w.Forge.Remarks(issue)[0].ID
		time.Sleep(time.Minute)
		w.Forge.Unsaid(issue, question)
		w.Forge.Answer(issue, "stranger")
		w.Until(time.Hour, "it is asked again", asked(1))
		if n := len(w.Exec.RunsOf(agents.KindIssue, issue)); n != 1 {
			t.Errorf("got %d sessions before an answer, want 1", n)
		}
		for n := 2; n <= threads.MaxQuestions; n++ {
			w.Forge.Edit(issue, func(is *forge.Issue) {
				is.Labels = slices.DeleteFunc(is.Labels, func(l string) bool { return l == forge.LabelNeedsAnswer })
			})
			w.Until(time.Hour, fmt.Sprint("question ", n), asked(n))
		}
		w.Forge.Answer(issue, "ada")
		w.Until(time.Hour, "a person is asked", func() bool { return w.labelled(issue, forge.LabelNeedsHuman) })
		last := w.Forge.Comments()[threads.MaxQuestions]
		if !strings.Contains(last.Body, "it has asked 3 questions, and asks: Which one?") {
			t.Errorf("got comment %s, want the count and the question", last.Body)
		}
		l.Stop()
		w.Check()
	})
}

// A role plans first: the label, the plan, a comment that sends it back, a thumbs-up, and code by the same agent.
func TestPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		for i := range w.Config.Roles {
			w.Config.Roles[i].Plan = w.Config.Roles[i].On == agents.OnIssue
		}
		issue := w.Forge.Issue("large")
		w.Exec.Script = func(job agents.Job, n int) Script {
			if variable(job, "DISINTO_CAUSE") == "plan" {
				return speaks(agents.Planned, fmt.Sprintf("Plan %d", n))
			}
			return w.Work(job, n)
		}
		l := w.Start()
		plans := func(n int) func() bool { return func() bool { return len(w.Forge.Comments()) == n } }
		w.Until(time.Hour, "a plan", plans(1))
		if body := w.Forge.Comments()[0].Body; !strings.HasPrefix(body, "@johba, dev-") || !strings.Contains(body, "Plan 1") {
			t.Errorf("got plan %s, want a mention and Plan 1", body)
		}
		w.Forge.Like(issue, "dev-elsewhere")
		w.Forge.Like(issue, "dev-qwen")
		w.Forge.Answer(issue, "stranger")
		time.Sleep(time.Hour)
		if n := len(w.Exec.RunsOf(agents.KindIssue, issue)); n != 1 {
			t.Errorf("got %d sessions while the plan waits, want 1", n)
		}
		words := w.Forge.Answer(issue, "ada")
		w.Until(time.Hour, "another plan", plans(2))
		w.Forge.Like(issue, "ada")
		w.Until(time.Hour, "it is merged", func() bool { return w.Forge.Get(issue).Closed })
		l.Stop()
		w.Check()
		if is := w.Forge.Get(issue); !is.Has(forge.LabelPlanFirst) || !is.Has(forge.LabelPlanApproved) {
			t.Errorf("got labels %v, want plan-first and plan-approved", is.Labels)
		}
		runs := w.Exec.RunsOf(agents.KindIssue, issue)
		if len(runs) != 3 {
			t.Fatalf("got %d sessions, want 3", len(runs))
		}
		first := w.Forge.Remarks(issue)
		about := fmt.Sprintf("%d,%d", first[0].ID, words)
		for i, want := range []string{"plan/", "plan/" + about, "/" + fmt.Sprint(first[len(first)-1].ID)} {
			got := variable(runs[i].Job, "DISINTO_CAUSE") + "/" + variable(runs[i].Job, "DISINTO_COMMENTS")
			if got != want || runs[i].Job.Agent != runs[0].Job.Agent {
				t.Errorf("session %d by %s: got cause and comments %s, want %s", i, runs[i].Job.Agent, got, want)
			}
		}
	})
}

// A session that must plan, but opens a pull request, has not planned. Its pull request waits.
func TestCodeInsteadOfPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		issue := w.Forge.Issue("large")
		w.Forge.Edit(issue, func(is *forge.Issue) { is.Labels = with(is.Labels, forge.LabelPlanFirst) })
		l := w.Start()
		w.Until(time.Hour, "it has ended", func() bool { return len(l.Document().Recent) == 1 })
		time.Sleep(time.Hour)
		if r := l.Document().Recent[0]; r.Outcome != agents.NoProgress || r.Reason != "ended without a plan" {
			t.Errorf("got outcome %s: %s, want no-progress: ended without a plan", r.Outcome, r.Reason)
		}
		if p := w.Forge.Pulls(); len(p) != 1 || len(p[0].Reviews) != 0 || p[0].Merged {
			t.Errorf("got pull requests %+v, want one without a review", p)
		}
		w.Forge.Approve(issue, "dev-qwen")
		time.Sleep(time.Hour)
		if p := w.Forge.Pulls()[0]; len(p.Reviews) != 0 {
			t.Error("an agent's label approved the plan")
		}
		w.Forge.Approve(issue, "ada")
		w.Until(time.Hour, "it is merged", func() bool { return w.Forge.Get(issue).Closed })
		l.Stop()
	})
}
