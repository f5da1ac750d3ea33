package process

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// hold keeps a connection to an address open until a file exists.
func hold(args []string) int {
	c, err := net.Dial("tcp", args[0])
	if err != nil {
		return 1
	}
	defer c.Close()
	for !exists(args[1]) {
		time.Sleep(5 * time.Millisecond)
	}
	return 0
}

// until waits until the witness of a run satisfies ok.
func until(t *testing.T, e *Executor, run, what string, ok func(w *observations) bool) {
	t.Helper()
	eventually(t, what, func() bool {
		e.mu.Lock()
		r := e.runs[run]
		e.mu.Unlock()
		if r == nil || r.program() == 0 {
			return false
		}
		r.observed.mu.Lock()
		defer r.observed.mu.Unlock()
		return ok(r.observed)
	})
}

// TestSeen runs a session with a daemon, a connection, and a program whose name is a secret. Root without
// CAP_SYS_PTRACE must see the same of another account.
func TestSeen(t *testing.T) {
	t.Parallel()
	asUsers(t, func(t *testing.T, user string) {
		server, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		e := &Executor{Reaper: reaper, Secrets: func() []string { return []string{"hunter2hunter2"} }}
		job := newJob(t, `mkdir -p $HOME; cp /bin/sleep "$HOME/hunter2hunter2"; (setsid "$HOME/hunter2hunter2" 1000 &)
			exec "$@" $T/end`)
		job.User, job.Env = user, append(job.Env, "HOME="+job.Home)
		job.Command = append(append(job.Command, "sh"), helperCommand("hold", server.Addr().String())...)
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		job.Command[4] = filepath.Join(filepath.Dir(job.Dir), "holder")
		copyFile(t, exe, job.Command[4])
		ended := make(chan agents.Outcome, 1)
		go func() { ended <- e.Run(t.Context(), job, nil) }()
		until(t, e, job.RunID, "the daemon and the connection are seen", func(w *observations) bool {
			return w.programs["hunter2hunter2"] && w.hosts[server.Addr().String()]
		})
		if err := os.WriteFile(filepath.Dir(job.Dir)+"/end", nil, 0o644); err != nil {
			t.Fatal(err)
		}
		o := <-ended
		if o.Seen == nil || o.Seen.Programs.Count == nil || *o.Seen.Programs.Count < 2 || !o.Seen.Programs.AtLeast {
			t.Fatalf("seen %+v of %+v, want at least 2 programs", o.Seen, o)
		}
		for _, want := range []string{"[secret]", "holder", "sh"} {
			if !slices.Contains(o.Seen.Programs.Names, want) {
				t.Errorf("programs %q, want %s among them", o.Seen.Programs.Names, want)
			}
		}
		if h := o.Seen.Hosts; h.Count == nil || *h.Count != 1 || !slices.Equal(h.Names, []string{server.Addr().String()}) {
			t.Errorf("hosts %+v, want the server's address", h)
		}
		if f := o.Seen.Files; f.Count != nil || f.Unknown == "" {
			t.Errorf("without a sandbox the files are %+v, want unknown", f)
		}
	})
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestSeenFiles runs a session that writes wherever its sandbox permits. Files of its workspace and its temporary
// files are not reported, links are not followed, and a change time that was set back hides no file.
func TestSeenFiles(t *testing.T) {
	asUsers(t, func(t *testing.T, user string) {
		job := sandboxed(t, `
			echo x >f; echo x >$TMPDIR/f; mkdir -p $HOME/a/b; echo x >$HOME/a/b/new; touch -d 2001-01-01 $HOME/a/b/new
			ln -s /usr $HOME/a/link; echo y >>$HOME/old; echo y >"$HOME/hunter2hunter2"
			printf '{"outcome":"done"}' >$DISINTO_RESULT`)
		job.User = user
		for name := range map[string]bool{"old": true, "kept": true} {
			if err := os.MkdirAll(job.Home, 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(job.Home+"/"+name, nil, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		account, err := findAccount(user)
		if err != nil {
			t.Fatal(err)
		}
		if account != nil {
			for _, name := range []string{"", "/old", "/kept"} {
				if err := os.Chown(job.Home+name, int(account.cred.Uid), int(account.cred.Gid)); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(2 * clockStep) // earlier files are older then
		e := &Executor{Reaper: reaper, Secrets: func() []string { return []string{"hunter2hunter2"} }}
		o := e.Run(t.Context(), job, nil)
		home, err := filepath.EvalSymlinks(job.Home)
		if o.Result != agents.Done || err != nil {
			t.Fatalf("outcome %+v, %v, want done", o, err)
		}
		got := o.Seen.Files
		own := slices.DeleteFunc(slices.Clone(got.Names), func(name string) bool { return !strings.HasPrefix(name, home) })
		want := []string{home + "/[secret]", home + "/a/b/new", home + "/a/link", home + "/old"}
		for i, name := range want {
			want[i] = agents.Sight(1, []string{name}).Names[0]
		}
		if diff := slices.Compare(own, want); diff != 0 || got.Count == nil || *got.Count < 4 {
			t.Errorf("files %+v, want %q among them", got, want)
		}
		if sum := sha256.Sum256([]byte(`{"outcome":"done"}`)); o.Digest != hex.EncodeToString(sum[:]) {
			t.Errorf("digest %q, want the result's SHA-256", o.Digest)
		}
	})
}

// TestSearchIsBounded has more files, deeper folders and longer names than the search permits.
func TestSearchIsBounded(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		if err := os.WriteFile(fmt.Sprintf("%s/%d\n\x1b[31m%s", dir, i, strings.Repeat("n", 200)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := search{left: 20, queue: []string{dir}}
	s.folder(dir)
	if s.count != 20 || !s.partly {
		t.Errorf("%d files, partly %v: want the bound of 20", s.count, s.partly)
	}
	s = search{left: mostChecked}
	s.folder(dir)
	if s.count != 50 || s.partly || len(s.names) != agents.MaxNames/2 {
		t.Errorf("%d files, %d names, partly %v; want 50, the bound, and false", s.count, len(s.names), s.partly)
	}
	for _, name := range agents.Sight(s.count, s.names).Names {
		if len(name) > 200 || strings.ContainsAny(name, "\n\x1b") {
			t.Errorf("name %q, want a short printable one", name)
		}
	}
	s = search{left: mostChecked}
	if s.folder(dir + "/missing"); !s.partly {
		t.Error("partly is false after an unreadable folder")
	}
	if err := os.Symlink("/usr", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	s = search{left: mostChecked}
	if s.folder(dir + "/link"); s.count != 0 || !s.partly {
		t.Error("the search followed a link")
	}
}

// TestNamesAreBounded gives a witness 10,000 hosts, and processes that start and end.
func TestNamesAreBounded(t *testing.T) {
	w := &observations{programs: make(map[string]bool), hosts: make(map[string]bool), processes: 1}
	open := connections{known: true, peers: make(map[uint64]ends)}
	for i := range 10_000 {
		addName(w.programs, fmt.Sprintf("program %d", i))
		w.many = addName(w.hosts, fmt.Sprintf("host %d", i)) || w.many
	}
	w.looked = true
	for i := range 10_000 {
		w.record([]tree.Process{{PID: 1 << 30, Start: uint64(i)}}, open)
	}
	if len(w.programs) != mostNames || len(w.hosts) != mostNames || len(w.alive) != 1 {
		t.Errorf("kept %d programs, %d hosts, %d processes; want the bounds and 1", len(w.programs), len(w.hosts),
			len(w.alive))
	}
	s := w.report(agents.NotSeen("no"), nil)
	if *s.Programs.Count != 10_001 || !s.Programs.Cut || !s.Hosts.Cut || len(s.Programs.Names) != agents.MaxNames {
		t.Errorf("%d processes, %d names, cut %v %v; want 10001 processes, bounded names, and both cut",
			*s.Programs.Count, len(s.Programs.Names), s.Programs.Cut, s.Hosts.Cut)
	}
	if text, err := json.Marshal(s); err != nil || len(text) > 26<<10 {
		t.Errorf("%d bytes, %v; want at most 26 KiB", len(text), err)
	}
}

// TestRecall hands a witness to the next supervisor, which does not count living processes again.
func TestRecall(t *testing.T) {
	self, err := tree.Find(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	r := &run{shim: tree.ID{PID: 1 << 30}, job: agents.Job{Command: []string{"/opt/agent.sh"}}}
	first := newObservations(r, 0, nil)
	first.record([]tree.Process{self}, connections{})
	text, err := json.Marshal(first.state())
	if err != nil {
		t.Fatal(err)
	}
	h := new(observationsState)
	if err := json.Unmarshal(text, h); err != nil {
		t.Fatal(err)
	}
	next := newObservations(r, 0, h)
	next.record([]tree.Process{self}, connections{})
	if next.processes != 2 || !next.programs["agent.sh"] {
		t.Errorf("%d processes %v, want 2", next.processes, next.programs)
	}
	next.record([]tree.Process{self, {PID: 1 << 30}}, connections{})
	if next.processes != 3 {
		t.Errorf("%d processes, want 3", next.processes)
	}
}

const tcpTable = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 100 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 101 1 0000000000000000 20 4 30 10 -1
   2: 0200000A:C351 0A5279B4:01BB 01 00000000:00000000 00:00000000 00000000  1000        0 102 1 0000000000000000 20 4 30 10 -1
   3: 0200000A:C352 0A5279B4:0016 06 00000000:00000000 00:00000000 00000000     0        0 0 3 0000000000000000
   4: nonsense
   5: 0200000A:C351 0A5279B4:01BC 01 00000000:00000000 00:00000000 00000000  1000        0 -7 1 0000000000000000 20 4 30 10 -1
   6: 0200000A:1F90 0A5279B4:01BD 01 00000000:00000000 00:00000000 00000000  1000        0 103 1 0000000000000000 20 4 30 10 -1
`

const tcp6Table = `  sl  local_address                         remote_address                        st
   0: 0000000000000000FFFF00000100007F:8F38 0000000000000000FFFF00000100007F:0BB8 01 00000000:00000000 00:00000000 00000000 0 0 200
   1: 00000000000000000000000001000000:8F38 B80D0120000000000000000001000000:01BB 01 00000000:00000000 00:00000000 00000000 0 0 201
`

func TestConnections(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"tcp": tcpTable, "tcp6": tcp6Table} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := readConnections(dir)
	all := map[uint64]bool{100: true, 101: true, 102: true, 103: true, 200: true, 201: true, 999: true}
	got := c.peersOf(all)
	slices.Sort(got)
	// A socket on the port of the session's own server is still a connection if its peer is elsewhere.
	want := []string{"127.0.0.1:3000", "180.121.82.10:443", "180.121.82.10:445", "[2001:db8::1]:443"}
	if !c.known || !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if c := readConnections(t.TempDir()); c.known {
		t.Error("known is true without the tables")
	}
}

func FuzzConnections(f *testing.F) {
	for line := range strings.Lines(tcpTable + tcp6Table) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		c := connections{peers: make(map[uint64]ends), listen: make(map[uint64]uint16)}
		c.read(line)
		for _, at := range c.peers {
			if !at.peer.IsValid() || at.peer.Port() == 0 {
				t.Errorf("%q gives the peer %v", line, at.peer)
			}
		}
	})
}

// A process that has closed all its files has been looked at: it has no sockets.
func TestSocketsOfNoFiles(t *testing.T) {
	dir := t.TempDir()
	sockets := make(map[uint64]bool)
	if err := readSockets(dir, sockets); err != nil || len(sockets) != 0 {
		t.Errorf("an empty folder of descriptors: %v, sockets %v; want none, and no error", err, sockets)
	}
	if err := readSockets(filepath.Join(dir, "gone"), sockets); err == nil {
		t.Error("readSockets returned no error for a process that has ended")
	}
}
