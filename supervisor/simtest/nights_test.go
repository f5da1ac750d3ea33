package simtest

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/notify"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// mailbox has the messages of a real notifier.
type mailbox struct {
	mu      sync.Mutex // guards the field below
	letters []letter
}

type letter struct {
	at   time.Time
	text string
}

func (l letter) String() string { return l.at.Format(time.TimeOnly) + " " + l.text }

// told makes a life send messages, and returns those that people get.
func (w *World) told() (*mailbox, func(*Life)) {
	box := &mailbox{}
	w.Config.Notify = threads.Notify{
		To: []threads.Recipient{{Kind: threads.Ntfy, Number: 1, Host: "phone"}}, On: []threads.Topic{
			threads.NotifyNeedsHuman, threads.NotifyParked, threads.NotifyDown,
		},
	}
	return box, func(l *Life) {
		config := w.Config
		n := &notify.Notifier{Config: func() *threads.Config { return config }, StateDir: w.Dir, Log: l.Log}
		n.Deliver = func(_ context.Context, _ threads.Recipient, letter notify.Letter) error {
			box.add(letter.Title + "\n" + letter.Text)
			return nil
		}
		l.Notify = n
		go n.Run(w.T.Context())
	}
}

func (b *mailbox) add(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.letters = append(b.letters, letter{time.Now(), text})
}

// all returns the messages in their order.
func (b *mailbox) all() []letter {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.letters)
}

// with returns the texts of the messages that contain a text.
func (b *mailbox) with(text string) (list []string) {
	for _, l := range b.all() {
		if strings.Contains(l.text, text) {
			list = append(list, l.text)
		}
	}
	return list
}

// A night with 14 issues, one agent that always fails at once, and a good one: every issue is merged, a person is told
// once about the agent, with its last words, and the agent works again when it is mended.
func TestNightOfAFailingAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		box, tell := w.told()
		for range 14 {
			w.Forge.Issue("work")
		}
		broken := true
		good := w.Exec.Script
		w.Exec.Script = func(job agents.Job, n int) Script {
			if broken && job.Agent == "dev-coder" {
				out := agents.Outcome{
					Result: agents.Failed, Reason: "work: exit status 127", ExitCode: 127, Tail: "npm: not found\n",
				}
				return Script{Takes: 3 * time.Second, Outcome: out}
			}
			return good(job, n)
		}
		l := w.Start(tell)
		w.Until(5*time.Minute, "dev-coder is held", func() bool { return len(l.Document().Alarms) == 1 })
		alarm := l.Document().Alarms[0]
		for _, want := range []string{"dev-coder", "#1", "#3", "#4", "npm: not found", "next try"} {
			if !strings.Contains(alarm.Words, want) {
				t.Errorf("got alarm %q, want %q in it", alarm.Words, want)
			}
		}
		began := time.Now()
		w.Until(8*time.Hour, "all 14 are merged", w.Forge.Done)
		t.Logf("14 merged after %s", time.Since(began))
		if got := len(l.Document().Merges); got != 14 {
			t.Errorf("got %d merges, want 14", got)
		}
		for n := range int64(14) {
			if is := w.Forge.Get(n + 1); is.Has(forge.LabelBlocked) {
				t.Errorf("#%d is blocked", n+1)
			}
		}
		failed := 0
		for _, r := range w.Exec.Runs() {
			if r.Outcome.Result == agents.Failed {
				failed++
			}
		}
		if failed > 12 {
			t.Errorf("dev-coder failed %d times, want 3 failures and a few probes", failed)
		}
		var report control.RecordDocument
		l.get("/v1/report?by=agent&by=cause", &report)
		for _, row := range report.Rows(ledger.ByAgent) { // who began an issue gets no credit for its merge
			want := map[string]int{"dev-qwen": 14}[row.Key]
			wasted := map[string]int{"dev-coder": failed}[row.Key]
			if row.Merged.Pulls != want || row.Failed.Sessions != wasted {
				t.Errorf("report: %s has %d merges and %d failures, want %d and %d", row.Key, row.Merged.Pulls,
					row.Failed.Sessions, want, wasted)
			}
		}
		causes := report.Rows(ledger.ByCause)
		if len(causes) != 1 || causes[0].Key != "failed: work: exit status N" || causes[0].Failed.Sessions != failed {
			t.Errorf("report: got causes %+v, want one", causes)
		}
		if got := box.with("dev-coder"); len(got) != 1 || !strings.Contains(got[0], "npm: not found") {
			t.Errorf("got messages %q about dev-coder, want one with its last words", got)
		}
		for _, want := range []string{"[WARN]  dev-coder is held", "[INFO]  [dev-coder #1] implementation failed"} {
			if !strings.Contains(w.Log.String(), want) {
				t.Errorf("want %q in the log:\n%s", want, w.Log.String())
			}
		}
		broken = false
		w.Forge.Issue("one more")
		w.Forge.Issue("and another")
		w.Until(5*time.Hour, "dev-coder works again", func() bool { return len(l.Document().Alarms) == 0 })
		l.Stop()
		w.Check()
	})
}

