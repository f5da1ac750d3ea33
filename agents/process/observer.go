package process

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// Processes are observed soon after each start, and rarely later, because each observation walks over /proc.
const (
	firstObservation    = 250 * time.Millisecond
	observationInterval = 4 * time.Second
)

// Bounds on the memory of one session, and on one observation of a process.
const (
	mostNames = 2 * agents.MaxNames
	mostFiles = 4096 // open files of a process
)

// observations holds what was seen of a session's processes.
type observations struct {
	root    int // the shim
	account *account
	own     bool // it has a network of its own

	mu        sync.Mutex // guards the fields below
	processes int64
	programs  map[string]bool
	hosts     map[string]bool
	many      bool             // there were more hosts than mostNames
	looked    bool             // connections were read
	alive     map[tree.ID]bool // at the last observation
	continued bool             // an earlier supervisor already counted the processes of the first observation
}

// observationsState is the part of observations that the next supervisor gets.
type observationsState struct {
	Processes int64    `json:"processes"`
	Programs  []string `json:"programs,omitempty"`
	Hosts     []string `json:"hosts,omitempty"`
	Many      bool     `json:"many,omitempty"`
	Looked    bool     `json:"looked,omitempty"`
}

// newObservations returns observations that know the program itself, which may end before the first observation, or the
// last supervisor's sightings.
func newObservations(r *run, program int, h *observationsState) *observations {
	w := &observations{
		root: r.shim.PID, account: r.account, own: r.rules.AnyBind, processes: 1, programs: make(map[string]bool),
		hosts: make(map[string]bool), alive: make(map[tree.ID]bool),
	}
	if h != nil {
		w.processes, w.many, w.looked, w.continued = h.Processes, h.Many, h.Looked, true
		for _, name := range h.Programs {
			w.programs[name] = true
		}
		for _, name := range h.Hosts {
			w.hosts[name] = true
		}
		return w
	}
	if len(r.job.Command) > 0 {
		w.programs[filepath.Base(r.job.Command[0])] = true
	}
	if p, err := tree.Find(program); err == nil {
		w.alive[p.ID()] = true
	}
	return w
}

// state returns the part for the next supervisor.
func (w *observations) state() *observationsState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &observationsState{
		w.processes, slices.Sorted(maps.Keys(w.programs)), slices.Sorted(maps.Keys(w.hosts)), w.many, w.looked,
	}
}

// record adds the living processes and the hosts that they are connected to.
func (w *observations) record(members []tree.Process, open connections) {
	names, sockets, looked := w.inspect(members)
	w.mu.Lock()
	defer w.mu.Unlock()
	now := make(map[tree.ID]bool, len(members))
	for _, p := range members {
		now[p.ID()] = true
		if !w.alive[p.ID()] && !w.continued {
			w.processes++
		}
	}
	w.alive, w.continued = now, false
	for _, name := range names {
		addName(w.programs, name)
	}
	w.looked = w.looked || looked && open.known
	for _, host := range open.peersOf(sockets) {
		w.many = addName(w.hosts, host) || w.many
	}
}

// addName adds a name, unless there are mostNames already.
func addName(names map[string]bool, name string) (full bool) {
	if !names[name] && len(names) >= mostNames {
		return true
	}
	names[name] = true
	return false
}

// inspect reads the programs and the sockets of processes. looked is false when no process could be read.
func (w *observations) inspect(members []tree.Process) (names []string, sockets map[uint64]bool, looked bool) {
	sockets = make(map[uint64]bool)
	for _, p := range members {
		if p.Dead() {
			continue
		}
		dir := "/proc/" + strconv.Itoa(p.PID)
		name := ""
		looked = w.readAsAccount(func() bool { return readSockets(dir+"/fd", sockets) == nil }) || looked
		if !w.readAsAccount(func() bool { name = programOf(dir); return name != "" }) {
			text, _ := os.ReadFile(dir + "/comm")
			name = strings.TrimSpace(string(text))
		}
		if name != "" {
			names = append(names, name)
		}
	}
	return names, sockets, looked
}

// readAsAccount calls what and, if that fails, again as the session's account: root in a default container may not look
// into another account's processes, but that account may.
func (w *observations) readAsAccount(what func() bool) (ok bool) {
	if ok = what(); !ok && w.account != nil {
		_ = w.account.do(func() error { ok = what(); return nil })
	}
	return ok
}

