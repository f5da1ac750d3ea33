package simtest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// The clock was wrong by an hour or by years, in either direction, and is corrected while the supervisor is down. The
// times in the journal must not hold any work: no scheduled role, rest, limit or budget.
func TestClockSet(t *testing.T) {
	OnlyInStorms(t)
	for name, off := range map[string]time.Duration{
		"it was ahead": 5 * 365 * 24 * time.Hour, "by an hour": time.Hour, "it was behind": -5 * 365 * 24 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { clockSet(t, off) })
		})
	}
}

func clockSet(t *testing.T, off time.Duration) {
	w := New(t)
	w.Slow()
	w.Config.Agents[1].Roles = append(w.Config.Agents[1].Roles, "gardener")
	w.Config.Agents[1].Budget.Tokens = 1000
	w.Config.Roles = append(w.Config.Roles, agents.Role{
		Name: "gardener", On: agents.OnSchedule, Every: 6 * time.Hour, Priority: 5, Command: []string{"garden"},
		Timeout: time.Hour, Stall: time.Hour,
	})
	issue := w.Forge.Issue("one")
	began := time.Now()
	w.Exec.Script = func(job agents.Job, n int) Script {
		s := w.Work(job, n)
		switch {
		case job.Kind == agents.KindSchedule:
			s.Outcome = agents.Outcome{Result: agents.Done, Usage: agents.Usage{InputTokens: 5000}}
		case job.Kind == agents.KindIssue && n == 1:
			s = Script{Takes: time.Minute, Outcome: agents.Outcome{Result: agents.Failed}}
		case job.Kind == agents.KindIssue && n == 2:
			s = Script{Takes: time.Minute, Outcome: agents.Outcome{
				Result: agents.Limited, Claimed: true, Reason: "weekly limit", RetryAt: began.Add(70 * time.Minute),
			}}
		}
		return s
	}
	l := w.Start()
	time.Sleep(10 * time.Minute)
	if l.Kill(); len(w.Exec.RunsOf(agents.KindSchedule, 0)) != 1 {
		t.Fatal("no scheduled session ran")
	}
	l.Bury()
	setJournal(t, filepath.Join(w.Dir, "journal.jsonl"), off)

	l = w.Start()
	restarted := time.Now()
	w.Until(2*time.Hour, "merged", w.Forge.Done)
	if n := len(w.Exec.RunsOf(agents.KindIssue, issue)); n != 3 {
		t.Errorf("got %d sessions on the issue, want 3: failed, limited, done", n)
	}
	time.Sleep(24 * time.Hour)
	l.Stop()
	w.Check()
	runs := w.Exec.RunsOf(agents.KindSchedule, 0)
	if len(runs) < 2 || runs[1].Begin.Sub(restarted) > 24*time.Hour {
		t.Errorf("got %d scheduled sessions, want the second within a day, as the budget is used up for one day only",
			len(runs))
	}
}

// setJournal shifts every time in a journal by the clock's error.
func setJournal(t *testing.T, path string, off time.Duration) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	text = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"`).ReplaceAllFunc(text, func(quoted []byte) []byte {
		at, err := time.Parse(`"`+time.RFC3339Nano+`"`, string(quoted))
		if err != nil {
			t.Fatal(err)
		}
		n++
		return []byte(at.Add(off).Format(`"` + time.RFC3339Nano + `"`))
	})
	if err := os.WriteFile(path, text, 0o600); err != nil || n == 0 {
		t.Fatalf("shifted %d times: %v", n, err)
	}
}
