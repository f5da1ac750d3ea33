package worlds

import (
	"math"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
	"codeberg.org/johba/disinto/threads/sim"
)

// Sessions outlive the supervisor. In every fifth world some threads run theirs on an engine. Its programs start late,
// and sometimes it has no node for one.
const noPlaceAfter = 30 * time.Second

// executor returns the name of a thread's executor. It draws no random number, so that other worlds stay the same.
func (w *world) executor(thread string) string {
	if w.seed%5 == 2 && thread != "vllm" {
		return threads.ExecutorNomad
	}
	return ""
}

// tightElsewhere reports whether the machines elsewhere lack room, and not this one.
func (w *world) tightElsewhere() bool { return w.seed%5 == 2 && w.seed%2 == 0 }

// rooms returns the room that the supervisor measures on the machines elsewhere, nil in worlds without any.
func (w *world) rooms() map[string]threads.Room {
	if w.seed%5 != 2 {
		return nil
	}
	room := threads.Room{Memory: math.MaxInt64, Disk: math.MaxInt64}
	switch {
	case !w.tight || !w.tightElsewhere():
	case w.seed%20 == 2: // no machine matches the `node` of the thread
		room.None = "no node has meta.llama = box2"
	case w.seed%40 == 12:
		room.Down = "Nomad does not answer"
	default:
		room.Memory = 999
	}
	all := make(map[string]threads.Room)
	for i := range w.cfg.Agents {
		if a := &w.cfg.Agents[i]; w.cfg.Thread(a.Thread).Executor != "" {
			all[a.Name] = room
		}
	}
	return all
}

// send gives a claimed session to the engine.
func (sh *shell) send(r *run) {
	sh.recordSent(r)
	if sh.w.trouble(0.2) {
		sh.w.After(noPlaceAfter, func() { sh.placeless(r) })
		return
	}
	sh.w.After(sh.w.between(sim.EngineStartMin, sim.EngineStartMax), func() {
		if !r.dead {
			sh.launch(r)
		}
	})
}

// recordSent records that a session is about to be given to its executor.
func (sh *shell) recordSent(r *run) {
	sh.countReviews(r)
	sh.record(ledger.Record{Sent: ledger.SentOf(r.RunID, &r.Item)})
	r.sent = true
}

// placeless ends a session for which the engine has no node.
func (sh *shell) placeless(r *run) {
	if r.dead || r.told != nil {
		return
	}
	out := agents.Outcome{Result: agents.NoPlace, Reason: "no node has meta.llama = box2"}
	if r.life != sh.life {
		r.told = &out
		return
	}
	r.dead = true
	sh.w.log("end    %s: %s", r, out.Result)
	sh.record(ledger.Record{End: &ledger.End{Run: r.RunID, Result: out.Result, Reason: out.Reason, NeverRan: true}})
	sh.w.checks.after.placeless(r, sh.w.Now)
	sh.release(r)
}

// survive keeps the sessions that their executor kept and the journal knows, and returns the others. The sessions on
// this machine die with the container, at every third restart.
func (sh *shell) survive(kept bool) (dead []*run) {
	var on []*run
	for _, r := range sh.runs {
		o, open := sh.books.Open[r.RunID]
		ended := sh.life%3 == 0 && sh.w.executor(r.Thread) == ""
		if !kept || ended || !r.sent || r.dead && r.out == nil || !open || !o.Outlives() {
			r.dead = true
			dead = append(dead, r)
			continue
		}
		if r.dead { // the last supervisor was killed between its end and the record of it
			r.dead, r.told = false, r.out
		}
		on = append(on, r)
	}
	sh.runs = on
	return dead
}

// goOn continues a session from its record in the journal.
func (sh *shell) goOn(r *run) {
	o := sh.books.Open[r.RunID]
	began := r.Started
	r.Session, r.life, r.stopped = o.Session(), sh.life, ""
	if o.Stop != nil {
		r.stopped = o.Stop.Code
	}
	role := sh.w.cfg.Role(r.Role)
	if role != nil {
		r.PerSession, r.PerIssue = role.PerSession, role.PerIssue
		r.most = limits{role.PerSession.Tokens, role.PerIssue.Tokens}
	}
	if !began.IsZero() {
		r.Started = o.Session().Started
	}
	sh.w.log("go on  %s", r)
	if told := r.told; told != nil {
		r.told = nil
		sh.w.After(sh.w.between(0, time.Second), func() {
			if told.Result == agents.NoPlace {
				sh.placeless(r)
			} else {
				sh.exited(r, *told)
			}
		})
	}
}
