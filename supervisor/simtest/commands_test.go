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
)

// answers returns the answers to a command.
func (w *World) answers(id int64) (all []string) {
	for _, c := range w.Forge.Comments() {
		if c.Key == fmt.Sprintf("command-%d", id) {
			all = append(all, c.Body)
		}
	}
	return all
}

// say writes a command and returns its answer.
func (w *World) say(n int64, login, command string) string {
	w.T.Helper()
	id := w.Forge.Command(n, login, command)
	w.Until(4*time.Minute, "an answer to "+command, func() bool { return len(w.answers(id)) > 0 })
	return w.answers(id)[0]
}

// idle makes each session take an hour, so that no issue changes by itself during the commands.
func idle(w *World) {
	w.Config.Agents = slices.Clone(w.Config.Agents)
	w.Exec.Script = func(agents.Job, int) Script { return Script{Takes: time.Hour} }
}

// Each command in a comment does the same as the command of that name, and is answered below the comment.
func TestCommandsInComments(t *testing.T) {
	blocked := func(w *World, n int64) {
		w.Forge.Edit(n, func(is *forge.Issue) { is.Labels = []string{"backlog", "blocked"} })
	}
	tests := []struct {
		name, command string
		before        func(*World, int64)
		want          []string // parts of the answer
		labels        string   // of the issue afterwards
		assignees     string
	}{
		{"retry", "/disinto retry", blocked, []string{"/disinto retry, by johba\n", "label blocked removed"}, "", ""},
		{"cancel", "/disinto cancel", blocked, []string{"labelled cancelled"}, "backlog blocked cancelled", ""},
		{"release", "/disinto release", blocked, []string{"no claim of ours is on it"}, "backlog blocked", ""},
		{"why", "/disinto why", blocked, []string{"johba/harb#1: waits: ", "blocked"}, "backlog blocked", ""},
		{
			"sling", "/disinto start", func(w *World, n int64) { w.Forge.Edit(n, func(is *forge.Issue) { is.Labels = nil }) },
			[]string{"is on it: johba/harb#1, slot llama"},
			"backlog in-progress", "",
		},
		{
			"assign", "/disinto assign dev-qwen",
			func(w *World, n int64) { w.Forge.Edit(n, func(is *forge.Issue) { is.Labels = nil }) },
			[]string{"assigned to dev-qwen\n", "dev-qwen is on it"},
			"backlog in-progress", "dev-qwen",
		},
		{
			"assign to no agent", "/disinto assign dev-nobody", blocked,
			[]string{"has no agent of that name"},
			"backlog blocked", "",
		},
		{
			"assign what cannot be", "/disinto assign dev-qwen", blocked,
			[]string{"cannot assign johba/harb#1: it is labelled blocked"},
			"backlog blocked", "",
		},
		{
			"pause an agent", "/disinto pause dev-qwen", blocked,
			[]string{"dev-qwen: paused; until disinto resume"},
			"backlog blocked", "",
		},
		{"pause all", "/disinto pause", blocked, []string{"everything: paused"}, "backlog blocked", ""},
		{"no verb", "/disinto", blocked, []string{verbHelp}, "backlog blocked", ""},
		{"another verb", "/disinto rm -rf", blocked, []string{verbHelp}, "backlog blocked", ""},
		{"nearly a verb", "/disinto retyr", blocked, []string{verbHelp + ", did you mean retry?"}, "backlog blocked", ""},
		{"another agent's mention", "/disinto @everyone", blocked, []string{verbHelp}, "backlog blocked", ""},
		{"too few words", "/disinto assign", blocked, []string{verbHelp}, "backlog blocked", ""},
		{"too many words", "/disinto cancel #2 #3", blocked, []string{verbHelp}, "backlog blocked", ""},
		{
			"two", "/disinto why\n/disinto cancel", blocked,
			[]string{"waits: ", "only the first command of a comment"},
			"backlog blocked", "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				idle(w)
				n := w.Forge.Issue("one")
				tt.before(w, n)
				l := w.Start()
				time.Sleep(time.Minute)
				got := w.say(n, "johba", tt.command)
				for _, want := range tt.want {
					if !strings.Contains(got, want) {
						t.Errorf("the answer lacks %q:\n%s", want, got)
					}
				}
				if !strings.HasPrefix(got, "```text\n") || !strings.HasSuffix(got, "\n```") || strings.Contains(got, "everyone") {
					t.Errorf("the answer is not fenced:\n%s", got)
				}
				is := w.Forge.Get(n)
				if labels := strings.Join(is.Labels, " "); tt.labels != "" && labels != tt.labels {
					t.Errorf("got labels %s, want %s", labels, tt.labels)
				}
				if tt.assignees != "" && strings.Join(is.Assignees, " ") != tt.assignees {
					t.Errorf("got assignees %s, want %s", is.Assignees, tt.assignees)
				}
				l.Stop()
				w.Check()
			})
		})
	}
}

