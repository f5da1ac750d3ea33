package supervisor_test

import (
	"fmt"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/simtest"
	"codeberg.org/johba/disinto/threads"
)

// The next why after a command answers with the command's result. It said "waits for the next scan of the forge", of an
// issue filed just now that it had not been read, and of one with a session on it that it waits.
func TestWhyAfterCommand(t *testing.T) {
	quiet(t, nil, func(t *testing.T, w *simtest.World, l *simtest.Life) {
		w.Exec.Script = func(agents.Job, int) simtest.Script { return simtest.Script{Takes: time.Hour} }
		n := w.Forge.Issue("one")
		if ex := explain(t, l, n); ex.Code == threads.NotRead || ex.Code == threads.StaleFacts {
			t.Errorf("an issue filed just now: got %s: %s", ex.Code, ex.Verdict)
		}
		w.Until(time.Hour, "a session", func() bool { return len(w.Exec.RunsOf(agents.KindIssue, n)) == 1 })
		label := func(labels ...string) {
			w.Forge.Edit(n, func(is *forge.Issue) { is.Labels = append(is.Labels, labels...) })
		}
		for _, step := range []struct {
			command string
			before  func()
			want    threads.Code
		}{
			{"cancel", nil, threads.SkipLabel},
			{"retry", nil, threads.HasSession},
			{"release", nil, threads.CoolDown},
			{"retry", func() { label(forge.LabelNeedsHuman) }, threads.HasSession},
			{"cancel", nil, threads.SkipLabel},
			{"retry", func() { label(forge.LabelPlanFirst) }, threads.HasSession},
			{"release", nil, threads.CoolDown},
			{"approve", nil, threads.CoolDown},
		} {
			if step.before != nil {
				step.before()
			}
			var report control.Report
			if status, no := asked(t, l, "/v1/"+step.command, fmt.Sprintf(`{"ref":"%d"}`, n), &report); status != 200 {
				t.Fatalf("%s: got %d %s", step.command, status, no)
			}
			if ex := explain(t, l, n); ex.Code != step.want {
				t.Errorf("after %s: got %q: %s; want %q", step.command, ex.Code, ex.Verdict, step.want)
			}
		}
	})
}
