package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Sessions that run elsewhere outlive the supervisor. What is needed to go on with one stands in the journal before its
// program can run: the start, and after the claim what its end is judged by (ledger.Sent). So a supervisor that was
// killed at any point leaves a session that the next one either goes on with or knows never to have been sent.

// keptRestMin and keptRestMax bound the time between two questions for kept sessions to an engine that does not answer.
const (
	keptRestMin = 5 * time.Second
	keptRestMax = time.Minute
	// roomRest is the time between two looks at the room of machines elsewhere.
	roomRest = 30 * time.Second
)

var errUnknown = errors.New("the journal does not know it")

// outlives reports whether an open session goes on without the supervisor that began it.
func (s *Supervisor) outlives(o *ledger.Open) bool {
	return o.Outlives() && s.Elsewhere[o.Executor] != nil
}

// goOn continues the sessions elsewhere that the last supervisor, or image, left running.
func (s *Supervisor) goOn() {
	list := s.books.goOn(s.outlives)
	for _, x := range list {
		s.inSession(x, s.resume)
	}
	if len(list) > 0 {
		s.log.Info(fmt.Sprintf("disinto goes on with %s elsewhere, from before it started",
			control.Count(len(list), "session")))
	}
}

func (b *books) goOn(outlives func(*ledger.Open) bool) (list []*session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, run := range slices.Sorted(maps.Keys(b.ledger.Open)) {
		o := b.ledger.Open[run]
		if !outlives(&o) {
			continue
		}
		x := continued(&HandedSession{Session: o.Session(), Login: o.Login, Reserved: o.At}, b.cfg, b.base)
		x.thread.Executor, x.place, x.sent = o.Executor, o.Place, true
		x.PerSession, x.PerIssue = x.role.PerSession, x.role.PerIssue
		x.written, x.writtenAt = o.Used, time.Now()
		b.sessions[run] = x
		list = append(list, x)
	}
	return list
}

// settleElsewhere ends the sessions of ours that an engine keeps and the journal does not know. While the journal may
// have lost some, nothing begins before that is done: an item would be worked on twice. Otherwise there are none but
// those of an older copy of the state directory, and nothing waits.
func (s *Supervisor) settleElsewhere(ctx context.Context) {
	for _, name := range s.usedElsewhere() {
		if s.unsure {
			s.settle(ctx, name)
		} else {
			s.inLoop("the sessions that "+name+" keeps", func() { s.settle(ctx, name) })
		}
	}
}

