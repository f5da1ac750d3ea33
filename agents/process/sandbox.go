package process

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/agents/process/gate"
	"codeberg.org/johba/disinto/agents/process/landlock"
	"codeberg.org/johba/disinto/agents/process/seccomp"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// systemPaths lists the paths that every program of a session may use, where they exist. It excludes homes, /tmp, and
// most of /var and /run; containers keep their secrets in /run.
var systemPaths = []struct {
	access landlock.Access
	names  []string
}{
	{landlock.Read, []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix", "/gnu", "/snap",
		"/proc", "/sys",
		// Targets of links in /etc, and the lists of packages.
		"/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager", "/run/current-system", "/var/lib/ca-certificates",
		"/var/lib/dpkg", "/var/lib/apt", "/var/lib/rpm",
	}},
	{landlock.Device, []string{
		"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/shm",
	}},
	{landlock.List, []string{"/dev"}},
}

// toolVars are the variables with which the operator locates compilers and certificates.
var toolVars = []string{
	"GOROOT", "JAVA_HOME", "RUSTUP_HOME", "NVM_DIR", "PYENV_ROOT", "VIRTUAL_ENV",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
}

// FindSandbox finds out what a sandbox restricts on this machine. The error says why there can be no sandbox.
func FindSandbox() (Support, error) {
	version, err := sandboxVersion()
	if err != nil {
		return Support{}, err
	}
	unfiltered := sandboxFilter()
	return Support{
		Holds: holding(version, unfiltered), Complete: version >= landlock.Complete && unfiltered == nil,
		Ports: version >= landlock.Ports && unfiltered == nil, Open: cmp.Or(unfiltered, sandboxGate()),
		Shared: sandboxNetwork,
	}, nil
}

// Support is what a kernel can restrict.
type Support struct {
	Holds    string       // for people
	Complete bool         // enough for a strict sandbox
	Ports    bool         // no session can listen on the port of another server
	Open     error        // why a session can reach hosts that its egress does not allow; nil if it cannot
	Shared   func() error // tries to give a process a network of its own, and says why that fails
}

// holding describes for people what a sandbox restricts and what it cannot restrict.
func holding(version int, unfiltered error) string {
	if unfiltered != nil {
		return fmt.Sprintf("%s; system calls are not restricted: %v", landlock.Describe(version), unfiltered)
	}
	return landlock.Describe(version) + "; seccomp restricts system calls"
}

// sandboxVersion returns the kernel's version of Landlock, sandboxFilter why the kernel cannot refuse system calls, and
// sandboxGate why sessions cannot be kept from other machines. Tests replace them to simulate older kernels.
var (
	sandboxVersion = landlock.Version
	sandboxFilter  = seccomp.Find
	sandboxGate    = sync.OnceValue(gate.Find)
)

// sandboxOrder orders the shim to restrict the program.
type sandboxOrder struct {
	// Terminals wants a folder of terminals for the session alone, because its account could read the operator's. Where
	// the system permits no mounts, the session has no terminals.
	Terminals bool `json:",omitempty"`
	Rules     landlock.Rules
	Version   int
	Filter    bool `json:",omitempty"` // refuse system calls
	Local     bool `json:",omitempty"` // reach this machine only, or do not start the program; needs Filter
	Own       bool `json:",omitempty"` // in a network of its own, or do not start the program
	Strict    bool `json:",omitempty"` // without restrictions, do not start the program
}

// restrict restricts this thread. The filter comes first: if it fails, nothing is restricted, as the supervisor then
// reports.
func (o *sandboxOrder) restrict() error {
	if o.Terminals && ownTerminals() == nil {
		o.Rules.Paths = append(o.Rules.Paths, landlock.Path{Name: []byte("/dev/pts"), Access: landlock.Device})
	}
	if o.Filter {
		listener, err := seccomp.Restrict(o.Local)
		if err != nil {
			return err
		}
		if o.Local {
			answer(listener)
		}
	}
	return landlock.Restrict(&o.Rules, o.Version)
}

