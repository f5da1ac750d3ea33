package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// stranger is an account without rights that every system has.
const stranger = "nobody"

// asStranger is a job that runs as another user.
func asStranger(t *testing.T, script string) agents.Job {
	t.Helper()
	needRoot(t)
	job := newJob(t, script)
	job.User = stranger
	job.Env = append(job.Env, "HOME="+job.Home, "SUPERVISOR="+itoa(os.Getpid()), "LOG="+job.LogPath)
	return job
}

func TestRunsAsItsUser(t *testing.T) {
	job := asStranger(t, `
		id -un; id -G
		[ -O "$HOME" ] && [ -O . ] && echo owns
		echo x >"$HOME/f" && echo y >f && echo writes
		echo says >>/dev/stderr
		umask
		kill -0 $PPID 2>/dev/null || echo shim is out of reach
		kill -9 $PPID 2>/dev/null
		cat /proc/$SUPERVISOR/environ >/dev/null 2>&1 || echo environ is out of reach
		cat /proc/$PPID/environ >/dev/null 2>&1 || echo shim environ is out of reach
		cat "$LOG" 2>/dev/null || echo log is out of reach
		echo '{"outcome":"refused","reason":"too hard"}' >$DISINTO_RESULT`)
	o := runJob(t, job)
	want := []string{
		"nobody", "65534", "owns", "writes", "says", "0077", "shim is out of reach", "environ is out of reach",
		"shim environ is out of reach", "log is out of reach",
	}
	if got := strings.Split(o.Tail, "\n"); strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("the script printed\n%q, want\n%q", got, want)
	}
	if o.Result != agents.Refused || o.Reason != "too hard" {
		t.Errorf("outcome %+v, want refused as too hard", o)
	}
	for _, dir := range []string{job.Home, job.Dir, filepath.Dir(job.ResultPath)} {
		var st unix.Stat_t
		if err := unix.Stat(dir, &st); err != nil || st.Uid != 65534 || st.Mode&0o777 != 0o700 {
			t.Errorf("%s: uid %d, mode %o, %v; want uid 65534 and mode 700", dir, st.Uid, st.Mode, err)
		}
	}
}

func TestEndsOtherUsersTree(t *testing.T) {
	t.Parallel()
	word := token()
	job := asStranger(t, "")
	up := filepath.Join(job.Home, "up")
	job.Command[2] = fmt.Sprintf(escape, word, up) + "sleep 1000"
	r := background(t, job)
	eventually(t, "the process has escaped", func() bool { return exists(up) })
	r.stop()
	noneAlive(t, word, job.RunID)
}

func TestCannotRunAsUser(t *testing.T) {
	job := newJob(t, "true")
	job.User = "no-such-user"
	if o := runJob(t, job); o.Result != agents.Failed ||
		o.Reason != `cannot start /bin/sh: no account "no-such-user" on this system` {
		t.Errorf("outcome %+v", o)
	}
	job = asStranger(t, "true")
	if err := os.Mkdir(job.Home, 0o700); err != nil {
		t.Fatal(err)
	}
	want := "belongs to uid 0, not to nobody; chown -R nobody " + job.Home
	if o := runJob(t, job); o.Result != agents.Failed || !strings.Contains(o.Reason, want) {
		t.Errorf("outcome %+v, want a reason with %q", o, want)
	}
}

// Without root, nothing but the kernel's dumpable flag protects the supervisor from its agents.
func TestSameUserCannotLookIntoSupervisor(t *testing.T) {
	needRoot(t)
	dir := filepath.Dir(newJob(t, "").Dir)
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	script := `supervisor=$(cut -d' ' -f4 /proc/$PPID/stat)
		for p in $PPID $supervisor; do for f in environ mem; do
			head -c1 /proc/$p/$f >/dev/null 2>&1 && echo $p/$f
		done; done >` + dir + `/read; touch ` + dir + `/done`
	argv := helperCommand("supervisor", dir, "i"+token(), script, "")
	c := asNobody(t, argv)
	<-c.Exit()
	if !exists(dir + "/done") {
		t.Fatal("the session did not run: " + read(dir+"/log"))
	}
	if got := read(dir + "/read"); got != "" {
		t.Errorf("the agent could read %s", got)
	}
}

// Root in a default container lacks CAP_SYS_PTRACE, and with it the right to look into another user's process.
func TestFindsRunIDWithoutPtrace(t *testing.T) {
	needRoot(t)
	id := token()
	c, err := reaper.Start("/bin/sleep", []string{"sleep", "1000"}, &syscall.ProcAttr{
		Env: []string{"A=B", "DISINTO_RUN_ID=" + id + "-1"},
		Sys: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = syscall.Kill(c.PID, syscall.SIGKILL)
		<-c.Exit()
	}()
	if err := reaper.Run(t.Context(), Cmd{Argv: helperCommand("drop-ptrace", itoa(c.PID), id)}); err != nil {
		t.Errorf("the helper: %v (4: it did not find the process; 3: the test proves nothing)", err)
	}
}

// dropPtrace starts this program again without the capabilities, and looks for a process there.
func dropPtrace(args []string) int {
	if len(args) == 2 {
		runtime.LockOSThread()
		for _, c := range []uintptr{unix.CAP_SYS_PTRACE, unix.CAP_SYS_ADMIN, unix.CAP_PERFMON} { // each suffices for that
			if unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) != nil {
				return 2
			}
		}
		_ = syscall.Exec("/proc/self/exe", helperCommand("drop-ptrace", append(args, "again")...), os.Environ())
		return 2
	}
	if _, err := os.ReadFile("/proc/" + args[0] + "/environ"); err == nil {
		return 3
	}
	var pid int
	_, _ = fmt.Sscan(args[0], &pid)
	var env environ
	if !strings.HasPrefix(env.runID(pid), args[1]+"-") {
		return 4
	}
	if env.runID(pid) == args[1]+"-2" || unix.Getuid() != 0 {
		return 5
	}
	p, err1 := tree.Find(pid)
	a, err2 := findAccount(stranger)
	names, _, looked := (&observations{account: a}).inspect([]tree.Process{p})
	if errors.Join(err1, err2) != nil || !looked || len(names) != 1 {
		return 7
	}
	if _, err := os.ReadDir("/root"); err != nil { // our own rights must be restored
		return 6
	}
	return 0
}
