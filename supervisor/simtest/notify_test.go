package simtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
)

// toldPeople is a Notifier that records its calls.
type toldPeople struct {
	mu       sync.Mutex           // guards the fields below
	needy    map[string]time.Time // first time that an item needed a person
	merged   []string
	problems []string
	panics   bool
}

func (n *toldPeople) RecordStatus(d *control.Document) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, q := range slices.Concat(d.Queue, d.Unqueued) {
		ref := fmt.Sprintf("%s#%d", q.Repo, q.Number)
		if q.NeedsPerson && n.needy[ref].IsZero() {
			n.needy[ref] = time.Now()
		}
	}
	if n.panics {
		panic("a mistake of the notifier")
	}
}

func (n *toldPeople) RecordMerge(ref forge.Ref, title string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.merged = append(n.merged, ref.String()+" "+title)
}

func (n *toldPeople) Problems() []string { return n.problems }

// A notifier sees an item that an agent refused within seconds of the session's end, and each merge once.
func TestNotifier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		refused, done := w.Forge.Issue("unclear"), w.Forge.Issue("clear")
		var ended time.Time
		w.Exec.Script = func(job agents.Job, n int) Script {
			s := w.Work(job, n)
			if job.Number == refused {
				out := agents.Outcome{Result: agents.Refused, Reason: "which one?"}
				return Script{Takes: time.Minute, Outcome: out, Do: func() { ended = time.Now() }}
			}
			return s
		}
		told := &toldPeople{needy: map[string]time.Time{}, problems: []string{"cannot send messages to x"}}
		l := w.Start(func(l *Life) { l.Notify = told })
		w.Until(time.Hour, "one is merged", func() bool { return w.Forge.Get(done).Closed })
		if problems := l.Document().Problems; !slices.Contains(problems, told.problems[0]) {
			t.Errorf("got problems %q, want the notifier's", problems)
		}
		l.Stop()
		told.mu.Lock()
		defer told.mu.Unlock()
		seen := told.needy[fmt.Sprintf("%s#%d", Repo, refused)]
		if waited := seen.Sub(ended); seen.IsZero() || waited > 5*time.Second {
			t.Errorf("seen after %s, want at most 5s", waited)
		}
		if len(told.merged) != 1 || len(told.needy) != 1 {
			t.Errorf("got merges %q and items that need a person %v, want one each", told.merged, told.needy)
		}
	})
}

// A panic of the notifier loses one message, but no work.
func TestNotifierPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		issue := w.Forge.Issue("one")
		l := w.Start(func(l *Life) { l.Notify = &toldPeople{panics: true} })
		w.Until(time.Hour, "it is merged", func() bool { return w.Forge.Get(issue).Closed })
		if problems := strings.Join(l.Document().Problems, "\n"); !strings.Contains(problems, "a mistake of the notifier") {
			t.Errorf("got problems %q, want the panic", problems)
		}
		l.Stop()
	})
}