// ownTerminals gives this thread, and the processes that it starts, a /dev/pts of their own.
func ownTerminals() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return err
	}
	// Later mounts of the operator still appear, and ours stay here.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return err
	}
	const flags, options = unix.MS_NOSUID | unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0600"
	if err := unix.Mount("devpts", "/dev/pts", "devpts", flags, options); err != nil {
		return err
	}
	return unix.Mount("/dev/pts/ptmx", "/dev/ptmx", "", unix.MS_BIND, "")
}

// confine returns the order, still without rules; nil for a session without a sandbox.
func (r *run) confine() (*sandboxOrder, error) {
	mode := r.job.Sandbox.Mode
	if !r.job.Sandbox.On() {
		return nil, nil
	}
	version, err := sandboxVersion()
	unfiltered := sandboxFilter()
	_, lacks := landlock.Restrictions(version)
	if unfiltered != nil {
		lacks = append(lacks, "system calls")
	}
	strict := mode == agents.SandboxStrict
	switch {
	case err == nil && strict && len(lacks) > 0:
		return nil, fmt.Errorf("its sandbox is strict, and this kernel cannot restrict %s", strings.Join(lacks, ", "))
	case err != nil && strict:
		return nil, fmt.Errorf("its sandbox is strict, and this machine has none: %w", err)
	case err != nil:
		r.log("no sandbox: " + err.Error())
		return nil, nil
	}
	r.held = holding(version, unfiltered)
	if err = r.isolate(unfiltered, strict); err != nil {
		return nil, err
	}
	r.log("sandbox: " + r.held)
	return &sandboxOrder{
		Version: version, Filter: unfiltered == nil, Strict: strict, Terminals: r.account == nil && os.Geteuid() == 0,
		Local: r.local, Own: r.own,
	}, nil
}

// allowed returns the session's rules.
func (r *run) allowed(path string) landlock.Rules {
	s := &r.job.Sandbox
	g := newGrants(s.Hide)
	for _, p := range systemPaths {
		g.system(p.access, p.names...)
	}
	if r.account != nil { // with the supervisor's account, a session could read the operator's terminals
		g.system(landlock.Device, "/dev/pts")
	}
	g.program(path, r.job.Dir, r.job.Env)
	for _, name := range s.Programs {
		if path, err := Lookup(name, r.job.Dir, r.job.Env); err == nil {
			g.program(path, r.job.Dir, r.job.Env)
		}
	}
	g.installed(agents.Getenv(r.job.Env, "PATH"))
	for _, name := range toolVars {
		if value := agents.Getenv(r.job.Env, name); filepath.IsAbs(value) {
			g.system(landlock.Read, value)
		}
	}
	for _, arg := range r.job.Command[1:] { // prompts, a script, its settings
		if filepath.IsAbs(arg) {
			g.named(landlock.Read, arg)
		}
	}
	g.named(landlock.Read, s.Read...)
	g.named(landlock.Write, s.Write...)
	g.named(landlock.Write, r.job.Home, r.job.Dir, r.job.Tmp, agents.Getenv(r.job.Env, "CLAUDE_CONFIG_DIR"))
	if r.job.ResultPath != "" {
		g.named(landlock.Write, filepath.Dir(r.job.ResultPath))
	}
	g.named(landlock.Write, r.job.LogPath) // as /dev/stderr
	rules := landlock.Rules{Paths: g.paths, AnyPort: s.AnyPort || r.own, AnyBind: r.own}
	if r.own { // all ports are its own, and no proxy of the operator is there
		return rules
	}
	rules.Connect, rules.Listen = ports(s, proxyPorts(r.job.Env))
	if s.Egress != nil {
		hideProxies(&rules, r.job.Env)
	}
	return rules
}

