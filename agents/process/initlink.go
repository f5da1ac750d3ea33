package process

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"codeberg.org/johba/disinto/agents/process/pid1"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// heartbeat is the time between two signs of life of a supervisor. Its init waits 30 s for one.
const heartbeat = 5 * time.Second

// InitLink is a supervisor's connection to its init, which stores descriptors for the next supervisor. It implements
// Store. Its methods may be called at any time, from any number of goroutines.
type InitLink struct {
	Started  time.Time // of the init
	Upgrades int       // in this init's life
	Crashes  int       // of supervisors, in this init's life
	Why      string    // how the last supervisor ended; empty if none has crashed
	// Kept is what earlier supervisors stored, in the order in which they did.
	Kept []Kept

	socket  int
	orphans atomic.Int64

	mu    sync.Mutex // guards exits
	exits map[tree.ID]chan Exit
}

// ConnectInit connects this supervisor to its init; nil if it has none. Call it once, after Init.
func ConnectInit() (*InitLink, error) {
	if !pid1.HasInit() {
		return nil, nil
	}
	l := &InitLink{socket: pid1.InitSocket, exits: make(map[tree.ID]chan Exit)}
	l.send(pid1.NewMessage("alive"))
	for {
		m, err := pid1.Receive(l.socket)
		if err != nil {
			return nil, fmt.Errorf("cannot talk to the init: %w", err)
		}
		switch m.Words[0] {
		case "begin":
			l.Started, l.Upgrades = time.Unix(0, m.Number(1)), int(m.Number(2))
			l.Crashes, l.Why = int(m.Number(3)), m.Rest(4)
		case "kept":
			l.Kept = append(l.Kept, l.kept(m))
		case "end":
			go func() { _ = safely("the link to the init", l.listen) }()
			go func() { _ = safely("the heartbeat", l.beat) }()
			return l, nil
		}
	}
}

// kept reads a message about a stored descriptor.
func (l *InitLink) kept(m pid1.Message) Kept {
	k := Kept{Name: m.Rest(4), FD: m.FD, PID: int(m.Number(1)), Start: uint64(m.Number(2))}
	if k.PID == 0 {
		return k
	}
	exit := make(chan Exit, 1)
	k.Exit = exit
	id := tree.ID{PID: k.PID, Start: k.Start}
	p, err := tree.Find(k.PID)
	switch {
	case len(m.Words) > 3 && m.Words[3] != "-":
		exit <- Exit{Status: syscall.WaitStatus(m.Number(3))}
	case err != nil || p.ID() != id: // the last supervisor reaped it
		exit <- Exit{Status: syscall.WaitStatus(syscall.SIGKILL)}
	default:
		l.exits[id] = exit
	}
	return k
}

// Keep stores a copy of a descriptor under a name, in place of an older one. pid and start identify the shim at the
// other end; 0 for what is no shim.
func (l *InitLink) Keep(name string, fd, pid int, start uint64) error {
	words := []string{"keep", strconv.Itoa(pid), strconv.FormatUint(start, 10), name}
	if err := pid1.Send(l.socket, pid1.Message{Words: words, FD: fd}, true); err != nil {
		return fmt.Errorf("cannot store %s with the init: %w", name, err)
	}
	return nil
}

// Drop removes what is stored under a name.
func (l *InitLink) Drop(name string) { l.send(pid1.NewMessage("drop", name)) }

// Ready tells the init that this supervisor takes signals, and how long sessions may take to end. It may be repeated.
func (l *InitLink) Ready(grace time.Duration) {
	l.send(pid1.NewMessage("ready", strconv.FormatInt(int64(grace), 10)))
}

// Become tells the init which program to start when this process exits with status 0.
func (l *InitLink) Become(program *os.File) error {
	fd := Descriptor(program)
	return pid1.Send(l.socket, pid1.Message{Words: []string{"become"}, FD: fd}, true)
}

// Orphans returns the number of orphans that the init has reaped, as of its last message.
func (l *InitLink) Orphans() int64 { return l.orphans.Load() }

// send sends a message. An error means that the init is gone, and then this process is about to be killed.
func (l *InitLink) send(m pid1.Message) { _ = pid1.Send(l.socket, m, true) }

// beat tells the init that this process is alive, until it ends.
func (l *InitLink) beat() error {
	for range time.Tick(heartbeat) {
		l.send(pid1.NewMessage("alive"))
	}
	return nil
}

// listen obeys the init until it is gone, which ends this process.
func (l *InitLink) listen() error {
	for {
		m, err := pid1.Receive(l.socket)
		if err != nil {
			pid1.Signals <- syscall.SIGTERM
			return err
		}
		m.Close()
		switch m.Words[0] {
		case "signal":
			pid1.Signals <- syscall.Signal(m.Number(1))
		case "ended":
			l.ended(tree.ID{PID: int(m.Number(1)), Start: uint64(m.Number(2))}, syscall.WaitStatus(m.Number(3)))
		case "orphans":
			l.orphans.Store(m.Number(1))
		}
	}
}

// ended delivers the status of a stored shim.
func (l *InitLink) ended(id tree.ID, status syscall.WaitStatus) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if exit := l.exits[id]; exit != nil {
		delete(l.exits, id)
		exit <- Exit{Status: status}
	}
}
