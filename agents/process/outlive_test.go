package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// socketStore is the store of a helper below this test process: messages over a socket pair, as to an init.
type socketStore struct {
	fd   int
	step string // at which the supervisor kills itself
}

func (s *socketStore) Keep(name string, fd, pid int, start uint64) error {
	dieAt(s.step, "before "+strings.Fields(name)[0])
	text := fmt.Sprintf("keep %d %d %s", pid, start, name)
	err := unix.Sendmsg(s.fd, []byte(text), unix.UnixRights(fd), nil, unix.MSG_NOSIGNAL)
	dieAt(s.step, "after "+strings.Fields(name)[0])
	return err
}

func (s *socketStore) Drop(name string) {
	_ = unix.Sendmsg(s.fd, []byte("drop "+name), nil, nil, unix.MSG_NOSIGNAL)
}

// dieAt kills this process if it is at its step.
func dieAt(step, at string) {
	if step == at {
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		select {}
	}
}

// keeperGrace and keeperTimeout are those of a keeper's session.
const (
	keeperGrace   = 5 * time.Second
	keeperTimeout = "KEEPER_TIMEOUT"
	keeperEgress  = "KEEPER_EGRESS"
	keeperNetwork = "KEEPER_NETWORK"
)

// keeper is a supervisor that runs one session and keeps it in a store, given a folder, a run id, the script, and the
// step at which it kills itself.
func keeper(args []string) int {
	dir, runID, script, step := args[0], args[1], args[2], args[3]
	if _, err := Init(); err != nil {
		return 3
	}
	r, err := NewChildReaper()
	if err != nil {
		return 4
	}
	cgroupRoot = func() string { return "" }
	timeout, _ := time.ParseDuration(os.Getenv(keeperTimeout))
	e := &Executor{Reaper: r, Store: &socketStore{3, step}, InitPID: os.Getppid(), Secrets: func() []string {
		dieAt(step, "ended")
		return nil
	}}
	e.Adopt(nil)
	job := agents.Job{
		RunID: runID, Instance: strings.TrimSuffix(runID, "-1"), Command: []string{"/bin/sh", "-c", script},
		Dir: dir + "/work", LogPath: dir + "/log", ResultPath: dir + "/result/r.json",
		Env:     []string{"PATH=/usr/bin:/bin", "DISINTO_RUN_ID=" + runID, "T=" + dir, "SUPERVISOR=" + itoa(os.Getpid())},
		Secrets: []string{"SECRET=hunter2hunter2"}, Grace: keeperGrace, Timeout: timeout,
	}
	if host := os.Getenv(keeperEgress); host != "" {
		job.Sandbox = agents.Sandbox{Mode: agents.SandboxAuto, Egress: []string{host}, Write: []string{dir}}
		if port := agents.Port("http://" + host); os.Getenv(keeperNetwork) != "" {
			job.Sandbox.OwnNetwork, job.Sandbox.Connect = true, []int{port}
		}
	}
	o := e.Run(context.Background(), job, func(s agents.Started) {
		_ = os.WriteFile(dir+"/program", []byte(itoa(s.PID)), 0o600)
		dieAt(step, "started")
	})
	dieAt(step, "reported")
	_ = os.WriteFile(dir+"/journalled", []byte(string(o.Result)+" "+o.Reason), 0o600)
	e.Forget(runID)
	dieAt(step, "forgotten")
	return 0
}

// kept is a keeper below this process, which stands for the init.
type kept struct {
	*testing.T
	dir, instance, run string
	child              *Child
	store              *testStore
	over               chan struct{} // closed when all that the keeper sent is in the store
}

// startKeeper starts a keeper whose session runs a script.
func startKeeper(t *testing.T, script, step string, env ...string) *kept {
	t.Helper()
	k := &kept{T: t, dir: t.TempDir(), instance: "i" + token(), store: new(testStore), over: make(chan struct{})}
	k.run = k.instance + "-1"
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	go k.receive(pair[0])
	log, err := os.Create(k.dir + "/stderr")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	argv := helperCommand("keeper", k.dir, k.run, script, step)
	k.child, err = reaper.Start(argv[0], argv, &syscall.ProcAttr{
		Env: append(os.Environ(), env...), Files: []uintptr{log.Fd(), log.Fd(), log.Fd(), uintptr(pair[1])},
	})
	_ = unix.Close(pair[1])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the supervisor printed:\n%s", read(log.Name()))
		}
	})
	return k
}