// ports returns the TCP ports to which a session may connect, and those on which it may listen. It may listen on the
// port that the kernel chooses, on those of the key listen, and, with the right to connect to them, on the free ones:
// tests ask the kernel for a port, close it, and then start a server there. No session listens on the port of another
// server.
func ports(s *agents.Sandbox, proxies []int) (connect, listen []landlock.Range) {
	for _, port := range slices.Concat(s.Connect, proxies) {
		connect = append(connect, landlock.Range{First: port, Last: port})
	}
	others := slices.Sorted(slices.Values(slices.Concat(s.Taken, s.Connect, proxies)))
	listen = append(listen, landlock.Range{})
	for _, l := range s.Listen {
		listen = append(listen, landlock.Range(l))
		connect = append(connect, landlock.Range(l))
	}
	if !s.Ephemeral && !s.AnyPort {
		return connect, listen
	}
	free := freePorts(readPortRange())
	if free == (landlock.Range{}) {
		return connect, listen
	}
	connect = append(connect, free)
	for _, port := range others {
		if port >= free.First && port <= free.Last {
			listen = append(listen, landlock.Range{First: free.First, Last: port - 1})
			free.First = port + 1
		}
	}
	return connect, append(listen, free)
}

// firstFree is the start of the kernel's usual range of free ports. Permanent services have lower ones.
const firstFree = 32768

// freePorts returns the ports that the kernel assigns to servers that listen on port 0. The tests of many projects
// start such servers and connect to them. If the operator has configured a wider range, it is cut at firstFree: the
// ports of databases and similar services stay closed.
func freePorts(text string) (r landlock.Range) {
	if n, err := fmt.Sscan(text, &r.First, &r.Last); n != 2 || err != nil || r.Last > 65535 || r.Last < firstFree {
		return landlock.Range{}
	}
	r.First = max(r.First, firstFree)
	return r
}

func readPortRange() string {
	text, _ := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	return string(text)
}

// mostRules limits the rules around hidden paths, because each rule takes one or two microseconds.
const mostRules = 2000

// grants collects the rules of a session.
type grants struct {
	paths  []landlock.Path
	hidden []string // with symbolic links resolved
}

func newGrants(hidden []string) *grants {
	g := &grants{}
	for _, path := range hidden {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			g.hidden = append(g.hidden, real)
		}
	}
	return g
}

func (g *grants) rule(access landlock.Access, path string) {
	g.paths = append(g.paths, landlock.Path{Name: []byte(path), Access: access})
}

// system allows paths, except hidden ones.
func (g *grants) system(access landlock.Access, paths ...string) {
	for _, path := range paths {
		if path == "" {
			continue
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil || g.within(real) {
			continue
		}
		g.around(access, real)
	}
}

// named allows paths that the operator or the supervisor names, even inside a hidden folder.
func (g *grants) named(access landlock.Access, paths ...string) {
	for _, path := range paths {
		if path == "" {
			continue
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil || g.is(real) {
			continue
		}
		g.around(access, real)
	}
}

// around allows a path that is not hidden. Rules cannot deny, so if the path contains a hidden one, around allows
// each entry beside the hidden one instead.
func (g *grants) around(access landlock.Access, real string) {
	if !g.holdsHidden(real) {
		g.rule(access, real)
		return
	}
	entries, _ := os.ReadDir(real)
	for _, entry := range entries {
		if len(g.paths) > mostRules {
			return
		}
		path := filepath.Join(real, entry.Name())
		if entry.Type()&os.ModeSymlink == 0 && !g.is(path) { // a link's target is handled in its own folder
			g.around(access, path)
		}
	}
}

// program allows a program and what it needs to start: its folder, the package around it, and for a script the same of
// its interpreter, which is searched for in dir and env. Links can lead from one package to another: those of npm lead
// from a folder of PATH to a script whose package lies beside it.
func (g *grants) program(path, dir string, env []string) {
	for range 5 { // as many interpreters as the kernel follows
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return
		}
		g.rule(landlock.Read, real)
		for _, at := range append(hops(path), real) {
			if folder := filepath.Dir(at); !shared(folder) {
				g.installed(folder)
			}
			g.system(landlock.Read, packageOf(at))
		}
		name := scriptProgram(real)
		if name == "" {
			return
		}
		if path, err = Lookup(name, dir, env); err != nil {
			return
		}
	}
}

// hops returns the paths of the links that lead from path to its file, each in a folder without links.
func hops(path string) (at []string) {
	for len(at) < 40 { // the kernel's own limit
		folder, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return at
		}
		path = filepath.Join(folder, filepath.Base(path))
		target, err := os.Readlink(path)
		if err != nil {
			return at
		}
		at = append(at, path)
		if path = target; !filepath.IsAbs(target) {
			path = filepath.Join(folder, target)
		}
	}
	return at
}

