package worlds

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
	"codeberg.org/johba/disinto/threads/sim"
)

// shell is a minimal supervisor: it scans, calls threads.Decide, and carries out the plan. It follows these rules of
// the real supervisor:
//
// - A start is in the table of sessions from its commit until its claim is released.
// - An issue or pull request counts as touched from the start of a write to the write's end. So a fact that was
// requested before the end of a write is never used.
// - Everything is recorded before it is acted on: see note.
// - After a restart the shell knows nothing about the forge, and each of our claims there is a leftover.
type shell struct {
	w        *world
	life     int  // counts restarts; events of an earlier life have no effect
	down     bool // killed and not restarted yet
	died     time.Time
	books    books
	facts    forge.Facts
	runs     []*run // by run id
	writes   []*write
	scanner  *scanner
	interval time.Duration
	hooked   bool // web hooks report actions of people
	apart    bool // each thread has a tick of its own
	names    int
	alarm    int // the newest alarm for NextWake
}

func newShell(w *world) *shell {
	sh := &shell{
		w: w, books: newBooks(), apart: w.chance(0.4),
		interval: w.within(w.size.poll), hooked: w.chance(0.7),
	}
	for _, name := range []string{"llama", "vllm"} { // a world is too short to learn verdicts
		ledger.Entry(sh.books.Threads, name).Returns = threads.Returns{
			N: w.number(0, 6), Gap: w.between(0, 30*time.Minute).Seconds(), Back: float64(w.number(0, 10)) / 10,
		}
	}
	return sh
}

// crash kills the supervisor at any point. Of every write under way, some more steps are executed, and the answer is
// lost. The agents' programs run until the supervisor restarts.
func (w *world) crash() {
	if w.calm {
		return
	}
	sh := w.shell
	kept := w.chance(0.7) || w.mood.crafty == 1 // a lost journal has no counts
	w.log("--- crash, journal kept: %v", kept)
	sh.life++
	sh.down, sh.died = true, w.Now
	for _, wr := range sh.writes {
		for wr.err == nil && len(wr.steps) > 0 && w.chance(0.5) {
			wr.step()
		}
	}
	w.After(w.between(0, time.Minute), func() { sh.boot(kept) })
	w.After(w.between(20*time.Minute, 3*time.Hour), w.crash)
}

// boot starts the supervisor. It ends every program of the last life, and knows only its journal.
func (sh *shell) boot(journal bool) {
	sh.w.log("boot")
	dead := sh.survive(journal)
	switch {
	case !journal:
		sh.books = newBooks()
		sh.w.checks.after, sh.w.checks.tolls = newAftermath(), newTolls()
		sh.w.forge.forgetWriters()
	case sh.life > 0:
		if sh.w.trouble(0.3) {
			sh.setClock()
		}
		sh.books.reread(sh.w.Now, dead)
		sh.w.checks.report("no remembered event is in the future", sh.books.fromTheFuture(sh.w.Now))
	}
	for _, r := range sh.w.forge.repos {
		sh.record(ledger.Record{Listen: &ledger.Listen{Ref: ledger.Ref{Repo: r.name}, Since: sh.w.Now}})
	}
	sh.writes, sh.facts, sh.down = nil, forge.Facts{}, false
	for _, r := range sh.runs {
		sh.goOn(r)
	}
	sh.scanner = newScanner(sh.w, sh.life)
	sh.poll()
}

// poll scans at a fixed interval.
func (sh *shell) poll() {
	life := sh.life
	sh.scanner.scan()
	sh.w.After(sh.interval, func() {
		if life == sh.life {
			sh.poll()
		}
	})
}

// kick scans once the clock has advanced. Web hooks, ends of sessions and commands kick.
func (sh *shell) kick() {
	life := sh.life
	sh.w.After(clockStep, func() {
		if !sh.down && life == sh.life {
			sh.scanner.scan()
		}
	})
}

// scanned accepts the facts of a scan.
func (sh *shell) scanned(f forge.Facts, more bool) {
	sh.facts = f
	sh.tick()
	if more {
		sh.scanner.scan()
	}
}

