package process

import (
	"runtime/debug"

	"codeberg.org/johba/disinto/forge"
)

// safely runs f and returns its panic as an error. A panic that leaves a goroutine ends PID 1, and every agent with
// it.
func safely(what string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &forge.Panic{What: what, Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}