// packageOf returns the folder of the package to which a program's file belongs: the outermost node_modules, because
// packages need those beside them, or else the nearest folder of a virtual environment of Python or of an npm package
// that declares programs; empty for none.
func packageOf(path string) (folder string) {
	for dir := filepath.Dir(path); !shared(dir); dir = filepath.Dir(dir) {
		if filepath.Base(dir) == "node_modules" || folder == "" && declaresPrograms(dir) {
			folder = dir
		}
	}
	return folder
}

// declaresPrograms reports whether a folder is a package with programs.
func declaresPrograms(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, "pyvenv.cfg")); err == nil {
		return true
	}
	var said struct{ Bin json.RawMessage }
	text, err := plainfile.Read(filepath.Join(dir, "package.json"), 1<<20)
	return err == nil && json.Unmarshal(text, &said) == nil && said.Bin != nil
}

// scriptProgram returns the program that a script's first line names, also through env; empty if path is no script.
func scriptProgram(path string) string {
	f, err := plainfile.OpenNamed(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 256) // as much as the kernel reads
	n, _ := io.ReadFull(f, head)
	line, found := strings.CutPrefix(string(head[:n]), "#!")
	line, _, _ = strings.Cut(line, "\n")
	words := strings.Fields(line)
	if !found || len(words) == 0 {
		return ""
	}
	if filepath.Base(words[0]) != "env" {
		return words[0]
	}
	for _, word := range words[1:] {
		if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
			return word
		}
	}
	return ""
}

// installed allows the folders of PATH, and the files installed with them.
func (g *grants) installed(searched string) {
	for _, dir := range filepath.SplitList(searched) {
		if !filepath.IsAbs(dir) || shared(dir) {
			continue
		}
		g.system(landlock.Read, dir)
		switch prefix := filepath.Dir(dir); filepath.Base(dir) {
		case "bin":
			g.system(landlock.Read, filepath.Join(prefix, "lib"), filepath.Join(prefix, "libexec"))
		case ".bin": // of npm, with links to the packages beside it
			g.system(landlock.Read, prefix)
		}
	}
}

// shared reports whether a folder holds more than programs, such as a home or /tmp.
func shared(dir string) bool {
	home, _ := os.UserHomeDir()
	return dir == "/" || dir == home || dir == os.TempDir() || filepath.Dir(dir) == "/home" || dir == "/tmp" ||
		dir == "/var/tmp"
}

func below(path, dir string) bool { return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") }

// is reports whether a path itself is hidden.
func (g *grants) is(real string) bool {
	return slices.Contains(g.hidden, real)
}

// within reports whether a path is hidden or below a hidden one.
func (g *grants) within(real string) bool {
	for _, h := range g.hidden {
		if real == h || below(real, h) {
			return true
		}
	}
	return false
}

func (g *grants) holdsHidden(real string) bool {
	for _, h := range g.hidden {
		if below(h, real) {
			return true
		}
	}
	return false
}

// Confined reports whether a process is below a session with a sandbox, or below the init and neither of this process
// nor of a session: an orphan of a session whose shim was killed. A process that has ended counts as confined.
func (e *Executor) Confined(pid int) bool {
	shims, self := e.listShims(), os.Getpid()
	for range confinedTries { // a process gets a new parent if its parent ends meanwhile
		at, found := pid, true
		for found && at > 1 && at != self && at != e.InitPID {
			if confined, known := shims[at]; known {
				return confined
			}
			p, err := tree.Find(at)
			at, found = p.PPID, err == nil
		}
		if found {
			return at != self && at == e.InitPID && at != pid && at > 0
		}
	}
	return true
}

// confinedTries is how often Confined walks from a process to its session.
const confinedTries = 3
