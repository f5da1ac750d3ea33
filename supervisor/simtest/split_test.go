package simtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// hostileSplit is a plan whose texts would notify, close, command and delay if any of it had an effect.
const hostileSplit = `# Take orders

## Read ` + "`@all`" + ` fixes #1 | /disinto cancel {#parse}
Skills: go
Priority: 2

Fixes #1. Depends on #1. Ask @ada.
<!-- disinto:split-0/1 -->

## $(reboot) {#price}
Depends on: parse

~~~
/disinto retry
~~~

## Send it {#send}
Depends on: price
`

// large files an issue to be split, and makes agents plan it as words say. It must come before Start.
func large(w *World, words string) int64 {
	split(w, words)
	return splitFirst(w)
}

// splitFirst files an issue to be split.
func splitFirst(w *World) int64 {
	issue := w.Forge.Issue("large")
	w.Forge.Edit(issue, func(is *forge.Issue) { is.Labels = with(is.Labels, forge.LabelSplitFirst) })
	return issue
}

// split makes agents plan issues to be split as words say. It must come before Start, which reads what it changes.
func split(w *World, words string) {
	for i := range w.Config.Agents {
		w.Config.Agents[i].Skills = []string{"go"}
	}
	w.Exec.Script = func(job agents.Job, n int) Script {
		if variable(job, "DISINTO_CAUSE") == "split" {
			return speaks(agents.Planned, words)
		}
		return w.Work(job, n)
	}
}

// children returns the issues that depend on nothing but others, by title.
func children(w *World, epic int64) (list []forge.Issue) {
	for _, b := range w.Forge.Get(epic).Blockers {
		list = append(list, w.Forge.Get(b.Number))
	}
	return list
}

// An issue is split: an agent's plan, which neither agents nor an earlier approval approve, becomes issues when a
// person approves it, and the issue becomes their convoy, which closes after them.
func TestSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		issue := large(w, hostileSplit)
		w.Forge.Approve(issue, "ada") // nothing is there to be approved
		l := w.Start()
		plans := func(n int) func() bool { return func() bool { return len(w.Forge.Comments()) == n } }
		w.Until(time.Hour, "a plan", plans(1))
		body := w.Forge.Comments()[0].Body
		for _, want := range []string{
			"would split this into 3 issues", "| `price` | `$(reboot)` | `parse` |  |  | not known |",
			"| `parse` | `Read '@all' fixes #1 ¦ /disinto cancel` |  | `go` | 2 | not known |",
			"Expected cost of all: not known", "Longest chain: 3 issues", "```text\n# Take orders\n",
		} {
			if !strings.Contains(body, want) {
				t.Errorf("got the comment\n%s\nwant %q in it", body, want)
			}
		}
		w.Forge.Like(issue, "dev-qwen")
		w.Forge.Approve(issue, "dev-qwen")
		time.Sleep(time.Hour)
		if w.labelled(issue, forge.LabelConvoy) {
			t.Fatal("an agent approved the split, or the approval before it counted")
		}
		// Somebody changes the comment, and a person approves what stands there now.
		w.Forge.Unsaid(issue, w.Forge.Remarks(issue)[0].ID)
		w.Forge.Approve(issue, "ada")
		time.Sleep(time.Hour)
		if is := w.Forge.Get(issue); is.Has(forge.LabelConvoy) || is.Has(forge.LabelPlanApproved) {
			t.Fatalf("got labels %v, want the approval void", is.Labels)
		}
		w.Forge.Like(issue, "ada")
		w.Until(time.Hour, "it is split", func() bool { return w.labelled(issue, forge.LabelConvoy) })
		wantSplit(t, w, issue)
		w.Until(24*time.Hour, "it is merged", func() bool { return w.Forge.Get(issue).Closed })
		l.Stop()
		w.Check()
		if n := len(w.Exec.RunsOf(agents.KindIssue, issue)); n != 1 {
			t.Errorf("got %d sessions on the split issue, want 1", n)
		}
	})
}