// receive fills the store until the keeper has ended.
func (k *kept) receive(fd int) {
	defer close(k.over)
	defer unix.Close(fd)
	text, rights := make([]byte, 4<<10), make([]byte, unix.CmsgSpace(4))
	for {
		n, more, _, _, err := unix.Recvmsg(fd, text, rights, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return
		}
		words := strings.SplitN(string(text[:n]), " ", 4)
		if words[0] == "drop" {
			k.store.Drop(strings.Join(words[1:], " "))
			continue
		}
		parts, _ := unix.ParseSocketControlMessage(rights[:more])
		fds, _ := unix.ParseUnixRights(&parts[0])
		pid, _ := strconv.Atoi(words[1])
		start, _ := strconv.ParseUint(words[2], 10, 64)
		_ = k.store.Keep(words[3], fds[0], pid, start)
		_ = unix.Close(fds[0])
	}
}

// kill kills the supervisor, and waits until it has ended and the store knows all that it sent. A process that it had
// just forked has its arguments until it executes another program.
func (k *kept) kill() {
	_ = unix.Kill(k.child.PID, unix.SIGKILL)
	k.await()
	eventually(k.T, "no supervisor is left", func() bool { return len(alive(k.T, "keeper\x00"+k.dir)) == 0 })
}

// send sends a message to the session's shim.
func (k *kept) send(text string) {
	k.Helper()
	for _, one := range k.store.list(k.T) {
		if one.PID > 0 {
			if _, err := unix.Write(one.FD, []byte(text)); err != nil {
				k.Error(err)
			}
		}
		_ = unix.Close(one.FD)
	}
}

// await waits for the supervisor's end.
func (k *kept) await() {
	<-k.child.Exit()
	<-k.over
}

// starts returns how often the session's program has started.
func (k *kept) starts() int { return len(strings.Fields(read(k.dir + "/starts"))) }

// next is the next supervisor's start: it returns the executor, and the sessions that continue.
func (k *kept) next() (*Executor, []string) {
	k.Helper()
	e := k.store.next(k.T)
	runs, err := e.Unreported(k.Context(), k.instance)
	if err != nil {
		k.Fatal(err)
	}
	return e, runs
}

// finish waits for the outcome as the next supervisor, and forgets it. Nothing is left of the session then.
func (k *kept) finish(e *Executor) agents.Outcome {
	k.Helper()
	o := e.Run(k.Context(), agents.Job{RunID: k.run}, nil)
	e.Forget(k.run)
	noneAlive(k.T, k.run)
	if names := k.store.names(); len(names) > 0 {
		k.Errorf("the store has %q, want nothing", names)
	}
	return o
}

// Wherever a supervisor is killed, the program starts at most once, and the next supervisor learns the outcome.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	const program = "echo x >>$T/starts; sleep 0.2; exit 6"
	tests := []struct {
		step   string
		script string
		known  bool // the next supervisor finds a session
		starts int
		want   agents.Result
	}{
		{"before shim", program, false, 0, agents.Lost},
		{"after shim", program, true, 0, agents.Lost},
		{"before memo", program, true, 0, agents.Lost},
		{"after memo", program, true, 0, agents.Lost},
		{"ordered", "kill -9 $SUPERVISOR; " + program, true, 1, agents.Failed},
		{"started", program, true, 1, agents.Failed},
		{"ended", program, true, 1, agents.Failed},
		{"reported", program, true, 1, agents.Failed},
		{"forgotten", program, false, 1, agents.Lost}, // the journal has the outcome
	}
	for _, tt := range tests {
		t.Run(tt.step, func(t *testing.T) {
			t.Parallel()
			k := startKeeper(t, tt.script, tt.step)
			k.await()
			e, runs := k.next()
			if known := slices.Contains(runs, k.run); known != tt.known {
				t.Errorf("the next supervisor finds %q, want the session: %v", runs, tt.known)
			}
			if o := k.finish(e); o.Result != tt.want || o.Result == agents.Failed && o.ExitCode != 6 {
				t.Errorf("outcome %+v, want %s", o, tt.want)
			}
			if k.starts() != tt.starts {
				t.Errorf("%d starts, want %d", k.starts(), tt.starts)
			}
		})
	}
}

// The same at random moments.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	for range storm(200, 10) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			k := startKeeper(t, "echo x >>$T/starts; sleep 0.0$(($$%10)); exit 6", "")
			time.Sleep(rand.N(200 * time.Millisecond))
			k.kill()
			e, _ := k.next()
			o, journalled := k.finish(e), exists(k.dir+"/journalled")
			time.Sleep(10 * time.Millisecond) // for a start that must not come
			switch starts := k.starts(); {
			case starts > 1:
				t.Errorf("%d starts, want at most one", starts)
			case starts == 1 && o.ExitCode != 6 && !journalled, starts == 0 && o.Result != agents.Lost:
				t.Errorf("%d starts, and the outcome %+v", starts, o)
			}
		})
	}
}

