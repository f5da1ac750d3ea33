// Become executes itself repeatedly, as an upgrade in place does, and exits with 0 when it gets a TERM.
package main

import (
	"os"
	"strconv"
	"syscall"

	"codeberg.org/johba/disinto/agents/process"
)

func main() {
	signals, err := process.Init()
	if err != nil || !process.KeepsSignals() {
		os.Exit(3)
	}
	if state := process.InheritedState(); state != nil {
		_ = state.Close()
	}
	n, _ := strconv.Atoi(os.Args[2])
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGTERM {
				os.Exit(0)
			}
		default:
		}
		binary, err := os.Open("/proc/self/exe")
		if err != nil {
			os.Exit(4)
		}
		state, err := process.SealState(n)
		if err != nil {
			os.Exit(5)
		}
		// Become returns when a signal has arrived.
		_ = process.Become(binary, []string{os.Args[0], "run", strconv.Itoa(n + 1)}, os.Environ(), state, nil,
			func() bool { return false })
	}
}