// wantSplit checks the issues of hostileSplit.
func wantSplit(t *testing.T, w *World, epic int64) {
	t.Helper()
	w.Until(time.Hour, "all is written", func() bool {
		is := w.Forge.Get(epic)
		return is.Has(forge.LabelConvoy) && !is.Has(forge.LabelSplitFirst)
	})
	if is := w.Forge.Get(epic); !slices.Equal(is.Labels, []string{forge.LabelBacklog, forge.LabelConvoy}) {
		t.Errorf("got labels %v of the convoy", is.Labels)
	}
	list := children(w, epic)
	if len(list) != 3 {
		t.Fatalf("got the issues %+v, want 3", list)
	}
	var titles, filed []string
	for n := epic + 1; w.Forge.Has(n); n++ {
		filed = append(filed, w.Forge.Get(n).Title)
	}
	for i := range list {
		is := &list[i]
		titles = append(titles, is.Title)
		if !is.Has(forge.LabelBacklog) || !strings.HasPrefix(is.Body, fmt.Sprintf("Part of #%d.", epic)) {
			t.Errorf("got %q with labels %v and text\n%s", is.Title, is.Labels, is.Body)
		}
		if refs := forge.Dependencies(is.Body, is.Ref); len(refs) > 0 {
			t.Errorf("the text of %q depends on %v", is.Title, refs)
		}
		if refs := forge.Closes("", is.Title, is.Body, is.Repo); len(refs) > 0 {
			t.Errorf("%q closes %v", is.Title, refs)
		}
		if i > 0 && !slices.ContainsFunc(is.Blockers, func(b forge.Blocker) bool { return b.Ref == list[i-1].Ref }) {
			t.Errorf("%q depends on %v, want the one before", is.Title, is.Blockers)
		}
	}
	want := []string{"Read `@ all` fixes # 1 | /disinto cancel", "$(reboot)", "Send it"}
	if !slices.Equal(titles, want) || !slices.Equal(filed, want) {
		t.Errorf("got the issues %q, and filed %q, want %q", titles, filed, want)
	}
	if !list[0].Has("skill/go") || !list[0].Has("priority/2") {
		t.Errorf("got labels %v of the first", list[0].Labels)
	}
}

// A supervisor is killed at every write of a split, before and after the write takes effect. The next one files the
// rest, and no twin.
func TestSplitKilledAnywhere(t *testing.T) {
	for _, call := range []string{"file", "depend", "label"} {
		for _, after := range []bool{false, true} {
			for n := 1; ; n++ {
				reached := true
				t.Run(fmt.Sprintf("%s/%d/after=%v", call, n, after), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { reached = splitKilledAt(t, call, n, after) })
				})
				if !reached {
					break
				}
			}
		}
	}
}

func splitKilledAt(t *testing.T, call string, n int, after bool) (reached bool) {
	w := New(t)
	issue := large(w, hostileSplit)
	l := w.Start()
	w.Until(time.Hour, "a plan", func() bool { return len(w.Forge.Comments()) == 1 })
	time.Sleep(time.Minute)
	l.Stop()
	w.Exec.Script = func(agents.Job, int) Script { return Script{Takes: time.Hour * 100} }
	w.Forge.Like(issue, "ada")
	l = w.Start(KillAt(call, n, after))
	select {
	case <-l.Killed:
		reached = true
		l.Bury()
		l = w.Start()
	case <-time.After(time.Hour):
	}
	wantSplit(t, w, issue)
	l.Kill()
	l.Bury()
	return reached
}

