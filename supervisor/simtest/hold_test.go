package simtest

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// With hold, and verdicts that request changes within a minute, a slot is soon kept for the agent whose pull request
// is in review. The status shows this for the waiting items. The learned times survive a kill, and the compaction at
// the next start.
func TestHeldForVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Slow()
		w.Config.Threads[1].Hold = 4 * time.Minute
		w.Config.Threads[1].Slots, w.Config.Threads[1].MaxSessions = 1, 1
		for range 8 {
			w.Forge.Issue("one of many")
		}
		w.Exec.Script = func(job agents.Job, n int) Script {
			s := w.Work(job, n)
			s.Takes = 2 * time.Minute
			if job.Kind == agents.KindReview {
				s.Takes = 30 * time.Second
				if n < 3 {
					s.Do = func() { w.Forge.Review(job.Number, job.Agent, forge.ChangesRequested) }
				}
			}
			return s
		}
		l := w.Start()
		held := func() bool { return keptFor(l.Document()) != "" }
		w.Until(24*time.Hour, "a slot is kept", held)
		said := keptFor(l.Document())
		if !strings.Contains(said, "a slot of llama is kept for dev-") || !strings.Contains(said, "is in review") {
			t.Errorf("got reason %q, want a slot of llama that is kept during a review", said)
		}
		w.Until(24*time.Hour, "nothing is kept", func() bool { return !held() })
		l.Kill()

		l = w.Start() // its start compacts the journal
		w.Until(time.Minute, "the forge is read", func() bool { return l.Document().Forge.OK })
		if known := w.learned("llama"); known.N < 3 || known.Gap < 30 || known.Gap > 40 || known.Back <= 0.5 {
			t.Errorf("after a restart: got learned verdicts %+v, want at least 3, with a gap of 30 to 40 s", known)
		}
		w.Until(48*time.Hour, "all is done", w.Forge.Done)
		l.Stop()
		w.Check()
		w.keptChains()
	})
}

// keptChains checks that from the third verdict on, the sessions of each issue follow each other in the slot,
// whatever waits.
func (w *World) keptChains() {
	w.T.Helper()
	issue := make(map[int64]int64)
	for _, p := range w.Forge.Pulls() {
		issue[p.Number] = p.Closes[0].Number
	}
	chains, last, changes := map[int64]int{}, int64(0), 0
	for _, r := range w.Exec.Runs() {
		if r.Job.Kind == agents.KindReview {
			continue
		}
		if chain := cmp.Or(issue[r.Job.Number], r.Job.Number); chain != last {
			last = chain
			changes++
		}
		chains[last]++
	}
	if len(chains) != 8 || changes > 8+6 {
		w.T.Errorf("got %d changes of the slot for %d issues, want at most 14 for 8", changes, len(chains))
	}
}

// learned returns the journal's record of the verdicts on a thread's work.
func (w *World) learned(thread string) (known threads.Returns) {
	w.T.Helper()
	text, err := os.ReadFile(filepath.Join(w.Dir, "journal.jsonl"))
	if err != nil {
		w.T.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var r struct {
			Thread struct {
				Name    string
				Returns threads.Returns
			}
		}
		if json.Unmarshal([]byte(line), &r) == nil && r.Thread.Name == thread {
			known = r.Thread.Returns
		}
	}
	return known
}

// keptFor returns the reason of an item that waits for a kept slot, or "".
func keptFor(d *control.Document) string {
	for _, q := range d.Queue {
		if q.Code == threads.SlotKept {
			return q.Why
		}
	}
	return ""
}
