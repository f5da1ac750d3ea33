package supervisor

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// The supervisor is PID 1: a panic that leaves a goroutine ends every agent with it. If an answer of the forge caused
// the panic, every restart would panic again. So every goroutine recovers its own panics; arch_test.go requires a call
// of safely in each.

// safely runs f and recovers a panic in it. The panic is counted, shown in the status, and logged once. safely
// reports whether f returned normally.
func (c *core) safely(what string, f func()) (whole bool) {
	defer func() {
		if v := recover(); v != nil {
			c.panicked(what, v, debug.Stack())
		}
	}()
	f()
	return true
}

// background runs f safely in a goroutine of a wait group.
func (c *core) background(group *sync.WaitGroup, what string, f func()) {
	group.Go(func() { c.safely(what, f) })
}

// panicked counts a panic. It logs the stack once for each panic value.
func (c *core) panicked(what string, v any, stack []byte) {
	words := fmt.Sprint(v)
	if c.problems.panicked(words) {
		c.log.Error(fmt.Sprintf("internal error: %s panicked: %s\n%s", what, words, stack))
	}
	c.touchStatus()
}

// answered reports the panics that the forge's client recovered. What the client was reading counts as not read.
func (c *core) answered(err error) {
	for _, p := range forge.Panics(err) {
		c.panicked(p.What, p.Value, p.Stack)
	}
}

// internalError is the reason of a failure that a bug in the supervisor caused.
const internalError = "internal error, see the log of the supervisor"

// inLoop runs a goroutine that lasts as long as the supervisor. After a panic it runs f again.
func (c *core) inLoop(what string, f func()) {
	c.background(&c.loops, what, func() {
		for !c.safely(what, f) && c.until.Err() == nil {
			select {
			case <-c.until.Done():
			case <-time.After(longRest):
			}
		}
	})
}

// longRest is the delay of a loop that has no interval of its own: while nothing may start, and after a panic in a
// thread that is no longer configured.
const longRest = 30 * time.Second
