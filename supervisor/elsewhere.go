package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/logtime"
	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/threads/ledger"
)

// placed records where the program of a session elsewhere runs, unless the journal has it, and starts copying its log.
func (rn *sessionRunner) placed(x *session, begun agents.Started) {
	if x.thread.Executor == "" {
		return
	}
	defer rn.copyLog(x)
	if rn.state.hasBegun(x) {
		return
	}
	rn.state.began(x, begun)
	placed := &ledger.Placed{Run: x.RunID, Place: begun.Place, Began: begun.At}
	rn.state.record(ledger.Record{At: time.Now(), Placed: placed})
}

// hasBegun reports whether the ledger has the time at which a session's program started elsewhere.
func (st *state) hasBegun(x *session) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return !st.ledger.Open[x.RunID].Began.IsZero()
}

// copyLog copies the log of a session elsewhere to the path at which the log of a local session would be, so that
// people can follow it, and read it after the engine has deleted its own.
func (rn *sessionRunner) copyLog(x *session) {
	far, ok := rn.executor(x.thread.Executor).(logger)
	if !ok {
		return
	}
	ctx, stop := context.WithCancel(rn.base)
	rn.background(&rn.running, "the end of the log of "+x.tag, func() {
		defer stop()
		rn.awaitLog(ctx, x)
	})
	rn.background(&rn.running, "the log of "+x.tag, func() {
		defer stop()
		path := logPath(rn.stateDir, x.Agent, x.RunID)
		w := &timedLog{known: sizeOf(path)} // the engine sends what an earlier supervisor copied once more
		file, err := createLog(path)
		if err == nil {
			defer file.Close()
			w.file, w.times = file, logtime.Open(path, w.known)
			defer w.times.Close()
			w := io.Writer(w)
			if most := x.config.Factory.MaxLog; most > 0 {
				w = &atMost{w, most}
			}
			err = far.Log(ctx, x.RunID, true, w)
		}
		if err != nil && !errors.Is(err, errLogFull) && ctx.Err() == nil {
			rn.of(x.RunID).Info(fmt.Sprintf("%s cannot copy the whole log: %s", x.tag, text(err)))
		}
	})
}

// logTime is how long copyLog waits for the rest of a log after the end of its session.
const logTime = 10 * time.Second

// awaitLog returns when copying a session's log must end.
func (rn *sessionRunner) awaitLog(ctx context.Context, x *session) {
	select {
	case <-ctx.Done():
		return
	case <-x.gone:
	}
	select {
	case <-ctx.Done():
	case <-rn.until.Done():
	case <-time.After(logTime):
	}
}

// createLog creates a log file that only this supervisor reads, and deletes an older one. The folder is ours alone.
func createLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return plainfile.Create(path)
}

func sizeOf(path string) int64 {
	info, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// timedLog is a log whose lines get their times as they come, but for the bytes at its beginning that are known.
type timedLog struct {
	file        *os.File
	times       *logtime.Writer
	known, size int64
}

// Write appends p.
func (l *timedLog) Write(p []byte) (int, error) {
	if now := time.Now(); l.size >= l.known && l.times.Due(now) {
		l.times.Add(l.size, now)
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

var errLogFull = errors.New("the log has reached max_log")

// atMost writes at most left bytes to w.
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

// left reports whether a session continues after Run returns: the supervisor stops, and has detached the session.
func (x *session) left(out agents.Outcome) bool {
	return errors.Is(context.Cause(x.ctx), agents.ErrDetached) && out.Result == agents.Lost
}
