package process

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/landlock"
	"codeberg.org/johba/disinto/agents/process/seccomp"
)

// sandboxed returns a job in a state directory that also holds files of others.
func sandboxed(t *testing.T, script string) agents.Job {
	t.Helper()
	if _, err := landlock.Version(); err != nil {
		t.Skip(err)
	}
	job := newJob(t, script)
	state := filepath.Dir(job.Dir)
	for _, dir := range []string{"home/other", "work/other", "outside"} {
		if err := os.MkdirAll(filepath.Join(state, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"journal.jsonl": "the journal", "home/other/token": "another's token", "work/other/file": "another's work",
		"outside/file": "the operator's",
	} {
		if err := os.WriteFile(filepath.Join(state, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	job.Home, job.Dir, job.Tmp = state+"/home/me", state+"/work/me", state+"/tmp/me"
	job.Env = append(job.Env, "HOME="+job.Home, "TMPDIR="+job.Tmp, "LOG="+job.LogPath)
	job.Sandbox = agents.Sandbox{Mode: agents.SandboxAuto, Hide: []string{state}}
	return job
}

// asUsers runs a test under the supervisor's own account and, as root, under another one.
func asUsers(t *testing.T, test func(t *testing.T, user string)) {
	for _, user := range []string{"", stranger} {
		t.Run("user="+user, func(t *testing.T) {
			if user != "" {
				needRoot(t)
			}
			test(t, user)
		})
	}
}

func TestSandboxFiles(t *testing.T) {
	asUsers(t, func(t *testing.T, user string) {
		job := sandboxed(t, `
			no() { if (eval "$2") >/dev/null 2>&1; then echo "can $1"; fi; }
			yes() { if ! (eval "$2") >/dev/null 2>$TMPDIR/err; then echo "cannot $1: $(cat $TMPDIR/err)"; fi; }
			no 'list the state' 'ls $T'
			no 'read the journal' 'cat $T/journal.jsonl'
			no 'write the journal' 'echo x >>$T/journal.jsonl'
			no 'truncate the journal' ': >$T/journal.jsonl'
			no 'remove the journal' 'rm $T/journal.jsonl'
			no 'link the journal' 'ln $T/journal.jsonl $HOME/j && cat $HOME/j'
			no 'see it by a link' 'ln -s $T/journal.jsonl $HOME/s; cat $HOME/s'
			no 'read the home of another' 'cat $T/home/other/token'
			no 'write to the work of another' 'echo x >$T/work/other/new'
			no 'read outside' 'cat $T/outside/file'
			no 'write to /tmp' 'echo x >/tmp/$DISINTO_RUN_ID'
			no 'write to the system' 'echo x >/usr/$DISINTO_RUN_ID'
			no 'make a device' 'mknod $HOME/null c 1 3 && cat $HOME/null'
			yes 'write at home' 'echo x >$HOME/f && mkdir $HOME/d && mv $HOME/f $HOME/d && rm -r $HOME/d'
			yes 'write in the workspace' 'echo x >f && ln f g && mv g $HOME/g'
			yes 'write temporary files' 'mktemp && sort </etc/passwd'
			yes 'write to /dev/null' 'echo x >/dev/null && head -c1 /dev/urandom && ls /dev/ && ls -d /'
			yes 'write to /dev/stderr' 'echo x >>/proc/$$/fd/2'
			yes 'read the system' 'cat /etc/passwd /proc/self/status /sys/kernel/mm/transparent_hugepage/enabled && ls /usr/bin'
			yes 'use shared memory' 'echo x >/dev/shm/$DISINTO_RUN_ID && rm /dev/shm/$DISINTO_RUN_ID'
			echo says >/dev/stderr
			echo '{"outcome":"done"}' >$T/result/r && mv $T/result/r $DISINTO_RESULT`)
		job.User = user
		o := runJob(t, job)
		if o.Result != agents.Done || !o.Claimed || !strings.HasSuffix(o.Tail, "says") || strings.Contains(o.Tail, "can ") ||
			strings.Contains(o.Tail, "cannot ") {
			t.Errorf("outcome %+v", o)
		}
		if text := read(filepath.Dir(job.Home) + "/../journal.jsonl"); text != "the journal" {
			t.Errorf("the journal is %q, want it unchanged", text)
		}
		if exists(job.Tmp) {
			t.Error("the temporary files still exist")
		}
	})
}

// TestSandboxSignals tries what only a sandbox prevents on the supervisor's own account: to stop or kill the shim,
// through its process and its threads, and a process of another session.
func TestSandboxSignals(t *testing.T) {
	asUsers(t, func(t *testing.T, user string) {
		other := spawn(t, "sleep 1000")
		job := sandboxed(t, `
			for pid in $PPID $OTHER $SUPERVISOR; do
				for signal in 0 STOP KILL; do kill -$signal $pid 2>/dev/null && echo "can send $signal"; done
			done
			for task in $(ls /proc/$PPID/task); do kill -STOP $task 2>/dev/null && echo can stop a thread; done
			cat /proc/$SUPERVISOR/environ /proc/$OTHER/environ 2>/dev/null | grep -q . && echo can read an environment
			sleep 1000 & kill $! || echo cannot end its own child
			echo '{"outcome":"done"}' >$DISINTO_RESULT`)
		job.User = user
		job.Env = append(job.Env, "OTHER="+itoa(other.PID), "SUPERVISOR="+itoa(os.Getpid()))
		if o := runJob(t, job); o.Result != agents.Done || strings.Contains(o.Tail, "can ") ||
			strings.Contains(o.Tail, "cannot ") {
			t.Errorf("outcome %+v", o)
		}
		if len(other.Exit()) > 0 {
			t.Error("the other process has ended")
		}
	})
}

func TestSandboxNetwork(t *testing.T) {
	var ports []int
	for port := 20000 + os.Getpid()%10000; len(ports) < 2; port++ { // a service's port
		l, err := net.Listen("tcp", "127.0.0.1:"+itoa(port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, port)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0") // a port of a test's server
	if err != nil {
		t.Fatal(err)
	}
	defer free.Close()
	abstract, err := net.Listen("unix", "@"+token())
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	job := sandboxed(t, "")
	job.Command = helperCommand("connect", "127.0.0.1:"+itoa(ports[0]), "127.0.0.1:"+itoa(ports[1]),
		abstract.Addr().String(),
		free.Addr().String())
	job.Sandbox.Connect = []int{ports[0]}
	refused := fmt.Sprintf("TCP ports %d (sandbox_connect; tests ", ports[0])
	check := func(want string) {
		t.Helper()
		job.RunID = "i" + token()
		if o := runJob(t, job); !strings.HasSuffix(o.Tail, "\n"+want) || !strings.Contains(o.Reason, refused) {
			t.Errorf("connections: %s, want %s; reason: %q, want %q in it", o.Tail, want, o.Reason, refused)
		}
	}
	check("yes no no no")
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Fatal(err)
	}
	open := freePorts(string(text))
	job.Sandbox.Ephemeral = true
	refused = fmt.Sprintf("TCP ports %d %d-%d (sandbox_connect)", ports[0], open.First, open.Last)
	check("yes no no yes")
	job.Sandbox.AnyPort, refused = true, ""
	check("yes yes no yes")
}

// TestSandboxServers tries to take the forge's port on every name of this machine while the forge restarts, and starts
// the servers that tests need.
func TestSandboxServers(t *testing.T) {
	if version, _ := landlock.Version(); version < landlock.Ports {
		t.Skip("the kernel cannot refuse ports")
	}
	free := func() int { // a port on which nothing listens any more
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().(*net.TCPAddr).Port
	}
	forge, other, low := free(), free(), 20000+os.Getpid()%10000
	asUsers(t, func(t *testing.T, user string) {
		job := sandboxed(t, "")
		job.User, job.Sandbox.Taken = user, []int{forge}
		job.Command = helperCommand("serve", "127.0.0.1:"+itoa(forge), "[::1]:"+itoa(forge), ":"+itoa(forge),
			"127.0.0.1:"+itoa(low), "127.0.0.1:"+itoa(other), "127.0.0.1:0")
		check := func(want, says string) {
			t.Helper()
			job.RunID = "i" + token()
			if o := runJob(t, job); !strings.HasSuffix(o.Tail, "\n"+want) || !strings.Contains(o.Reason, says) {
				t.Errorf("%+v: servers: %s, want %s; reason: %q, want %q in it", job.Sandbox, o.Tail, want, o.Reason, says)
			}
		}
		check("no no no no no yes", "only on TCP ports that the kernel chooses (listen)")
		job.Sandbox.Listen = []agents.Ports{{First: low - 1, Last: low + 1}}
		check("no no no yes no yes", fmt.Sprintf("the kernel chooses and on %d-%d (listen)", low-1, low+1))
		job.Sandbox.Ephemeral = true
		check("no no no yes yes yes", "")
		job.Sandbox.AnyPort = true
		check("no no no yes yes yes", "")
		job.Sandbox.Connect = []int{other} // of a database, perhaps
		check("no no no yes no yes", "")
	})
}

// serve prints on which addresses a program can listen, and fails.
func serve(addresses []string) int {
	said := make([]string, len(addresses))
	for i, address := range addresses {
		l, err := net.Listen("tcp", address)
		if said[i] = "yes"; err != nil {
			said[i] = "no"
			fmt.Println(err)
			continue
		}
		l.Close()
	}
	fmt.Println(strings.Join(said, " "))
	return 1
}

// An operator's wide range opens no service's port, and an invalid range opens none.
func TestFreePorts(t *testing.T) {
	for text, want := range map[string]landlock.Range{
		"32768\t60999\n": {First: 32768, Last: 60999},
		"60000 60099":    {First: 60000, Last: 60099},
		"1024\t65535\n":  {First: 32768, Last: 65535},
		"1024 9999":      {}, "": {}, "x y": {}, "40000": {}, "40000 99999": {}, "-5 -1": {},
	} {
		if got := freePorts(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// connect prints to which addresses a program can connect, and fails.
func connect(addresses []string) int {
	said := make([]string, len(addresses))
	for i, address := range addresses {
		network := "tcp"
		if strings.HasPrefix(address, "@") {
			network = "unix"
		}
		c, err := net.Dial(network, address)
		if said[i] = "yes"; err != nil {
			said[i] = "no"
			fmt.Println(err)
			continue
		}
		c.Close()
	}
	fmt.Println(strings.Join(said, " "))
	return 1
}

// TestSandboxOld simulates older kernels' versions. None of them may refuse what a program needs.
func TestSandboxOld(t *testing.T) {
	defer func() { sandboxVersion = landlock.Version }()
	for version, want := range map[int]string{
		2: "; this kernel cannot restrict truncation, TCP ports, devices, signals, abstract sockets; sockets with a path " +
			"stay open",
		4: "; this kernel cannot restrict devices, signals, abstract sockets; sockets with a path stay open",
		6: "signals, abstract sockets; sockets with a path stay open; seccomp restricts system calls\n",
	} {
		sandboxVersion = func() (int, error) { return version, nil }
		if got, err := FindSandbox(); err != nil || got.Complete && version < landlock.Complete ||
			got.Ports && version < landlock.Ports {
			t.Errorf("version %d: %+v, %v", version, got, err)
		}
		job := sandboxed(t, `
			cat $T/journal.jsonl && echo can read the journal
			mkdir $HOME/d && echo x >$HOME/f && mv $HOME/f $HOME/d/f && : >$HOME/d/f && echo x >/dev/null || echo cannot work
			exit 1`)
		o := runJob(t, job)
		if strings.Contains(o.Tail, "can ") || strings.Contains(o.Tail, "cannot work") || !strings.Contains(o.Tail, want) {
			t.Errorf("version %d: got %s", version, o.Tail)
		}
		job.RunID, job.Sandbox.Mode = "i"+token(), agents.SandboxStrict
		o = runJob(t, job)
		if started := !strings.HasPrefix(o.Reason,
			"cannot start /bin/sh: its sandbox is strict, and"); started != (version >= 6) {
			t.Errorf("version %d, strict: %+v, want a start from version 6 on", version, o)
		}
	}
	sandboxVersion = func() (int, error) { return 0, os.ErrInvalid }
	job := sandboxed(t, "cat $T/journal.jsonl")
	if o := runJob(t, job); o.Tail != "disinto: no sandbox: invalid argument\nthe journal" {
		t.Errorf("without Landlock: %+v, want the session without a sandbox", o)
	}
	job.RunID, job.Sandbox.Mode = "i"+token(), agents.SandboxStrict
	if o := runJob(t, job); o.Reason != "cannot start /bin/sh: its sandbox is strict, and this machine has none: invalid "+
		"argument" {
		t.Errorf("without Landlock, strict: %+v, want no start", o)
	}
}

// The rules of a session have the programs that its agent needs beside its own.
func TestAllowed(t *testing.T) {
	program := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := newRun(agents.Job{
		Command: []string{"/bin/sh"}, Dir: t.TempDir(),
		Sandbox: agents.Sandbox{Programs: []string{program, "no-such-program"}},
	}, &Executor{})
	rules := r.allowed("/bin/sh")
	if !slices.ContainsFunc(rules.Paths, func(p landlock.Path) bool { return string(p.Name) == program }) {
		t.Errorf("the rules %v do not have %s", rules.Paths, program)
	}
}

// A program that is found through links starts in a sandbox with the package around it, and with its interpreter. The
// folder above a script of the operator's stays out of reach.
func TestSandboxLinkedProgram(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := func(name, target string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(target, path)); err != nil {
			t.Fatal(err)
		}
	}
	write("npm/lib/node_modules/@x/cli/bin/cli.js", "#!/bin/sh\ncat "+root+"/npm/lib/node_modules/@x/cli/package.json "+
		root+"/npm/lib/node_modules/dep/index.js\n")
	write("npm/lib/node_modules/@x/cli/package.json", "{}\n")
	write("npm/lib/node_modules/dep/index.js", "dep\n")
	link("npm/bin/cli", "../lib/node_modules/@x/cli/bin/cli.js")
	link("bin/cli", root+"/npm/bin/cli")
	write("src/tool/bin/tool.js", "#!/usr/bin/env my-shell\ncat "+root+"/src/tool/package.json\n")
	write("src/tool/package.json", `{"bin": "bin/tool.js"}`)
	link("bin/tool", "../src/tool/bin/tool.js")
	link("bin/my-shell", "../shells/deep/my-shell")
	write("shells/deep/my-shell", "#!/bin/sh\nexec /bin/sh \"$@\"\n")
	write("project/secret", "secret\n")
	write("project/package.json", `{"name": "no programs"}`)
	write("project/deep/run.sh", "#!/bin/sh\ncat "+root+"/project/secret\n")
	link("bin/own", "../project/deep/run.sh")
	for program, want := range map[string]agents.Result{"cli": agents.Done, "tool": agents.Done, "own": agents.Failed} {
		job := sandboxed(t, "")
		job.Command = []string{program}
		job.Env = agents.Setenv(job.Env, []string{"PATH=" + root + "/bin:/usr/bin:/bin"})
		if o := runJob(t, job); o.Result != want {
			t.Errorf("%s: got %+v, want %s", program, o, want)
		}
		job.Command = []string{"/bin/sh", "-c", program}
		job.Sandbox.Programs = []string{program}
		if o := runJob(t, job); o.Result != want {
			t.Errorf("%s, started by another: got %+v, want %s", program, o, want)
		}
	}
}

// TestSandboxUnfiltered simulates a kernel that cannot refuse system calls.
func TestSandboxUnfiltered(t *testing.T) {
	defer func() { sandboxFilter = seccomp.Find }()
	sandboxFilter = func() error { return errors.New("the kernel has no seccomp") }
	if got, err := FindSandbox(); err == nil &&
		(got.Complete || got.Ports || !strings.HasSuffix(got.Holds, "the kernel has no seccomp")) {
		t.Errorf("got %+v, want incomplete, with the reason", got)
	}
	job := sandboxed(t, `cat $T/journal.jsonl; grep ^Seccomp: /proc/self/status`)
	o := runJob(t, job)
	if !strings.Contains(o.Tail, "; system calls are not restricted: the kernel has no seccomp\n") ||
		strings.Contains(o.Tail, "the journal") {
		t.Errorf("without seccomp: %+v, want a sandbox by Landlock only", o)
	}
	job.RunID, job.Sandbox.Mode = "i"+token(), agents.SandboxStrict
	o = runJob(t, job)
	const want = "cannot start /bin/sh: its sandbox is strict, and this kernel cannot restrict "
	if !strings.HasPrefix(o.Reason, want) ||
		!strings.HasSuffix(o.Reason, "system calls") {
		t.Errorf("without seccomp, strict: %+v, want no start", o)
	}
}

// TestSandboxInSandbox nests sandboxes up to the kernel's limit of 16. A CLI may need one of its own.
func TestSandboxInSandbox(t *testing.T) {
	job := sandboxed(t, "")
	job.Command = helperCommand("nest")
	o := runJob(t, job)
	if !strings.HasSuffix(o.Tail, "\n15 more: argument list too long") {
		t.Errorf("outcome %+v, want 15 more sandboxes", o)
	}
}

// TestConfined runs a session with a sandbox and one without, each with a process that escaped from its parents.
func TestConfined(t *testing.T) {
	t.Parallel()
	for _, mode := range []agents.SandboxMode{agents.SandboxAuto, agents.SandboxOff} {
		up, word := filepath.Join(t.TempDir(), "up"), token()
		job := sandboxed(t, fmt.Sprintf(escape, word, up)+"sleep 1000")
		job.Sandbox.Mode, job.Sandbox.Write = mode, []string{filepath.Dir(up)}
		r := background(t, job)
		eventually(t, "the process has escaped", func() bool { return exists(up) })
		for _, pid := range append(alive(t, job.RunID), alive(t, word)...) {
			if got := r.exec.Confined(pid); got != (mode == agents.SandboxAuto) && exists("/proc/"+itoa(pid)) {
				t.Errorf("%s: Confined(%d) = %v for a process of the session", mode, pid, got)
			}
		}
		if r.exec.Confined(os.Getpid()) || r.exec.Confined(1) {
			t.Errorf("%s: Confined is true for the supervisor", mode)
		}
		r.stop()
	}
	gone := spawn(t, "exit 0")
	<-gone.Exit()
	if !(&Executor{}).Confined(gone.PID) {
		t.Error("Confined is false for a process that has ended")
	}
}

// TestSandboxTools runs compilers and package managers in a sandbox, with empty caches.
func TestSandboxTools(t *testing.T) {
	scripts := map[string]string{ // TestSandboxOrdinary has git and python3, too
		"gcc": `echo 'int main(void){return 0;}' >a.c && gcc -O2 a.c -o a && ./a`,
	}
	if storm(1, 0) == 1 {
		scripts["git"] = `git init -q -b main . && git config user.name a && git config user.email a@b && echo x >f && git add f &&
			git commit -qm x && git worktree add -q ../me-too -b two && cd ../me-too && echo y >f && git commit -qam y &&
			git gc -q && cd ../me && git worktree remove ../me-too && git clone -q . $TMPDIR/clone && git fsck`
		scripts["python3"] = `python3 -c 'import multiprocessing as m, tempfile
if __name__ == "__main__":
    m.set_start_method("fork")
    p = m.Pool(2); print(p.map(abs, [-1])); p.close(); p.join(); tempfile.mkdtemp()' && python3 -m venv --without-pip v`
		scripts["go"] = `export GOPATH= GOCACHE= GOMODCACHE= GOFLAGS=-mod=mod; mkdir h && cd h && go mod init example.com/h &&
			printf 'package main\nimport "github.com/google/go-cmp/cmp"\nfunc main() { println(cmp.Equal(1, 1)) }\n' >a.go &&
			go get github.com/google/go-cmp@v0.7.0 &&
			go build -o h . && ./h && printf 'package main\nimport ("net/http"; "net/http/httptest"; "testing")
			func TestA(t *testing.T) { if _, err := http.Get(httptest.NewServer(http.NotFoundHandler()).URL); err != nil {
			t.Fatal(err) } }\n' >a_test.go && go test .`
		scripts["npm"] = `npm init -y && npm install --no-audit --no-fund is-odd && node -e 'require("is-odd")(1)' &&
			npx --yes semver 1.2.3 && npm ci --no-audit --no-fund`
	}
	for tool, script := range scripts {
		t.Run(tool, func(t *testing.T) {
			path, err := Lookup(tool, "/", os.Environ())
			if err != nil {
				t.Skip(err)
			}
			job := sandboxed(t, "set -ex; "+script)
			job.Env = append(os.Environ(), job.Env[1:]...) // with this machine's PATH, proxies and registries
			job.Env = append(job.Env, "npm_config_cache=")
			job.Sandbox.Write = []string{filepath.Dir(job.Dir)}
			job.Sandbox.Connect, job.Sandbox.Ephemeral = []int{443}, true
			if o := runJob(t, job); o.Result != agents.Done {
				t.Errorf("%s: %+v, want done", path, o)
			}
		})
	}
}

// TestRefused checks what the outcome adds to messages of programs.
func TestRefused(t *testing.T) {
	r := &run{held: "Landlock", rules: landlock.Rules{
		Connect: []landlock.Range{{First: 443, Last: 443}, {First: 22, Last: 22}, {First: 443, Last: 443}},
		Listen:  []landlock.Range{{}, {First: 8000, Last: 8999}},
		Paths: []landlock.Path{
			{Name: []byte("/usr"), Access: landlock.Read},
			{Name: []byte("/dev"), Access: landlock.List},
			{Name: []byte("/work"), Access: landlock.Write},
		},
	}}
	for line, want := range map[string]string{
		"cat: /data/x: Permission denied": "the sandbox denies access to /data/x (sandbox_read, " +
			"sandbox_write)",
		"/usr/a.sh: line 102: /tmp/a.lock: Permission denied": "the sandbox denies access to /tmp/a.lock (sandbox_read, " +
			"sandbox_write)",
		"/usr/a.sh: line 3: curl: Permission denied": "",
		"/usr/a.sh: connect: Operation not permitted": "the sandbox allows connections only to the TCP ports " +
			"22 443 (sandbox_connect; tests with their own servers need \"ephemeral\")",
		"bash: line 1: /usr/lib/os-release: Permission denied": "", // no program
		"cp: cannot create '/usr/x': Permission denied": "perhaps because the sandbox makes /usr/x read-only " +
			"(sandbox_write)",
		"Error: EACCES: permission denied, mkdir '/srv/cache'": "the sandbox denies access to /srv/cache (sandbox_read, " +
			"sandbox_write)",
		"mv: /work/a to /data/a: Invalid cross-device link": "the sandbox denies access to /data/a (sandbox_read, " +
			"sandbox_write)",
		"dial tcp 127.0.0.1:5432: connect: permission denied": "the sandbox allows connections only to the TCP ports " +
			"22 443 (sandbox_connect; tests with their own servers need \"ephemeral\")",
		"sh: 1: cannot create /work/x: Permission denied": "",
		"Permission denied (publickey).":                  "",
		"listen tcp 127.0.0.1:3000: bind: permission denied": "the sandbox allows servers only on TCP ports that the " +
			"kernel chooses and on 8000-8999 (listen)",
		"Error: listen EACCES: permission denied 0.0.0.0:3000": "the sandbox allows servers only on TCP ports that the " +
			"kernel chooses and on 8000-8999 (listen)",
		"make: *** [Makefile:12: /data/test] Error 1": "",
		"error: remote said: /data/x is missing":      "",
		"kill: (1) - Operation not permitted":         "",
	} {
		out := agents.Outcome{Result: agents.Failed, Reason: "exit status 1", Tail: "before\n" + line + "\nafter"}
		o := r.explainRefusal(out)
		if got := strings.TrimPrefix(strings.TrimPrefix(o.Reason, "exit status 1"), "; "); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	told := agents.Outcome{Result: agents.Done, Tail: "cat: /data/x: Permission denied"}
	if o := r.explainRefusal(told); o.Reason != "" {
		t.Errorf("for a successful session: %+v, want no reason", o)
	}
}