// A red main is one cause: nothing is reworked for it, merges wait, one message names the merge that did it, and after
// the repair everything goes on by itself.
func TestNightOfARedMain(t *testing.T) {
	t.Run("a person repairs it", func(t *testing.T) {
		nightOfARedMain(t, func(w *World, _ string) { w.Forge.Repair(Repo) })
	})
	t.Run("an agent reverts the merge", func(t *testing.T) {
		nightOfARedMain(t, func(w *World, by string) {
			w.Forge.Edit(w.Forge.Issue("Revert "+by), func(is *forge.Issue) { is.Labels = with(is.Labels, "priority/1") })
		})
	})
}

func nightOfARedMain(t *testing.T, repair func(w *World, by string)) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		box, tell := w.told()
		for range 12 {
			w.Forge.Issue("work")
		}
		w.Forge.Check("ci/test")
		w.Forge.Break(4)
		l := w.Start(tell)
		w.Until(6*time.Hour, "main is red", func() bool { return len(l.Document().Alarms) == 1 })
		w.Until(6*time.Hour, "pull requests wait for it", func() bool {
			n := 0
			for _, q := range l.Document().Queue {
				said := strings.HasPrefix(q.Why, "main is red since ") && strings.HasSuffix(q.Why, ": ci/test")
				if q.Code == threads.MainRed && said {
					n++
				}
			}
			return n >= 2
		})
		time.Sleep(time.Hour)
		d := l.Document()
		if len(d.Merges) != 4 {
			t.Errorf("got %d merges while main is red, want 4", len(d.Merges))
		}
		by := d.Merges[0].Ref
		alarm := d.Alarms[0].Words
		revert := `--title "Revert ` + forge.Ref(by).Short() + `"`
		for _, want := range []string{"main is red since", "ci/test", forge.Ref(by).String(), revert} {
			if !strings.Contains(alarm, want) {
				t.Errorf("got alarm %q, want %q in it", alarm, want)
			}
		}
		if got := box.with("main is red"); len(got) != 1 {
			t.Errorf("got messages %q, want one", got)
		}
		repair(w, forge.Ref(by).Short())
		w.Until(8*time.Hour, "all are merged", w.Forge.Done)
		for _, r := range w.Exec.Runs() {
			if r.Job.Kind == agents.KindRework {
				t.Errorf("#%d was reworked", r.Job.Number)
			}
		}
		if len(l.Document().Alarms) > 0 {
			t.Errorf("after the repair: got %+v", l.Document().Alarms)
		}
		l.Stop()
		w.Check()
	})
}

