package process

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"codeberg.org/johba/disinto/agents"
)

// A session of another account reads its inbox, which is its own, and the executor reports what it has heard. An older
// list replaces no newer one, and no link leads the text elsewhere.
func TestTell(t *testing.T) {
	t.Parallel()
	needRoot(t)
	job := asStranger(t, `
		in=$INBOX; ln -s "$TARGET" $in; ln -s "$TARGET" $in.new
		echo '{"usage":{},"doing":{"phase":"setup"}}' >$DISINTO_RESULT
		until grep -qs second $in; do sleep 0.1; done
		[ -O $in ] && cat $in; echo '{"outcome":"done","doing":{"heard":2}}' >$DISINTO_RESULT`)
	target := t.TempDir() + "/target"
	if err := os.WriteFile(target, []byte("ours"), 0o600); err != nil {
		t.Fatal(err)
	}
	job.Env = append(job.Env, "TARGET="+target, "INBOX="+agents.InboxPath(job.ResultPath))
	e := &Executor{Reaper: reaper}
	if err := e.Tell(job.RunID, nil); err == nil {
		t.Error("a run that has not begun was told something")
	}
	list := []agents.Message{{By: "ada", Text: "first"}, {Text: "second"}}
	var told atomic.Bool
	job.Doing = func(agents.Doing) {
		if told.Swap(true) {
			return
		}
		for _, n := range []int{2, 1} {
			if err := e.Tell(job.RunID, list[:n]); err != nil {
				t.Error(err)
			}
		}
	}
	o := e.Run(t.Context(), job, nil)
	if o.Result != agents.Done || o.Heard != 2 || !strings.Contains(o.Tail, `"text":"first"`) ||
		!strings.Contains(o.Tail, `"text":"second"`) {
		t.Errorf("got %+v", o)
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "ours" {
		t.Errorf("the target of a link has %q, %v", text, err)
	}
}