const verbHelp = "use /disinto retry, cancel, release, why, start, assign AGENT, pause [THREAD|AGENT|REPO], " +
	"or tell TEXT"

// Only a person who may write to all repositories can pause threads, agents or everything.
func TestPauseInCommentWantsAllRepositories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		idle(w)
		l := w.Start()
		n := w.Forge.Issue("one")
		time.Sleep(time.Minute)
		if got := w.say(n, "stranger", "/disinto pause"); !strings.Contains(got, "stranger may not write to johba/harb") {
			t.Error(got)
		}
		if l.Document().Paused {
			t.Error("paused")
		}
		if got := w.say(n, "stranger", "/disinto pause johba/harb"); !strings.Contains(got, "may not write to johba/harb") {
			t.Error(got)
		}
		if got := w.say(n, "johba", "/disinto pause johba/harb"); !strings.Contains(got, "johba/harb: paused") {
			t.Error(got)
		}
		l.Stop()
	})
}

// A command is carried out at most once and answered once, whenever the supervisor is killed.
func TestCommandOnce(t *testing.T) {
	for _, at := range []struct {
		call  string
		after bool
		done  int // number of executions; -1: at most one
	}{
		{"take", false, 1},
		{"take", true, 1},
		{"look", false, -1},
		{"look", true, -1},
		{"label", false, 0},
		{"label", true, 1},
		{"comment", false, 1},
		{"comment", true, 1},
		{"", false, 1},
	} {
		if Skips(fmt.Sprint(at.call, at.after), "takefalse", "lookfalse", "labelfalse", "commentfalse", "false") {
			continue
		}
		t.Run(fmt.Sprintf("%s/%v", at.call, at.after), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				idle(w)
				n := w.Forge.Issue("one")
				w.Forge.Edit(n, func(is *forge.Issue) { is.Labels = []string{"blocked", "staged"} })
				l := w.Start(KillAt(at.call, 1, at.after))
				time.Sleep(time.Minute)
				id := w.Forge.Command(n, "johba", "/disinto retry")
				if at.call == "" {
					w.Until(time.Minute, "answered", func() bool { return len(w.answers(id)) == 1 })
					l.Stop()
				} else {
					<-l.Killed
					l.Bury()
				}
				for range 2 { // lives
					l = w.Start()
					w.Until(2*time.Minute, "answered", func() bool { return len(w.answers(id)) > 0 })
					w.Forge.Edit(n, func(is *forge.Issue) { is.Labels = []string{"blocked", "staged"} })
					time.Sleep(Size(time.Hour, 15*time.Minute))
					l.Stop()
				}
				done := 0
				for _, write := range w.Forge.Writes() {
					if write == "unlabel #1 blocked" {
						done++
					}
				}
				if at.done >= 0 && done != at.done || done > 1 {
					t.Errorf("got %d executions, want %d", done, at.done)
				}
				if n := len(w.answers(id)); n != 1 {
					t.Errorf("got %d answers, want 1", n)
				}
				interrupted := at.call == "look" || at.call == "label"
				want := map[bool]string{false: "label blocked removed", true: "does not repeat it"}[interrupted]
				if got := w.answers(id)[0]; !strings.Contains(got, want) {
					t.Errorf("got %d executions and the answer %s, want %q", done, got, want)
				}
			})
		})
	}
}

// Commands from before the first start are ignored. Commands from a time without a supervisor are carried out.
func TestCommandsOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		idle(w)
		n := w.Forge.Issue("one")
		w.Forge.Edit(n, func(is *forge.Issue) { is.Labels = nil })
		old := w.Forge.Command(n, "johba", "/disinto cancel")
		time.Sleep(time.Second)
		l := w.Start()
		time.Sleep(10 * time.Minute)
		l.Stop()
		between := w.Forge.Command(n, "johba", "/disinto why")
		time.Sleep(10 * time.Minute)
		l = w.Start()
		w.Until(time.Minute, "answered", func() bool { return len(w.answers(between)) == 1 })
		l.Stop()
		if got := w.answers(old); len(got) > 0 || slices.Contains(w.Forge.Get(n).Labels, "cancelled") {
			t.Errorf("a command from before the first start was carried out: %s", got)
		}
	})
}

