package supervisor

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// The supervisor is PID 1: a panic that leaves a goroutine ends every agent with it, and where an answer of the forge
// caused it, again after each restart. So every goroutine ends its panics itself: arch_test.go wants safely in each.

// safely runs f and ends a panic in it, which is counted, shown in the status, and logged once. It reports whether f
// came to its end.
func (s *Supervisor) safely(what string, f func()) (whole bool) {
	defer func() {
		if v := recover(); v != nil {
			s.panicked(what, v, debug.Stack())
		}
	}()
	f()
	return true
}

// background runs f safely in a goroutine that a group counts.
func (s *Supervisor) background(group *sync.WaitGroup, what string, f func()) {
	group.Go(func() { s.safely(what, f) })
}

// panicked counts a panic. The stack is logged the first time it says what it says.
func (s *Supervisor) panicked(what string, v any, stack []byte) {
	words := fmt.Sprint(v)
	if s.problems.panicked(words) {
		s.log.Error(fmt.Sprintf("internal error: %s panicked: %s\n%s", what, words, stack))
	}
	s.touchStatus()
}

// answered tells of a panic that the forge's client ended: what it was reading counts as not read.
func (s *Supervisor) answered(err error) {
	for _, p := range forge.Panics(err) {
		s.panicked(p.What, p.Value, p.Stack)
	}
}

// internalError is the reason of what failed because of a mistake of ours.
const internalError = "internal error, see the log of the supervisor"

// inLoop runs a goroutine that lasts as long as the supervisor. After a panic it begins anew.
func (s *Supervisor) inLoop(what string, f func()) {
	s.background(&s.loops, what, func() {
		for !s.safely(what, f) && s.until.Err() == nil {
			select {
			case <-s.until.Done():
			case <-time.After(longRest):
			}
		}
	})
}

// longRest is the pause of a loop that has no interval of its own: while nothing may begin, and after a panic of a
// thread that is no longer configured.
const longRest = 30 * time.Second
