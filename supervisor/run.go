package supervisor

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/journal"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Run works until ctx is done, then ends every session within the grace, releases its claim, and returns nil. An error
// is one line that says why the supervisor could not start.
func (s *Supervisor) Run(ctx context.Context) error {
	if err := s.check(); err != nil {
		return err
	}
	s.init()
	held, err := s.enter()
	if err != nil {
		return err
	}
	defer held.Close()
	base, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	s.until, s.base = ctx, base
	s.state.open(s.Instance(), ctx, base)
	s.renameAtStart()
	survivors, running := s.state.adopt(s.sessions.outlives), s.services.adopt()
	closeAPI, err := s.serve()
	if err != nil {
		return errors.Join(err, s.state.journal.Close())
	}
	closePorts := s.keepPorts()
	written, untold := s.keepStatusFile(), s.keepFleetFile()
	s.removeLeftovers()
	s.beginAnswers()
	if s.Ready != nil {
		s.Ready()
	}
	here := s.keepersHere(ctx)
	s.tellCrash(s.sessions.resumeAll(survivors, here))
	s.services.resumeAll(running)
	if ctx.Err() == nil {
		for _, k := range here {
			s.sessions.endUnknown(keeper{k.Runner, slices.DeleteFunc(k.runs, s.services.serving.runs)}, true)
		}
		s.work(ctx)
		<-ctx.Done()
	}
	s.shutdown(abandon)
	for _, f := range s.state.idleTimes(time.Now()) {
		s.state.record(ledger.Record{At: f.Until, Free: &f})
	}
	s.state.answers.End(time.Now())
	untold()
	closePorts()
	closeAPI()
	written()
	return s.state.journal.Close()
}

// work starts the loops and the services.
func (s *Supervisor) work(ctx context.Context) {
	s.sessions.settleElsewhere(ctx)
	s.gate.open(ctx)
	s.services.beginServices()
	s.planner.startLoops()
	s.inLoop("the commands in comments", func() { s.conversation.carryOutComments(ctx) })
	s.inLoop("the hub", func() { s.keepHub(ctx) })
	s.inLoop("the look at servers", func() { s.inference.keepServers(ctx) })
	s.inLoop("the clearing of the state directory", func() { s.cleaner.keepDisk(ctx) })
	s.inLoop("the room elsewhere", func() { s.planner.keepRooms(ctx) })
	s.inLoop("the forecasts", func() { s.history.keepOutlook(ctx) })
	s.inLoop("the receipts in pull requests", func() { s.receipting.keepReceipts(ctx) })
}

// check validates the exported fields.
func (s *Supervisor) check() error {
	if !filepath.IsAbs(s.StateDir) {
		return fmt.Errorf("internal error: the state directory %q is not absolute", s.StateDir)
	}
	if s.Config != nil && (s.Forge == nil || s.Executor == nil) {
		return errors.New("internal error: a configuration without a forge or an executor")
	}
	return nil
}

// enter locks the state directory and restores its journal.
func (s *Supervisor) enter() (held *os.File, err error) {
	// Agents with their own accounts pass through this folder to their homes; only we can read its files.
	if err := os.MkdirAll(s.StateDir, 0o711); err != nil {
		return nil, fmt.Errorf("cannot create the state directory: %w", err)
	}
	if held = s.Held; held != nil {
		err = journal.Relock(held)
	} else {
		held, err = journal.Lock(s.StateDir, s.PID)
	}
	if err != nil {
		return nil, err
	}
	id, origin, err := journal.Instance(s.StateDir)
	if err == nil {
		s.id.Store(&id)
		err = s.restore(origin)
	}
	if err != nil {
		held.Close()
		return nil, err
	}
	return held, nil
}

// restoreGC makes the garbage collector run early while a journal is read. For 100,000 lines it took 0.97 s of CPU and
// 28 MB, and with 20 percent 1.40 s and 24 MB; of 34,000 failed issues 1.6 s and 79 MB, with 100 percent 1.3 s and
// 96 MB.
const restoreGC = 50