// A command is left to the supervisor that took it, holds its issue, or runs the agent that it names.
func TestCommandsForOthers(t *testing.T) {
	for name, prepare := range map[string]func(*World, int64) int64{
		"taken": func(w *World, n int64) int64 {
			id := w.Forge.Command(n, "johba", "/disinto cancel")
			w.Forge.TakeAway(id)
			return id
		},
		"held": func(w *World, n int64) int64 {
			w.Forge.Edit(n, func(is *forge.Issue) { is.HeldBy, is.Labels = "dev-elsewhere on far", []string{"in-progress"} })
			return w.Forge.Command(n, "johba", "/disinto cancel")
		},
		"pinned": func(w *World, n int64) int64 {
			w.Forge.Edit(n, func(is *forge.Issue) { is.Assignees = []string{"dev-elsewhere"} })
			return w.Forge.Command(n, "johba", "/disinto retry")
		},
		"their agent": func(w *World, n int64) int64 {
			return w.Forge.Command(n, "johba", "/disinto assign dev-elsewhere")
		},
		"deleted": func(w *World, n int64) int64 {
			w.Forge.Fail(func(_ context.Context, call string) error {
				if call == "take" {
					return forge.ErrUnavailable
				}
				return nil
			})
			id := w.Forge.Command(n, "johba", "/disinto cancel")
			time.Sleep(3 * time.Minute)
			w.Forge.Unsay(id)
			w.Forge.Fail(nil)
			return id
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				idle(w)
				n := w.Forge.Issue("one")
				w.Forge.Edit(n, func(is *forge.Issue) { is.Labels = nil })
				l := w.Start()
				time.Sleep(time.Minute)
				id := prepare(w, n)
				time.Sleep(10 * time.Minute)
				l.Stop()
				if got := w.answers(id); len(got) > 0 || slices.Contains(w.Forge.Get(n).Labels, "cancelled") {
					t.Errorf("the command was carried out: %s", got)
				}
			})
		})
	}
}

// A person who writes many commands gets ten answers a minute, and eventually one for each command.
func TestCommandsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		Size(w.Usual, w.Minutely)()
		idle(w)
		n := w.Forge.Issue("one")
		l := w.Start()
		time.Sleep(time.Minute)
		began := time.Now()
		for range 25 {
			w.Forge.Command(n, "johba", "/disinto why")
		}
		other := w.Forge.Command(n, "other", "/disinto why")
		w.Until(5*time.Minute, "26 answers", func() bool { return len(w.Forge.Comments()) >= 26 })
		l.Stop()
		times := map[time.Duration]int{}
		for _, c := range w.Forge.Comments() {
			if times[c.At.Sub(began).Truncate(time.Minute)]++; c.Key == fmt.Sprintf("command-%d", other) &&
				c.At.Sub(began) > time.Minute {
				t.Errorf("the other person waited for %s, want at most 1m", c.At.Sub(began))
			}
		}
		if len(w.Forge.Comments()) != 26 || times[0] > 11 || times[time.Minute] > 10 {
			t.Errorf("got %d answers, by minute: %v, want 26, at most 11 in the first minute and 10 in the next",
				len(w.Forge.Comments()), times)
		}
	})
}

// An answer that the forge cannot take now is written later. An answer that it refuses for good is dropped.
func TestAnswersAreWrittenLater(t *testing.T) {
	for _, refusal := range []error{forge.ErrUnavailable, forge.ErrConflict} {
		t.Run(refusal.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				idle(w)
				n := w.Forge.Issue("one")
				l := w.Start()
				time.Sleep(time.Minute)
				tries := 0
				w.Forge.Fail(func(_ context.Context, call string) error {
					if call != "comment" {
						return nil
					}
					tries++
					return refusal
				})
				id := w.Forge.Command(n, "johba", "/disinto why")
				time.Sleep(10 * time.Minute)
				l.Stop()
				w.Forge.Fail(nil)
				l = w.Start()
				time.Sleep(10 * time.Minute)
				l.Stop()
				lasting := refusal == forge.ErrConflict
				if n := len(w.answers(id)); n != 1 && !lasting || lasting && (n != 0 || tries != 1) {
					t.Errorf("got %d answers after %d tries, want 1, or none after one refusal for good", n, tries)
				}
			})
		})
	}
}

// A session gets the setting for whose words its prompt may contain.
func TestReaders(t *testing.T) {
	for all, want := range map[bool]string{false: "collaborators", true: "all"} {
		synctest.Test(t, func(t *testing.T) {
			w := New(t)
			w.Config.Forge.ReadersAll = all
			w.Forge.Issue("one")
			l := w.Start()
			w.Until(time.Minute, "a session starts", func() bool { return len(w.Exec.Runs()) > 0 })
			if got := variable(w.Exec.Runs()[0].Job, "DISINTO_READERS"); got != want {
				t.Errorf("got readers %s, want %s", got, want)
			}
			l.Stop()
		})
	}
}
