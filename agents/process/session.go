package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// session is one run of an agent's program, seen from the supervisor: the other end of its shim.
type session struct {
	job    agents.Job
	reaper *Reaper
	// progress is the executor's.
	progress func(ctx context.Context, url string) string
	account  *account
	cgroup   cgroup
	nproc    uint64 // a limit of the account's processes; 0 for none

	shim   *Child
	since  uint64 // start of the shim in ticks since boot: nothing of the session is older
	socket *os.File
	in     *json.Decoder
	pid    atomic.Int64 // of the program; 0 until it runs
	begun  time.Time    // written before pid

	report   chan *endReport // the shim's last word; nil if it was killed before it could say it
	deaf     chan struct{}   // closed when nobody listens for it
	shimExit Exit

	letGo     chan letGo    // to whoever watches
	unwatched chan struct{} // closed when nobody watches any more
	verdict   verdict       // and mark, of an inherited session: what was found before
	mark      mark
}

func newSession(job agents.Job, e *Executor) *session {
	return &session{job: job, reaper: e.Reaper, progress: e.Progress, letGo: make(chan letGo), unwatched: make(chan struct{})}
}

func (s *session) program() int { return int(s.pid.Load()) }

// start makes the folders and the log, and starts the program under its shim.
func (s *session) start() (err error) {
	if s.account, err = findAccount(s.job.User); err != nil {
		return err
	}
	log, err := s.prepare()
	if err != nil {
		return err
	}
	defer log.Close()
	if slices.ContainsFunc(slices.Concat(s.job.Command, s.job.Env), func(v string) bool { return strings.Contains(v, "\x00") }) {
		return errors.New("a NUL byte in its arguments or environment")
	}
	path, err := Lookup(s.job.Command[0], s.job.Dir, s.job.Env)
	if err != nil {
		return err
	}
	s.cgroup = newCgroup(s.job.RunID)
	s.nproc = s.limit(log)
	if err = s.startShim(log); err != nil {
		s.close()
		return err
	}
	if err = s.startProgram(path); err != nil {
		s.abandon()
	}
	return err
}

// abandon is for a shim that has not said that the program runs. It may run all the same.
func (s *session) abandon() {
	_ = s.socket.Close()
	<-s.shim.Exit()
	s.sweep(true)
	s.close()
}

// prepare makes what the program needs to find, with the home first: its missing parents are passable for the account,
// which those of the log are not.
func (s *session) prepare() (log *os.File, err error) {
	if s.job.Home != "" {
		if err := makeFolder(s.job.Home, s.account); err != nil {
			return nil, err
		}
		if err := ownedBy(s.job.Home, s.account); err != nil {
			return nil, err
		}
	}
	if err := makeFolder(s.job.Dir, s.account); err != nil {
		return nil, err
	}
	if err := clearResult(s.job.ResultPath, s.account); err != nil {
		return nil, err
	}
	return openLog(s.job.LogPath, s.account)
}

// openLog opens the log to append to. It belongs to the account, in a folder that the account cannot enter: programs
// open /dev/stderr, and that is a fresh look at the file's permissions.
func openLog(path string, a *account) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err == nil && a != nil {
		err = log.Chown(int(a.cred.Uid), int(a.cred.Gid))
	}
	return log, err
}

// note writes a line to the log, for who looks there why nothing happens.
func (s *session) note(line string) {
	if log, err := openLog(s.job.LogPath, s.account); err == nil {
		_, _ = io.WriteString(log, "disinto: "+line+"\n")
		_ = log.Close()
	}
}

// startShim starts this program once more, as the session's shim. It goes by the link in /proc, so that it is the same
// program even if the file has been replaced since. The settings keep the shim small: it has one thing to do at a time,
// and next to no garbage.
func (s *session) startShim(log *os.File) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot talk to a session shim: %w", err)
	}
	defer unix.Close(pair[1])
	_ = unix.SetNonblock(pair[0], true) // or a session would cost a thread that waits in read
	s.socket = os.NewFile(uintptr(pair[0]), "session shim")
	s.in = json.NewDecoder(s.socket)
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	files := []uintptr{null.Fd(), log.Fd(), log.Fd(), uintptr(pair[1])}
	if s.cgroup.ok {
		files = append(files, uintptr(s.cgroup.fd))
	}
	s.shim, err = s.reaper.Start("/proc/self/exe", []string{"disinto", shimArg, s.job.RunID}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{"GOMAXPROCS=1", "GOGC=25"},
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("cannot start a session shim: %w", err)
	}
	if p, err := tree.Look(s.shim.PID); err == nil {
		s.since = p.Start
	}
	return nil
}

// startProgram sends the shim its order and waits for the report.
func (s *session) startProgram(path string) error {
	o := startOrder{
		Path: []byte(path), Dir: []byte(s.job.Dir), Argv: pack(s.job.Command), Env: pack(s.job.Env),
		Cred: s.account.credential(), Cgroup: s.cgroup.path,
		Limited: s.job.Limits != agents.Limits{}, NProc: s.nproc,
	}
	var report startReport
	err := json.NewEncoder(s.socket).Encode(o)
	if err == nil {
		err = s.in.Decode(&report)
	}
	if err != nil {
		// A Go program that gets no thread in its first millisecond dies like this, so it counts as exhaustion.
		return fmt.Errorf("the session shim ended before the program began (%v): %w", err, syscall.EAGAIN)
	}
	if report.Errno != 0 {
		return refusal(report.Errno, s.job)
	}
	s.begun = time.Now()
	s.pid.Store(int64(report.PID))
	s.report = make(chan *endReport, 1)
	s.listen()
	return nil
}

// listen waits for the shim's report, or for a deadline, with which the session is handed over.
func (s *session) listen() {
	deaf, in := make(chan struct{}), s.in
	s.deaf = deaf
	go func() {
		defer close(deaf)
		var r endReport
		switch err := in.Decode(&r); {
		case err == nil:
			s.report <- &r
		case !errors.Is(err, os.ErrDeadlineExceeded):
			s.report <- nil
		}
	}()
}

// end asks the shim to end the tree. If the shim is gone, watch is about to find out.
func (s *session) end(grace time.Duration) {
	_ = json.NewEncoder(s.socket).Encode(endOrder{Grace: grace})
}

// sweep kills what carries the run id, until there is nothing. After a proper report of the shim there is nothing, and
// this one look proves it. A shim that was killed has given what was below it to us, its nearest subreaper; of our
// adopted children then also those belong to the session that cannot gain privileges: only sessions are started so.
func (s *session) sweep(lost bool) {
	var env environ
	self, seen := os.Getpid(), map[tree.Process]bool{}
	member := func(p tree.Process) bool {
		if p.Start < s.since || p.PID == self {
			return false
		}
		return env.has(p.PID, runIDVar+s.job.RunID+"\x00") || lost && p.PPID == self && !s.reaper.own(p.PID) && restricted(p.PID)
	}
	for pause := time.Duration(0); ; time.Sleep(pause) {
		s.cgroup.kill()
		c, err := tree.Cull(member, seen)
		if err == nil && c.Alive == 0 && s.cgroup.empty() {
			return
		}
		pause = c.Pause(pause)
	}
}

// close gives back what the session held.
func (s *session) close() {
	if s.socket != nil {
		_ = s.socket.Close()
	}
	s.cgroup.remove()
	s.cgroup = cgroup{}
}