// usedElsewhere names the executors elsewhere that threads use, sorted.
func (s *Supervisor) usedElsewhere() []string {
	used := make(map[string]bool)
	if config := s.books.config(); config != nil {
		for i := range config.Threads {
			if name := config.Threads[i].Executor; s.Elsewhere[name] != nil {
				used[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(used))
}

// settle is settleElsewhere for one executor. It asks until the engine answers.
func (s *Supervisor) settle(ctx context.Context, name string) {
	e := s.Elsewhere[name]
	for rest := keptRestMin; ctx.Err() == nil; rest = min(2*rest, keptRestMax) {
		before := s.books.openRuns()
		runs, err := e.Kept(ctx, s.instance)
		if err == nil {
			s.unsettled("")
			s.endUnknown(e, slices.DeleteFunc(runs, func(run string) bool { return before[run] }))
			return
		}
		words := fmt.Sprintf("cannot ask %s for the sessions that it keeps: %s", name, text(err))
		if rest == keptRestMin && ctx.Err() == nil {
			s.log.Warn(words)
		}
		if s.unsure {
			s.unsettled(words + ": nothing is started before it answers, because the journal may not know them")
		}
		select {
		case <-ctx.Done():
		case <-time.After(rest):
		}
	}
}

// unsettled shows why nothing is started yet.
func (s *Supervisor) unsettled(words string) {
	s.problems.setUnsettled(words)
	s.touchStatus()
}

// endUnknown ends those of some runs that are not open, and returns when they have ended.
func (s *Supervisor) endUnknown(e Executor, runs []string) {
	open := s.books.openRuns()
	runs = slices.DeleteFunc(runs, func(run string) bool { return open[run] })
	if s.unsure && len(runs) > 0 {
		s.unsettled("nothing is started before the end of " + control.Count(len(runs), "session") +
			" elsewhere that the journal does not know")
		defer s.unsettled("")
	}
	var all sync.WaitGroup
	for _, run := range runs {
		s.log.Warn(fmt.Sprintf("ending the session %s: %s", run, errUnknown))
		s.background(&all, "the end of "+run, func() {
			ctx, end := context.WithCancelCause(s.base)
			end(errUnknown)
			e.Run(ctx, agents.Job{RunID: run}, nil)
		})
	}
	all.Wait()
}

// openRuns are the run ids of all sessions that have not ended.
func (b *books) openRuns() map[string]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	open := make(map[string]bool, len(b.ledger.Open))
	for run := range b.ledger.Open {
		open[run] = true
	}
	return open
}

// send journals what the end of a session elsewhere is judged by. Without that on the disk it must not run.
func (s *Supervisor) send(x *session) error {
	if x.thread.Executor == "" {
		return nil
	}
	if err := s.books.append(ledger.Record{At: time.Now(), Sent: ledger.SentOf(x.RunID, &x.Item)}); err != nil {
		return err
	}
	s.books.sent(x)
	return nil
}

func (b *books) sent(x *session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x.sent = true
}

// placed notes where the program of a session elsewhere runs, unless the journal says it, and has its log copied.
func (s *Supervisor) placed(x *session, begun agents.Started) {
	if x.thread.Executor == "" {
		return
	}
	defer s.copyLog(x)
	if s.books.hasBegun(x) {
		return
	}
	s.books.began(x, begun)
	s.books.note(ledger.Record{At: time.Now(), Placed: &ledger.Placed{Run: x.RunID, Place: begun.Place, Began: begun.At}})
}

// hasBegun reports whether the ledger knows since when the program of a session elsewhere runs.
func (b *books) hasBegun(x *session) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.ledger.Open[x.RunID].Began.IsZero()
}

// copyLog keeps a session's log that is elsewhere in the file where the log of a session of this machine is: so it can
// be followed, and read when the engine has long forgotten it.
func (s *Supervisor) copyLog(x *session) {
	far, ok := s.executor(x.thread.Executor).(logger)
	if !ok {
		return
	}
	ctx, stop := context.WithCancel(s.base)
	s.background(&s.running, "the end of the log of "+x.tag, func() {
		defer stop()
		s.awaitLog(ctx, x)
	})
	s.background(&s.running, "the log of "+x.tag, func() {
		defer stop()
		file, err := createLog(logPath(s.StateDir, x.Agent, x.RunID))
		if err == nil {
			defer file.Close()
			w := io.Writer(file)
			if most := x.config.Factory.MaxLog; most > 0 {
				w = &atMost{file, most}
			}
			err = far.Log(ctx, x.RunID, true, w)
		}
		if err != nil && !errors.Is(err, errLogFull) && ctx.Err() == nil {
			s.log.Warn(fmt.Sprintf("%s its log is not whole: %s", x.tag, text(err)))
		}
	})
}

// logTime is how long the rest of a log is waited for after the end of its session.
const logTime = 10 * time.Second

// awaitLog returns when there is nothing more to read of a session's log, or nothing that can be waited for.
func (s *Supervisor) awaitLog(ctx context.Context, x *session) {
	select {
	case <-ctx.Done():
		return
	case <-x.gone:
	}
	select {
	case <-ctx.Done():
	case <-s.until.Done():
	case <-time.After(logTime):
	}
}

// createLog makes a log anew, which nothing but this supervisor reads. Its folder is ours alone.
func createLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
}

var errLogFull = errors.New("the log has reached max_log")

// atMost writes so many bytes.
type atMost struct {
	w    io.Writer
	left int64
}

func (a *atMost) Write(p []byte) (int, error) {
	if int64(len(p)) > a.left {
		return 0, errLogFull
	}
	a.left -= int64(len(p))
	return a.w.Write(p)
}

// left reports whether a session goes on although Run has returned: the supervisor stops, and was told to leave it.
func (x *session) left(out agents.Outcome) bool {
	return errors.Is(context.Cause(x.ctx), agents.ErrDetached) && out.Result == agents.Lost
}

// detaches needs the mutex of the books.
func (x *session) detaches() bool { return x.sent && !x.thread.StopEnds }

// keepRooms measures what the machines elsewhere have left, until ctx is done.
func (s *Supervisor) keepRooms(ctx context.Context) {
	for {
		rooms := make(map[string]threads.Room)
		if config := s.books.config(); config != nil {
			for i := range config.Threads {
				s.measure(ctx, &config.Threads[i], rooms)
			}
		}
		s.books.setRooms(rooms)
		select {
		case <-ctx.Done():
			return
		case <-time.After(roomRest):
		}
	}
}

// measure adds the room of a thread that runs elsewhere. What is not known keeps nothing from starting.
func (s *Supervisor) measure(ctx context.Context, t *threads.Thread, rooms map[string]threads.Room) {
	unknown := threads.Room{Memory: math.MaxInt64, Disk: math.MaxInt64}
	room := unknown
	if far, ok := s.Elsewhere[t.Executor].(roomer); ok {
		if memory, disk, err := far.Room(ctx, t.Name); err == nil {
			room.Memory, room.Disk = memory, disk
		}
	}
	if far, ok := s.Elsewhere[t.Executor].(placer); ok {
		if why, err := far.Unfit(ctx, t.Nodes); err == nil {
			room.None = why
		}
	}
	if room != unknown {
		rooms[t.Name] = room
	}
}

func (b *books) setRooms(rooms map[string]threads.Room) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rooms = rooms
}