// The own token is rejected: that is no outage, a person is told at once and once, and what waited for people before
// still does, with its date.
func TestNightOfARejectedToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Tokens[""] = "disinto"
		box, tell := w.told()
		w.Forge.Issue("unclear")
		w.Exec.Script = func(agents.Job, int) Script {
			return Script{Takes: time.Minute, Outcome: agents.Outcome{Result: agents.Refused, Reason: "which one?"}}
		}
		l := w.Start(tell)
		needs := func() string {
			for _, q := range l.Document().Queue {
				if q.NeedsPerson {
					return q.Why
				}
			}
			return ""
		}
		w.Until(time.Hour, "an item needs a person", func() bool { return strings.Contains(needs(), "which one?") })
		w.Forge.Fail(func(context.Context, string) error { return fmt.Errorf("read: %w", forge.ErrForbidden) })
		w.Until(10*time.Minute, "an alarm", func() bool { return len(l.Document().Alarms) == 1 })
		time.Sleep(time.Hour)
		if d := l.Document(); d.Alarms[0].Code != threads.TokenRejected || d.Alarms[0].About != control.OwnToken {
			t.Errorf("got alarms %+v, want one about the own token", d.Alarms)
		}
		if why := needs(); !strings.Contains(why, "which one?") || !strings.Contains(why, "(as of 2000-01-01T0") {
			t.Errorf("got %q under NEEDS YOU, want what was known, with its date", why)
		}
		if l.Levels().NeedPerson != 1 {
			t.Errorf("got %d items that need a person, want 1", l.Levels().NeedPerson)
		}
		if got := box.with("own token"); len(got) != 1 || len(box.with("does not answer")) > 0 {
			t.Errorf("got messages %q, want one about the token and none about an outage", box.with(""))
		}
		if !strings.Contains(w.Log.String(), "[WARN]  the forge rejects the supervisor's own token") {
			t.Errorf("want a warning in the log:\n%s", w.Log.String())
		}
		for range 2 {
			l.Stop()
			l = w.Start(tell)
			time.Sleep(10 * time.Minute)
			if why := needs(); !strings.Contains(why, "which one?") || strings.Count(why, "(as of 2000-01-01T0") != 1 {
				t.Errorf("after a restart meanwhile: got %q under NEEDS YOU, want what was known, with its date", why)
			}
		}
		w.Forge.Fail(nil)
		w.Until(10*time.Minute, "it is over", func() bool { return len(l.Document().Alarms) == 0 })
		if why := needs(); strings.Contains(why, "as of") {
			t.Errorf("after it: got %q", why)
		}
		l.Stop()
	})
}

// An agent whose token the forge rejects has no work for a night. It is held until the forge knows the token again, and
// not for five minutes at a time: people are told once.
func TestNightOfAnIdleAgentsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		box, tell := w.told()
		w.Forge.Issue("work")
		w.Exec.Script = func(job agents.Job, n int) Script {
			if w.Forge.setToken("token-of-"+job.Agent, ""); n == 1 && job.Kind == agents.KindIssue {
				return reports(10*time.Second, agents.Failed, "push: 401")
			}
			return w.Work(job, n)
		}
		l := w.Start(tell)
		time.Sleep(time.Minute)
		name := w.Exec.Runs()[0].Job.Agent
		w.Forge.Edit(1, func(is *forge.Issue) { is.Closed = true })
		held := func() bool {
			return slices.ContainsFunc(l.Document().Agents, func(a control.AgentDocument) bool {
				return a.Name == name && a.Code == threads.TokenRejected && a.NeedsPerson
			})
		}
		for range 8 * 60 {
			if time.Sleep(time.Minute); !held() {
				t.Fatalf("%s is not held at %s", name, time.Now().Format(time.TimeOnly))
			}
		}
		if got := box.with(name + " can start nothing"); len(got) != 1 {
			t.Errorf("got messages %q, want one", got)
		}
		w.Forge.setToken("token-of-"+name, name)
		w.Until(10*time.Minute, "it is well again", func() bool { return !held() })
		time.Sleep(time.Minute) // the next status is logged
		if n := strings.Count(w.Log.String(), name+" can start again"); n != 1 {
			t.Errorf("the log says %d times that it is over, want once:\n%s", n, w.Log.String())
		}
		l.Stop()
		w.Check()
	})
}

// A usage limit ends with the key of its account, and a restart does not bring it back.
func TestNightOfANewKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Forge.Issue("work")
		w.Exec.Script = func(job agents.Job, n int) Script {
			if n == 1 && job.Kind == agents.KindIssue {
				return Script{Takes: time.Minute, Outcome: agents.Outcome{
					Result: agents.Limited, Claimed: true, Reason: "weekly limit", RetryAt: time.Now().Add(72 * time.Hour),
				}}
			}
			return w.Work(job, n)
		}
		l := w.Start()
		parked := func() bool { return !l.Document().Threads[1].ParkedUntil.IsZero() }
		w.Until(5*time.Minute, "the thread is limited", parked)
		next := *w.Config
		next.Threads = slices.Clone(next.Threads)
		next.Threads[1].Vars = []agents.Var{{Name: "MODEL_KEY", Value: "new"}}
		w.Config = &next
		l.Reload(&next, nil)
		if parked() {
			t.Error("the limit of the old key lasts")
		}
		l.Stop()
		l = w.Start()
		time.Sleep(time.Second)
		if parked() {
			t.Error("after a restart the limit of the old key is back")
		}
		w.Until(3*time.Hour, "merged", w.Forge.Done)
		l.Stop()
		w.Check()
	})
}