// programOf returns the file name of a process's program; "" where that cannot be read.
func programOf(dir string) string {
	path, err := os.Readlink(dir + "/exe")
	if err != nil {
		return ""
	}
	return filepath.Base(strings.TrimSuffix(path, " (deleted)"))
}

// readSockets adds the numbers of a process's open sockets.
func readSockets(dir string, sockets map[uint64]bool) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	names, err := d.Readdirnames(mostFiles)
	for _, name := range names {
		to, linkErr := os.Readlink(dir + "/" + name)
		if errors.Is(linkErr, fs.ErrPermission) {
			return linkErr
		}
		if text, ok := strings.CutPrefix(to, "socket:["); ok {
			if n, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 64); err == nil {
				sockets[n] = true
			}
		}
	}
	if len(names) > 0 || err == io.EOF { // a program may have closed all its files
		return nil
	}
	return err
}

// report returns what was observed, at the session's end.
func (w *observations) report(files agents.Sighting, secrets []string) *agents.Seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	hidden := func(names map[string]bool) (list []string) {
		for name := range names {
			list = append(list, agents.Redact(name, secrets))
		}
		return list
	}
	s := &agents.Seen{Programs: agents.Sight(w.processes, hidden(w.programs)), Files: files}
	s.Programs.AtLeast = true
	if s.Hosts = agents.NotSeen("no process of it could be looked at"); w.looked {
		s.Hosts = agents.Sight(int64(len(w.hosts)), hidden(w.hosts))
		s.Hosts.AtLeast, s.Hosts.Cut = true, s.Hosts.Cut || w.many
	}
	s.Programs.Cut = s.Programs.Cut || len(w.programs) >= mostNames
	return s
}

// observer periodically reads the processes of all sessions, with one walk over /proc for all of them, while there
// are any.
type observer struct {
	mu      sync.Mutex // guards the fields below
	all     map[*observations]bool
	begun   chan struct{} // a session has begun; made with the goroutine
	working bool
}

// begin watches a session's processes until end.
func (l *observer) begin(w *observations) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all, l.begun = make(map[*observations]bool), make(chan struct{}, 1)
	}
	l.all[w] = true
	select {
	case l.begun <- struct{}{}:
	default:
	}
	if !l.working {
		l.working = true
		go func() {
			for safely("a look at processes", l.work) != nil {
				time.Sleep(observationInterval)
			}
		}()
	}
}

func (l *observer) end(w *observations) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, w)
}

// work observes until no session is left.
func (l *observer) work() error {
	for rest := firstObservation; ; rest = min(2*rest, observationInterval) {
		select {
		case <-l.begun:
			rest = firstObservation / 2
			continue
		case <-time.After(rest):
		}
		l.mu.Lock()
		list := slices.Collect(maps.Keys(l.all))
		l.working = len(list) > 0
		l.mu.Unlock()
		if len(list) == 0 {
			return nil
		}
		observe(list)
	}
}

// observe finds each session's processes, and records them in its observations.
func observe(list []*observations) {
	roots := make(map[int]*observations, len(list))
	for _, w := range list {
		roots[w.root] = w
	}
	var all []tree.Process
	if tree.Walk(func(p tree.Process) { all = append(all, p) }) != nil {
		return
	}
	parents := make(map[int]int, len(all))
	for _, p := range all {
		parents[p.PID] = p.PPID
	}
	owner := maps.Clone(roots) // of the processes below a process, where known
	members := make(map[*observations][]tree.Process)
	for _, p := range all {
		var way []int
		at := p.PPID
		for known := false; at > 1 && len(way) <= len(all); at = parents[at] {
			if _, known = owner[at]; known {
				break
			}
			way = append(way, at)
		}
		w := owner[at]
		for _, pid := range way {
			owner[pid] = w
		}
		if w != nil {
			members[w] = append(members[w], p)
		}
	}
	open := readConnections("/proc/net")
	for _, w := range list {
		if w.own && len(members[w]) > 0 {
			w.record(members[w], readConnections(fmt.Sprintf("/proc/%d/net", members[w][0].PID)))
			continue
		}
		w.record(members[w], open)
	}
}