// tick decides and acts, for all threads at once or for one after the other.
func (sh *shell) tick() {
	if sh.down {
		return
	}
	if !sh.apart {
		sh.pass(func(threads.Start) bool { return true })
	} else {
		for _, i := range sh.w.rng.Perm(len(sh.w.cfg.Threads)) {
			name := sh.w.cfg.Threads[i].Name
			sh.pass(func(s threads.Start) bool { return s.Thread == name })
		}
	}
	sh.w.checks.settled()
}

// pass acts on one plan. ours selects the starts to commit.
func (sh *shell) pass(ours func(threads.Start) bool) {
	s := sh.snapshot()
	plan := threads.Decide(s)
	sh.w.seen.Plans++
	sh.w.checks.plan(&s, &plan)
	for _, stop := range plan.Stops {
		sh.stop(stop)
	}
	for _, m := range plan.Merges {
		sh.merge(m)
	}
	for _, m := range plan.Marks {
		sh.mark(m)
	}
	for _, start := range plan.Starts {
		if ours(start) {
			sh.commit(start)
		}
	}
	sh.setAlarm(plan.NextWake)
	sh.w.over = sh.w.calm && sh.quiet(&s, &plan)
}

// snapshot returns the input of Decide.
func (sh *shell) snapshot() threads.Snapshot {
	for _, wr := range sh.writes {
		sh.books.touch(sh.w.coarse(), wr.refs...)
	}
	sessions := make([]threads.Session, len(sh.runs))
	for i, r := range sh.runs {
		sessions[i] = r.Session
	}
	return threads.Snapshot{
		Now: sh.w.Now, Config: sh.w.cfg, Facts: sh.facts, Sessions: sessions, History: sh.books.History, Room: sh.w.room(),
		Rooms:   sh.w.rooms(),
		Outages: sh.w.outages(), Caches: sh.w.caches(),
	}
}

// record applies a journal record. Every action follows its record.
func (sh *shell) record(r ledger.Record) {
	r.At = sh.w.Now
	sh.books.Apply(r)
}

// setAlarm schedules a tick at the NextWake of the newest plan.
func (sh *shell) setAlarm(at time.Time) {
	sh.alarm++
	if at.IsZero() {
		return
	}
	life, alarm := sh.life, sh.alarm
	sh.w.After(at.Sub(sh.w.Now), func() {
		if life == sh.life && alarm == sh.alarm {
			sh.tick()
		}
	})
}

// write is a change of the forge that is under way. Each step happens at its own time, and can fail.
type write struct {
	refs  []forge.Ref
	steps []func() error
	err   error
}

func (wr *write) step() {
	wr.err = wr.steps[0]()
	wr.steps = wr.steps[1:]
}

var errUnavailable = fmt.Errorf("cannot write: %w", forge.ErrUnavailable)

// write starts a change of issues and pull requests. done can get an error although the change has happened, as if the
// forge's answer was lost.
func (sh *shell) write(refs []forge.Ref, done func(error), steps ...func() error) {
	wr := &write{refs: refs, steps: steps}
	if sh.w.trouble(0.04) {
		wr.steps = []func() error{func() error { return errUnavailable }}
	}
	sh.writes = append(sh.writes, wr)
	life := sh.life
	var next func()
	next = func() {
		if life != sh.life {
			return
		}
		if len(wr.steps) > 0 && wr.err == nil {
			wr.step()
			sh.w.After(sh.w.between(10*time.Millisecond, time.Second), next)
			return
		}
		if wr.err == nil && sh.w.trouble(0.02) {
			wr.err = errUnavailable
		}
		sh.writes = slices.DeleteFunc(sh.writes, func(o *write) bool { return o == wr })
		sh.books.touch(sh.w.coarse(), refs...)
		done(wr.err)
	}
	sh.w.After(sh.w.between(10*time.Millisecond, 2*time.Second), next)
}

