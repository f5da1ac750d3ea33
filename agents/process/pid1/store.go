package pid1

import (
	"slices"
	"strconv"
	"syscall"

	"codeberg.org/johba/disinto/agents/process/tree"
)

// store has the descriptors that an init keeps for the next supervisor, in the order in which they came.
type store []stored

// stored is a descriptor under a name. A shim's is our copy of the supervisor's end of its socket.
type stored struct {
	name   string
	fd     int
	shim   tree.ID // zero for what is no shim
	status string  // of a shim that we reaped; empty before
}

// keep adds a descriptor, in place of an older one of that name.
func (s *store) keep(m Message) {
	if len(m.Words) < 4 || m.FD < 0 {
		m.Close()
		return
	}
	name := m.Rest(3)
	s.drop(name)
	*s = append(*s, stored{name: name, fd: m.FD, shim: tree.ID{PID: int(m.Number(1)), Start: uint64(m.Number(2))}})
}

// drop closes a descriptor and forgets it.
func (s *store) drop(name string) {
	*s = slices.DeleteFunc(*s, func(x stored) bool {
		if x.name == name {
			_ = syscall.Close(x.fd)
		}
		return x.name == name
	})
}

// close closes all: a shim whose supervisor is gone too then ends its session.
func (s *store) close() {
	for _, x := range *s {
		_ = syscall.Close(x.fd)
	}
	*s = nil
}

// reaped records the end of a child. It returns the message about it if the child is a shim of the store.
func (s store) reaped(pid int, status syscall.WaitStatus) (m Message, shim bool) {
	for i := range s {
		if x := &s[i]; x.shim.PID == pid && x.status == "" {
			x.status = strconv.Itoa(int(status))
			return NewMessage("ended", strconv.Itoa(pid), strconv.FormatUint(x.shim.Start, 10), x.status), true
		}
	}
	return m, false
}

// messages describe the store to a new supervisor.
func (s store) messages() (list []Message) {
	for _, x := range s {
		status := x.status
		if status == "" {
			status = "-"
		}
		words := []string{"kept", strconv.Itoa(x.shim.PID), strconv.FormatUint(x.shim.Start, 10), status, x.name}
		list = append(list, Message{words, x.fd})
	}
	return list
}

// shims returns the shims that are not known to have ended.
func (s store) shims() map[tree.ID]bool {
	list := make(map[tree.ID]bool)
	for _, x := range s {
		if x.shim.PID > 0 && x.status == "" {
			list[x.shim] = true
		}
	}
	return list
}

// end orders every shim to end its session within a grace, in nanoseconds, as lost, and then to exit. A shim obeys no
// order of a lower generation than one that it has seen.
func (s store) end(grace int64, reason string) {
	const generation = "4294967295"
	order := `{"gen":` + generation + `,"end":{"grace":` + strconv.FormatInt(grace, 10) + `,"result":"lost","reason":` +
		strconv.Quote(reason) + `},"leave":true}`
	for _, x := range s {
		if x.shim.PID > 0 && x.status == "" {
			_ = Send(x.fd, NewMessage(order), false)
		}
	}
}
