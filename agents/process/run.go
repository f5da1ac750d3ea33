package process

import (
	"context"
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
	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/agents/process/landlock"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// run is the supervisor's side of one session: its counterpart is the shim.
type run struct {
	job     agents.Job
	exec    *Executor
	account *account
	cgroup  cgroup
	nproc   uint64         // limit on the account's processes; 0 means none
	held    string         // the sandbox's restrictions, for people; empty without a sandbox
	rules   landlock.Rules // of the sandbox
	// confined is the shim's process number if its program runs in a sandbox or is about to.
	confined atomic.Int64

	shim  *Child
	since uint64 // the shim's start in ticks since boot: no process of the session is older
	link  *link
	pid   atomic.Int64 // of the program; 0 until it runs
	begun time.Time    // written before pid

	// The goroutine that watches owns these three. In an inherited session the first two continue the last image's.
	verdict verdict
	idle    idle
	meter   meter

	observed *observations // written before pid

	visits    chan func()   // run by the goroutine that watches
	unwatched chan struct{} // closed when the session is no longer watched
}

// newRun makes a run. Env of its job holds the whole environment, secrets included.
func newRun(job agents.Job, e *Executor) *run {
	job.Env = slices.Concat(job.Env, job.Secrets)
	return &run{job: job, exec: e, visits: make(chan func()), unwatched: make(chan struct{})}
}

// program returns the program's process number, or 0 before it runs.
func (r *run) program() int { return int(r.pid.Load()) }

// follow watches a running session until none of its processes is left.
func (r *run) follow(ctx context.Context, started func(agents.Started)) agents.Outcome {
	whole := false
	defer func() {
		if whole {
			r.close()
		} else { // a panic, after which the supervisor counts the session as ended
			r.abandon()
		}
	}()
	if started != nil {
		started(agents.Started{PID: r.program(), At: r.begun, Sandbox: r.held})
	}
	if r.job.Service == "" {
		r.exec.observer.begin(r.observed)
		defer r.exec.observer.end(r.observed)
	}
	exit := r.watch(ctx)
	secrets := agents.HiddenValues(r.job.Secrets)
	if r.exec.Secrets != nil {
		secrets = append(secrets, r.exec.Secrets()...)
	}
	o := r.conclude(exit, secrets)
	o.Tail = tail(r.job.LogPath, secrets)
	if r.job.Service == "" {
		o.Seen = r.observed.report(r.changed(secrets), secrets)
	}
	_ = r.removeTmp() // the next session retries it
	o = r.explainRefusal(o)
	whole = true
	return o
}

// start makes the folders and the log, and starts the program under its shim.
func (r *run) start() (err error) {
	if r.account, err = findAccount(r.job.User); err != nil {
		return err
	}
	log, err := r.prepare()
	if err != nil {
		return err
	}
	defer log.Close()
	nul := func(s string) bool { return strings.Contains(s, "\x00") }
	if slices.ContainsFunc(r.job.Command, nul) || slices.ContainsFunc(r.job.Env, nul) {
		return errors.New("a NUL byte in its arguments or environment")
	}
	path, err := Lookup(r.job.Command[0], r.job.Dir, r.job.Env)
	if err != nil {
		return err
	}
	sandbox, err := r.confine()
	if err != nil {
		return err
	}
	r.cgroup = newCgroup(r.job.RunID)
	r.nproc = r.limit(log)
	if err = r.startShim(log); err != nil {
		r.close()
		return err
	}
	if sandbox != nil {
		r.confined.Store(int64(r.shim.PID))
		r.rules = r.allowed(path) // computed while the shim starts, which takes longer
		sandbox.Rules = r.rules
	}
	if err = r.startProgram(path, sandbox); err != nil {
		r.abandon()
	}
	return err
}

// abandon ends a shim that has not reported a running program. Its program may be running.
func (r *run) abandon() {
	r.link.close()
	select {
	case <-r.shim.Exit():
	case <-time.After(shimSlack):
		r.signalShim(unix.SIGKILL)
		<-r.shim.Exit()
	}
	r.sweep(true)
	r.close()
}

// signalShim signals the shim unless it has ended.
func (r *run) signalShim(s unix.Signal) { _ = tree.Process{PID: r.shim.PID, Start: r.since}.Signal(s) }

// prepare makes the folders and files that the program needs. The home comes first, because the account can pass
// through parents made for the home, but not through those made for the log.
func (r *run) prepare() (log *os.File, err error) {
	if r.job.Home != "" {
		if err := makeFolder(r.job.Home, r.account); err != nil {
			return nil, err
		}
		if err := ownedBy(r.job.Home, r.account); err != nil {
			return nil, err
		}
	}
	if err := makeFolder(r.job.Dir, r.account); err != nil {
		return nil, err
	}
	if err := clearResult(r.job.ResultPath, r.account); err != nil {
		return nil, err
	}
	if err := r.freshTmp(); err != nil {
		return nil, err
	}
	return openLog(r.job.LogPath, r.account)
}

// openLog opens the log for appending. When a program opens /dev/stderr, the kernel checks the program's permissions
// on the log again, so the log belongs to the account. The log's folder does not, and the account cannot enter it.
func openLog(path string, a *account) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	log, err := plainfile.Open(path, os.O_CREATE|os.O_RDWR|os.O_APPEND)
	if err == nil && a != nil {
		err = log.Chown(int(a.cred.Uid), int(a.cred.Gid))
	}
	return log, err
}