// A full disk is told once. The receipts of sessions that end meanwhile are written when there is room again.
func TestNightOfAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Config.Factory.MinFreeDisk = 1 << 30
		box, tell := w.told()
		w.Forge.Issue("work")
		var free atomic.Int64
		free.Store(2 << 30)
		l := w.Start(tell, func(l *Life) {
			l.Room = func(string) threads.Room { return threads.Room{Memory: math.MaxInt64, Disk: free.Load()} }
		})
		w.Until(time.Hour, "it runs", func() bool { return len(l.Document().Sessions) == 1 })
		folder := filepath.Join(w.Dir, "receipts")
		if err := os.Rename(folder, folder+".away"); err != nil {
			t.Fatal(err)
		}
		free.Store(0)
		w.Until(time.Hour, "it has ended", func() bool { return len(l.Document().Recent) == 1 })
		time.Sleep(5 * time.Minute)
		alarms := l.Document().Alarms
		if len(alarms) != 1 || alarms[0].Code != threads.NoRoom || !strings.Contains(alarms[0].Words, "1 receipt") {
			t.Errorf("got alarms %+v, want one about the disk and a receipt", alarms)
		}
		if got := box.with("is full"); len(got) != 1 {
			t.Errorf("got messages %q, want one", got)
		}
		if !strings.Contains(w.Log.String(), "[WARN]  the disk with ") {
			t.Errorf("want a warning in the log:\n%s", w.Log.String())
		}
		if err := os.Rename(folder+".away", folder); err != nil {
			t.Fatal(err)
		}
		free.Store(2 << 30)
		w.Until(3*time.Hour, "all is merged", w.Forge.Done)
		if alarms := l.Document().Alarms; len(alarms) > 0 {
			t.Errorf("with room again: got alarms %+v", alarms)
		}
		l.Stop()
		file, err := os.Open(filepath.Join(w.Dir, "journal.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		j, err := ledger.ReadReceipts(file)
		if want := len(w.Exec.Runs()); err != nil || len(j.Hashes) != want {
			t.Errorf("got %d receipts of %d sessions: %v", len(j.Hashes), want, err)
		}
	})
}

// Sessions whose environment cannot start hold every agent for one reason, of which one message and the log tell at
// once. No item has an attempt for it.
func TestNightWithoutAProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		box, tell := w.told()
		for range 4 {
			w.Forge.Issue("work")
		}
		var missing atomic.Bool
		missing.Store(true)
		l := w.Start(tell, func(l *Life) { l.Executor = &bare{l.Executor, &missing} })
		w.Until(2*time.Minute, "a message", func() bool { return len(box.with("no such file")) > 0 })
		time.Sleep(3 * time.Hour)
		if got := box.with("no such file"); len(got) != 1 || !strings.Contains(got[0], "can start nothing") {
			t.Errorf("got messages %q, want one", got)
		}
		if !strings.Contains(w.Log.String(), "[WARN]  dev-coder can start nothing: cannot start work: no such file") {
			t.Errorf("want a warning in the log:\n%s", w.Log.String())
		}
		missing.Store(false)
		w.Until(6*time.Hour, "all is merged", w.Forge.Done)
		for _, r := range w.Exec.Runs() {
			if attempt := variable(r.Job, "DISINTO_ATTEMPT"); attempt != "1" {
				t.Errorf("#%d ran at attempt %s, want 1", r.Job.Number, attempt)
			}
		}
		l.Stop()
	})
}

// bare is an executor on a machine that lacks the agents' program.
type bare struct {
	supervisor.Executor
	missing *atomic.Bool
}

func (b *bare) Run(ctx context.Context, job agents.Job, started func(agents.Started)) agents.Outcome {
	if b.missing.Load() {
		return agents.Outcome{Result: agents.Failed, Reason: "cannot start work: no such file", ExitCode: 127}
	}
	return b.Executor.Run(ctx, job, started)
}