// merge merges a pull request. This changes the base of every other pull request of the repository, so the repository
// counts as touched.
func (sh *shell) merge(m threads.Merge) {
	p := sh.w.forge.pull(m.Ref)
	refs := append(sh.related(m.Ref), forge.Ref{Repo: m.Ref.Repo})
	done := func(err error) {
		sh.w.log("merge  %s at %s: %v", m.Ref, m.HeadSHA, orDone(err))
		if no, refused := errors.AsType[*forge.Refusal](err); refused {
			sh.noMerge(m, no)
		} else {
			sh.books.answered(m.Key(), sh.w.Now, err)
		}
		sh.kick()
	}
	meddle := func() error {
		if sh.w.trouble(0.2) {
			sh.w.meddle(p)
		}
		return nil
	}
	sh.write(refs, done, meddle, func() error {
		now := p.Pull
		if !p.Closed {
			sh.scanner.mergeability(sh.w.forge.repo(p.Repo), p, &now)
		}
		if why := threads.StillMerges(sh.snapshot(), m, now); why != "" {
			sh.w.log("merge  %s withdrawn: %s", m.Ref, why)
			return errRefused
		}
		sh.w.checks.report("a merged pull request is approved, green and wanted at that moment", sh.w.forge.mergeable(p))
		return sh.w.forge.merge(p, m.HeadSHA, m.Base)
	})
}

// noMerge records the forge's refusal of a merge, as the supervisor does.
func (sh *shell) noMerge(m threads.Merge, no *forge.Refusal) {
	is := threads.NoMerge{Head: m.HeadSHA, Base: m.Base, Cause: no.Cause, Words: no.Words, Count: 1}
	if was := sh.books.Chain(m.Ref).NoMerge; was != nil && was.Head == is.Head && was.Base == is.Base {
		is.Count += was.Count
	}
	is.Until = sh.w.Now.Add(refusedRest << min(is.Count-1, 5))
	sh.record(ledger.Record{NoMerge: &ledger.NoMerge{Ref: ledger.Ref(m.Ref), NoMerge: is}})
}

// mark writes a mark of a plan.
func (sh *shell) mark(m threads.Mark) {
	asked := sh.books.Chain(m.Ref).Dialogue
	if m.Action == threads.ActAnswered { // recorded first: without the label, no scan reads the answer again
		sh.record(sim.RecordOf(&m))
		sh.w.checks.after.marked(&m, sh.w.Now)
	}
	done := func(err error) {
		sh.w.log("mark   %s %s (%s): %v", m.Ref, m.Action, m.Reason.Text(), orDone(err))
		sh.books.answered(m.Key(), sh.w.Now, err)
		switch {
		case err != nil || m.Action == threads.ActAnswered:
		case m.Action == threads.ActAsk:
			sh.record(ledger.Record{Asked: &ledger.Asked{Ref: ledger.Ref(m.Ref), Run: asked.Run}})
		default:
			sh.record(sim.RecordOf(&m))
			sh.w.checks.after.marked(&m, sh.w.Now)
			if m.Reason.Code == threads.OverLimit {
				delete(sh.books.dues, m.Item.Chain)
			}
		}
		sh.kick()
	}
	sh.write(sh.related(m.Ref), done, sh.w.forge.markSteps(m, sh.w.logins[m.Agent])...)
}

// related returns an issue or pull request with its whole chain: the issues of a pull request, and all their pull
// requests. A write to one of them affects all.
func (sh *shell) related(ref forge.Ref) []forge.Ref {
	refs := []forge.Ref{ref}
	if p := sh.facts.Pull(ref); p != nil {
		refs = append(refs, p.Closes...)
	}
	for i := range sh.facts.Pulls {
		p := &sh.facts.Pulls[i]
		if slices.ContainsFunc(p.Closes, func(r forge.Ref) bool { return slices.Contains(refs, r) }) {
			refs = append(refs, p.Ref)
		}
	}
	return refs
}

func orDone(err error) string {
	if err == nil {
		return "done"
	}
	return err.Error()
}

// unfinished describes what prevents the world from ending.
func (sh *shell) unfinished() string {
	s := sh.snapshot()
	plan := threads.Decide(s)
	var words []string
	for _, r := range sh.runs {
		words = append(words, r.String())
	}
	for _, st := range plan.Starts {
		words = append(words, fmt.Sprintf("%s would start %s %s", st.Agent, st.Item.Kind, st.Item.Ref))
	}
	for _, h := range plan.Holds {
		if !sh.final(&s, &plan, h, nil) {
			words = append(words, fmt.Sprintf("%s %s: %s", h.Item.Kind, h.Item.Ref, h.Reason.Text()))
		}
	}
	return strings.Join(words, "; ")
}