// log writes a line to the log, where people look first.
func (r *run) log(line string) {
	if log, err := openLog(r.job.LogPath, r.account); err == nil {
		_, _ = io.WriteString(log, "disinto: "+line+"\n")
		_ = log.Close()
	}
}

// startShim starts this program again, as the session's shim. The link in /proc leads to the same program even if its
// file has been replaced. GOMAXPROCS and GOGC keep the shim small: it does one thing at a time and makes almost no
// garbage.
func (r *run) startShim(log *os.File) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot talk to a session shim: %w", err)
	}
	defer unix.Close(pair[1])
	_ = unix.SetNonblock(pair[0], true) // otherwise each session would keep a thread blocked in read
	r.link = newLink(pair[0])
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	files := []uintptr{null.Fd(), log.Fd(), log.Fd(), uintptr(pair[1])}
	if r.cgroup.ok {
		files = append(files, uintptr(r.cgroup.fd))
	}
	r.shim, err = r.exec.Reaper.Start("/proc/self/exe", []string{"disinto", shimArg, r.job.RunID}, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{"GOMAXPROCS=1", "GOGC=25"},
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("cannot start a session shim: %w: %w", tree.ErrNoProc, err)
	}
	if err != nil {
		return fmt.Errorf("cannot start a session shim: %w", err)
	}
	if p, err := tree.Find(r.shim.PID); err == nil {
		r.since = p.Start
	}
	return nil
}

// answerTime bounds the time in which a shim starts the program. A start takes milliseconds, unless an agent stops
// the shim.
const answerTime = 30 * time.Second

// startProgram sends the shim its order and waits for the answer.
func (r *run) startProgram(path string, sandbox *sandboxOrder) error {
	_ = r.link.socket.SetReadDeadline(time.Now().Add(answerTime))
	report, err := r.link.start(startOrder{
		Path: []byte(path), Dir: []byte(r.job.Dir), Argv: pack(r.job.Command), Env: pack(r.job.Env),
		Cred: r.account.credential(), Cgroup: r.cgroup.path,
		Limited: r.job.Limits != agents.Limits{}, NProc: r.nproc, MaxLog: r.job.MaxLog, Sandbox: sandbox,
		Service: r.job.Service != "", Log: []byte(r.job.LogPath), StopSignal: stopSignal(r.job.StopSignal),
	})
	_ = r.link.socket.SetReadDeadline(time.Time{})
	if err != nil {
		// A Go program that gets no thread in its first millisecond dies in this way, so this counts as lack of room.
		return fmt.Errorf("the session shim ended before the program began (%v): %w", err, syscall.EAGAIN)
	}
	if report.NoSandbox != "" && report.Errno != 0 {
		return fmt.Errorf("its sandbox is strict, and this machine has none: %s", report.NoSandbox)
	}
	if report.NoSandbox != "" {
		r.log("no sandbox: " + report.NoSandbox)
		r.held = ""
		r.confined.Store(0)
	}
	if report.Errno != 0 {
		return r.refusal(report.Errno, path)
	}
	r.begun, r.observed = time.Now(), newObservations(r, report.PID, nil)
	r.pid.Store(int64(report.PID))
	r.link.listen()
	return nil
}

// sweep kills processes that carry the run id until there are none. After a shim's report there are none, and one
// look confirms it. If the shim was killed without a report (lost), its children are now ours, as we are the nearest
// subreaper. Then our orphans with no_new_privs belong to the session too, because only sessions start with it.
func (r *run) sweep(lost bool) {
	var env environ
	self := os.Getpid()
	hunt := tree.Killer{Member: func(p tree.Process) bool {
		if p.Start < r.since || p.PID == self {
			return false
		}
		return env.has(p.PID, runIDVar+r.job.RunID+"\x00") ||
			lost && p.PPID == self && !r.exec.Reaper.isOwn(p.PID) && restricted(p.PID)
	}}
	for ; ; time.Sleep(hunt.Pause) {
		r.cgroup.kill()
		if alive, err := hunt.KillOnce(); err == nil && alive == 0 && r.cgroup.empty() {
			return
		}
	}
}

// close closes the descriptors and removes the cgroup. It may be repeated.
func (r *run) close() {
	if r.link != nil {
		r.link.close()
	}
	r.cgroup.remove()
}