// A session goes on while nobody watches it, and its timeout holds.
func TestTimeoutWithoutSupervisor(t *testing.T) {
	t.Parallel()
	k := startKeeper(t, "echo x >>$T/starts; trap 'touch $T/told; exit 3' TERM; while :; do sleep 0.01; done", "started",
		keeperTimeout+"=300ms")
	k.await()
	eventually(t, "the program is told to end", func() bool { return exists(k.dir + "/told") })
	e, _ := k.next()
	if o := k.finish(e); o.Result != agents.TimedOut || o.Reason != "ended after its timeout of 300ms" || o.ExitCode != 3 {
		t.Errorf("outcome %+v, want timed out", o)
	}
}

// A supervisor below an init finds the processes of a shim that was killed there, and leaves others alone.
func TestShimKilledBelowInit(t *testing.T) {
	word := token()
	dir := t.TempDir()
	k := startKeeper(t, fmt.Sprintf(escape, word, dir+"/up")+"(setsid sleep 1000 &); sleep 1000", "")
	eventually(t, "the process has escaped", func() bool { return exists(dir+"/up") && exists(k.dir+"/program") })
	other := strange(t, "sh", "-c", "while :; do sleep 0.1; done")
	if err := syscall.Kill(shimOf(t, k.instance), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	k.await()
	if got := read(k.dir + "/journalled"); !strings.HasPrefix(got, "killed ") {
		t.Errorf("the outcome is %q, want killed", got)
	}
	noneAlive(t, word)
	if len(alive(t, other)) == 0 && !restricted(os.Getpid()) {
		t.Error("a process outside the session was ended")
	}
}

// A supervisor and a shim are killed together: only that session is lost.
func TestSupervisorAndShimKilled(t *testing.T) {
	word := token()
	dir := t.TempDir()
	k := startKeeper(t, fmt.Sprintf(escape, word, dir+"/up")+"sleep 1000", "")
	eventually(t, "the process has escaped", func() bool { return exists(dir+"/up") && exists(k.dir+"/program") })
	if err := syscall.Kill(k.child.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(shimOf(t, k.instance), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	k.kill()
	e := k.store.next(t)
	e.InitPID = 0 // this process is the heir
	if o := k.finish(e); o.Result != agents.Lost {
		t.Errorf("outcome %+v, want lost", o)
	}
	noneAlive(t, word)
}

// A stopped shim does not delay the next supervisor, which continues it.
func TestAdoptedShimStopped(t *testing.T) {
	t.Parallel()
	k := startKeeper(t, "echo x >>$T/starts; while ! test -e $T/end; do sleep 0.01; done; exit 6", "started")
	k.await()
	shim := shimOf(t, k.instance)
	if err := syscall.Kill(shim, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := func() bool { p, err := tree.Find(shim); return err == nil && p.State == 'T' }
	eventually(t, "the shim is stopped", stopped)
	e, runs := k.next()
	if !slices.Equal(runs, []string{k.run}) {
		t.Errorf("the next supervisor finds %q, want the session", runs)
	}
	if !stopped() {
		t.Error("the shim was continued before Run")
	}
	if err := os.WriteFile(k.dir+"/end", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if o := k.finish(e); o.ExitCode != 6 {
		t.Errorf("outcome %+v, want exit code 6", o)
	}
}

// A shim that an agent stops again and again cannot outlast its timeout, nor an order to end.
func TestAdoptedShimStoppedForGood(t *testing.T) {
	for _, timeout := range []string{"", "1s"} {
		k := startKeeper(t, "echo x >>$T/starts; while :; do kill -STOP $PPID; done", "", keeperTimeout+"="+timeout)
		eventually(t, "the program runs", func() bool { return k.starts() > 0 })
		k.kill()
		e, _ := k.next()
		ctx, cancel := context.WithCancelCause(t.Context())
		want := agents.TimedOut
		if timeout == "" {
			cancel(errors.New("a person said so"))
			want = agents.Cancelled
			for _, r := range e.adopted {
				r.job.Grace = 10 * time.Millisecond
			}
		}
		if o := e.Run(ctx, agents.Job{RunID: k.run}, nil); o.Result != want {
			t.Errorf("outcome %+v, want %s", o, want)
		}
		cancel(nil)
		e.Forget(k.run)
		noneAlive(t, k.run)
	}
}

// Orders of an older supervisor are ignored. The init's order ends the session, and its shim waits for nobody.
func TestOrdersByGeneration(t *testing.T) {
	t.Parallel()
	k := startKeeper(t, "trap 'exit 7' TERM; echo x >>$T/starts; while ! test -e $T/end; do sleep 0.01; done; exit 6", "")
	eventually(t, "the program runs", func() bool { return k.starts() > 0 })
	k.kill()
	e, _ := k.next()
	started := make(chan bool, 1)
	out := make(chan agents.Outcome)
	go func() { out <- e.Run(t.Context(), agents.Job{RunID: k.run}, func(agents.Started) { started <- true }) }()
	<-started
	k.send(`{"gen":0,"end":{},"leave":true}`)
	k.send(`not JSON`)
	k.send(`{"gen":4294967295,"end":{"grace":5000000000,"result":"lost","reason":"no supervisor"},"leave":true}`)
	if o := <-out; o.Result != agents.Lost || o.Reason != "no supervisor" || o.ExitCode != 7 {
		t.Errorf("outcome %+v, want that of the init's order alone", o)
	}
	eventually(t, "the shim has ended", func() bool { return len(alive(t, k.run)) == 0 })
}

// The first reason to end a session counts, also one that an earlier supervisor gave.
func TestFirstReasonCounts(t *testing.T) {
	t.Parallel()
	k := startKeeper(t, "trap 'touch $T/told' TERM; echo x >>$T/starts; while ! test -e $T/end; do sleep 0.01; done", "")
	eventually(t, "the program runs", func() bool { return k.starts() > 0 })
	k.send(fmt.Sprintf(`{"gen":%d,"end":{"grace":60000000000,"result":"cancelled","reason":"ended: issue closed"}}`,
		ownGeneration()))
	k.kill()
	eventually(t, "the program is told to end", func() bool { return exists(k.dir + "/told") })
	e, _ := k.next()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("another reason"))
	time.AfterFunc(50*time.Millisecond, func() { _ = os.WriteFile(k.dir+"/end", nil, 0o600) })
	o := e.Run(ctx, agents.Job{RunID: k.run}, nil)
	e.Forget(k.run)
	if o.Result != agents.Cancelled || o.Reason != "ended: issue closed" {
		t.Errorf("outcome %+v, want the first reason", o)
	}
}

// What is stored about a session holds no secret, and the next supervisor continues from it.
func TestMemo(t *testing.T) {
	k := startKeeper(t, "echo x >>$T/starts; sleep 1000", "started")
	k.await()
	for _, one := range k.store.list(t) {
		f := os.NewFile(uintptr(one.FD), one.Name)
		if strings.HasPrefix(one.Name, keptMemo) {
			text, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
			if err != nil || !bytes.Contains(text, []byte(k.run)) || bytes.Contains(text, []byte("hunter2")) ||
				bytes.Contains(text, []byte("SUPERVISOR=")) {
				t.Errorf("the memo is %s, %v; want the job without its environment", text, err)
			}
		}
		_ = f.Close()
	}
	e, _ := k.next()
	r := e.adopted[k.run]
	if r.job.Grace != keeperGrace || r.job.LogPath != k.dir+"/log" || r.state.Since == 0 {
		t.Errorf("the next supervisor knows %+v, want the job", r.job)
	}
	e.Forget(k.run) // ends a session that nobody waits for
	noneAlive(t, k.run)
}

// What is below the init, and neither the supervisor nor below a known shim, counts as confined.
func TestConfinedBelowInit(t *testing.T) {
	c := spawn(t, "sleep 1000 & read x", pipe(t))
	defer func() { _ = unix.Kill(c.PID, unix.SIGKILL); <-c.Exit() }()
	child := 0
	eventually(t, "it has a child", func() bool {
		members, _ := tree.Of(c.PID)
		if len(members) > 1 {
			child = members[len(members)-1].PID
		}
		return child != 0
	})
	defer func() { _ = unix.Kill(child, unix.SIGKILL) }()
	e := &Executor{Reaper: reaper, InitPID: c.PID}
	for pid, want := range map[int]bool{
		child: true, c.PID: false, os.Getpid(): false, os.Getppid(): false, 1: false, 1 << 30: true,
	} {
		if got := e.Confined(pid); got != want {
			t.Errorf("Confined(%d) = %v, want %v (init %d, its child %d)", pid, got, want, c.PID, child)
		}
	}
	e.shims = map[int]bool{child: false}
	if e.Confined(child) {
		t.Error("the shim of a session without a sandbox is confined")
	}
}