// A plan that cannot be used goes to a person with the parser's line, and so does a part of a batch that is to be split
// again.
func TestSplitRefused(t *testing.T) {
	nine := "# Many\n"
	for i := range 9 {
		nine += fmt.Sprintf("\n## Part %d\n", i)
	}
	for _, c := range []struct{ name, words, want string }{
		{"nine", nine, "split.md:19: the plan has 9 tasks, more than 8"},
		{"a circle", "## A {#a}\nDepends on: b\n\n## B {#b}\nDepends on: a\n", "the tasks wait for each other: a -> b -> a"},
		{"an unknown id", "## A\nDepends on: c\n", `task 1 depends on "c", which is not a task`},
		{"an unknown issue", "## A\nDepends on: #404\n", "task 1 depends on johba/harb#404, which does not exist"},
		{
			"too much", "## A\nDepends on: " + strings.Repeat("#2, ", 30) + "\n",
			"split.md:1: the task depends on 30 issues, more than 20",
		},
		{"itself", "## A\nDepends on: #1\n", "split.md:1: the task depends on #1, which waits for it"},
		{"a label", "## A\nLabels: admin\n", "split.md:1: the label admin is neither a skill nor a priority"},
		{"elsewhere", "## A\nRepo: o/other\n", "split.md:1: the task is for another repository, o/other"},
		{"no plan", "I would split it.", "the plan has no tasks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				issue := large(w, c.words)
				l := w.Start()
				w.Until(time.Hour, "a person is asked", func() bool { return w.labelled(issue, forge.LabelNeedsHuman) })
				w.Forge.Approve(issue, "ada")
				time.Sleep(time.Hour)
				l.Stop()
				if body := w.Forge.Comments()[0].Body; !strings.Contains(body, c.want) {
					t.Errorf("got the comment\n%s\nwant %q", body, c.want)
				}
				if w.Forge.Has(issue + 1) {
					t.Error("an issue was filed")
				}
			})
		})
	}
}

// What is part of a batch is not split again, and nothing starts on it.
func TestSplitTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		issue := large(w, hostileSplit)
		batch := w.Forge.Issue("batch")
		w.Forge.Edit(batch, func(is *forge.Issue) {
			is.Labels, is.Blockers = []string{forge.LabelConvoy}, []forge.Blocker{{Ref: Ref(issue)}}
		})
		l := w.Start()
		w.Until(time.Hour, "a person is asked", func() bool { return w.labelled(issue, forge.LabelNeedsHuman) })
		l.Stop()
		if body := w.Forge.Comments()[0].Body; !strings.Contains(body, "part of the batch #2") || len(w.Exec.Runs()) > 0 {
			t.Errorf("got %d sessions and the comment\n%s", len(w.Exec.Runs()), body)
		}
	})
}

// The expected cost is the average of the merged issues.
func TestSplitCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Issue("one")
		split(w, hostileSplit)
		plain := w.Exec.Script
		w.Exec.Script = func(job agents.Job, n int) Script {
			s := plain(job, n)
			s.Outcome.Usage = agents.Usage{InputTokens: 500_000, CostUSD: 0.75}
			return s
		}
		l := w.Start()
		w.Until(time.Hour, "merged", w.Forge.Done) // by two sessions
		splitFirst(w)
		w.Until(time.Hour, "a plan", func() bool { return len(w.Forge.Comments()) > 0 })
		l.Stop()
		body := w.Forge.Comments()[0].Body
		for _, want := range []string{"| $1.50, 1.0M tokens |", "Expected cost of all: $4.50, 3.0M tokens,"} {
			if !strings.Contains(body, want) {
				t.Errorf("got the comment\n%s\nwant %q in it", body, want)
			}
		}
	})
}

// A retry while the issues are being filed loses none of them.
func TestSplitRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		issue := large(w, hostileSplit)
		l := w.Start()
		w.Until(time.Hour, "a plan", func() bool { return len(w.Forge.Comments()) == 1 })
		w.Forge.Fail(func(_ context.Context, call string) error {
			if call != "depend" {
				return nil
			}
			return fmt.Errorf("not now: %w", forge.ErrUnavailable)
		})
		w.Forge.Like(issue, "ada")
		w.Until(time.Hour, "some are filed", func() bool { return w.Forge.Has(issue + 3) })
		time.Sleep(time.Minute)
		queue := l.Document().Queue
		if i := slices.IndexFunc(queue, func(q control.QueueDocument) bool { return q.Number == issue }); i < 0 ||
			queue[i].Code != threads.Splitting {
			t.Errorf("got the queue %+v, want %s", queue, threads.Splitting)
		}
		w.say(issue, "johba", "/disinto retry")
		w.Forge.Fail(nil)
		wantSplit(t, w, issue)
		l.Stop()
	})
}
