package simtest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// A session that no node can run says so, burns no attempt, gives its claim back, and is tried again.
func TestElsewhereNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		e := w.Elsewhere()
		e.Full(true)
		w.Forge.Issue("one")
		l := w.Start()
		w.Until(2*time.Minute, "both agents wait", func() bool {
			q := l.Document().Queue
			return len(q) == 1 && q[0].Code == threads.NoPlace && strings.Contains(q[0].Why, "meta.llama")
		})
		if d := l.Document(); d.Recent[0].Outcome != agents.NoPlace || len(w.Forge.Claimed()) > 0 {
			t.Errorf("recent %+v, claimed %v", d.Recent, w.Forge.Claimed())
		}
		time.Sleep(20 * time.Minute)
		if n := len(l.Document().Recent); n < 4 || n > 12 {
			t.Errorf("%d tries in 20 minutes", n)
		}
		e.Full(false)
		w.Until(4*time.Hour, "merged", w.Forge.Done)
		if got := variable(w.Exec.RunsOf(agents.KindIssue, 1)[0].Job, "DISINTO_ATTEMPT"); got != "1" {
			t.Errorf("the session is attempt %s", got)
		}
		l.Stop()
		w.Check()
	})
}
