package simtest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// A drain ends the begun issue with its review and its merge, starts no other, says that it is done, and ends the
// supervisor. It outlives the restart, which stays up, until resume.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Usual()
		stopped := make(chan struct{}, 1)
		l := w.Start(func(l *Life) { l.Supervisor.Stop = func() { stopped <- struct{}{} } })
		begun := w.Forge.Issue("begun")
		w.Until(time.Minute, "it starts", func() bool { return len(w.Exec.RunsOf(agents.KindIssue, begun)) == 1 })
		const preview = "would drain: 1 item left to finish; "
		if got := ask(l, "/v1/drain", `{"dry_run":true}`); !strings.Contains(got, preview) || strings.Contains(got, "waits") {
			t.Errorf("a preview says %s, want %q, and nothing of new work, of which there is none", got, preview)
		}
		if d := l.Document(); d.Drain != nil {
			t.Errorf("a preview drains: %+v", d.Drain)
		}
		ask(l, "/v1/drain", `{"then_stop":true,"by":"ada"}`)
		later := w.Forge.Issue("new")
		w.Until(time.Minute, "the new issue waits", func() bool { return holdOf(l.Document(), later) == threads.Draining })
		if d := l.Document().Drain; d == nil || d.Done || d.Left == 0 {
			t.Errorf("got the drain %+v, want one with something left", d)
		}
		<-stopped
		merged, ran := l.Document().Today.Merged, len(w.Exec.RunsOf(agents.KindIssue, later))
		if merged != 1 || ran > 0 {
			t.Errorf("stopped with %d merges, and %d sessions on the new issue", merged, ran)
		}
		l.Stop()
		l = w.Start(func(l *Life) { l.Supervisor.Stop = func() { t.Error("the next supervisor stops, too") } })
		w.Until(time.Minute, "it says that the drain is done", func() bool {
			d := l.Document()
			return len(d.Alarms) == 1 && d.Alarms[0].Code == control.Drained && d.Drain.Done
		})
		ask(l, "/v1/resume", `{}`)
		w.Until(time.Minute, "the new issue starts", func() bool {
			return len(w.Exec.RunsOf(agents.KindIssue, later)) == 1
		})
		if d := l.Document(); d.Drain != nil || len(d.Alarms) > 0 {
			t.Errorf("after resume got %+v and %v", d.Drain, d.Alarms)
		}
		l.Stop()
	})
}

func holdOf(d *control.Document, n int64) threads.Code {
	for i := range d.Queue {
		if d.Queue[i].Number == n {
			return d.Queue[i].Code
		}
	}
	return ""
}