// restore folds the journal, ends the sessions that the last supervisor left open, and rewrites the journal. If the
// journal cannot be rewritten, such as on a full disk, everything else still works. origin is the first identity of the
// state directory.
func (s *Supervisor) restore(origin string) error {
	defer debug.SetGCPercent(debug.SetGCPercent(restoreGC))
	now := time.Now()
	past, newest, fresh, read := ledger.New(), now, true, 0
	gone := !journal.Exists(s.StateDir)
	j, corrupt, err := journal.Open(s.StateDir, func(r ledger.Record) {
		fresh = false
		read++
		past.Apply(r)
		if r.At.After(newest) {
			newest = r.At
		}
	})
	if err != nil {
		return err
	}
	if kind := j.Newer(); kind != "" && !s.IgnoreNewer {
		return errors.Join(newerJournal(s.StateDir, kind), j.Close())
	}
	past.TurnBack(newest, now)
	s.state.journal, j.Synced = j, s.Meters.Synced
	s.state.readReminders(s.StateDir)
	lost := s.receipting.openReceipts(past, origin, now, s.sessions.outlives)
	unread := s.lostOf(past, gone, fresh && corrupt == 0)
	s.logNotices(s.state.replay(past, now, s.sessions.outlives, lost)...)
	if s.Upgrades+s.Crashes == 0 { // a person started it, perhaps with another key in the environment
		s.state.tryAgain(now)
	}
	if corrupt > 0 {
		words := "corrupt"
		if j.Newer() != "" {
			words = "corrupt, or of a newer version,"
		}
		s.problems.setCorrupt(corrupt, words)
		s.log.Error(fmt.Sprintf("%d lines of the journal are %s and are set aside in journal.corrupt", corrupt, words))
		if read == 0 {
			s.log.Error("no line of the journal can be read: attempts, back-off and pauses are lost")
		}
		err = j.SetAside()
	}
	if err == nil { // nothing else changes the ledger before restore returns
		err = j.Rewrite(func() iter.Seq[ledger.Record] { return past.Compaction(now) })
	}
	s.journalled(err)
	s.sessions.unsure = fresh || corrupt > 0 || unread != ""
	s.problems.setLost(unread)
	s.pausing.pauseFirst(fresh && corrupt == 0)
	return nil
}

// DefaultGrace is the grace of a stop without a valid configuration.
const DefaultGrace = 7 * time.Second

// shutdown ends all sessions and waits for them and their releases, but not indefinitely: Docker kills after 10 s, and
// the next start releases the remaining claims. Run's context is done, so no plan commits anything any more; the
// sessions committed before are in the table.
func (s *Supervisor) shutdown(abandon func()) {
	grace := DefaultGrace
	if cfg := s.state.config(); cfg != nil {
		grace = cfg.Factory.StopGrace
	}
	s.gate.open(s.until) // a command that waits for the start learns that none follows
	end := time.Now().Add(grace + releaseTime)
	s.inference.saves.endAt(end.Add(-releaseTime))
	s.inference.locateConversations(func(string) bool { return true })
	ending, staying := s.state.endAll(errShutdown)
	if ending > 0 {
		s.log.Info(fmt.Sprintf("stopping: ending %s within %s", control.Count(ending, "session"), grace))
	}
	if staying > 0 {
		s.log.Info("stopping: leaving " + control.Count(staying, "session") + " to run elsewhere")
	}
	done := make(chan struct{})
	go s.safely("the end", func() {
		defer close(done)
		s.loops.Wait() // first: a loop may still start a session or chore
		s.running.Wait()
	})
	limit := time.NewTimer(time.Until(end))
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
		abandon()
		s.log.Info("stopped before every claim was released: the next start releases the rest")
	}
	s.services.stopServices(end)
}
