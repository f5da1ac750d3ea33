package main

import (
	"context"
	"os"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/agents/process"
)

// If a signal to stop arrives during an upgrade, the old image passes it on to the next.
func TestStopIsToldOn(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		bell, err := process.NewStopFlag()
		if err != nil {
			t.Fatal(err)
		}
		fd, err := syscall.Dup(process.Descriptor(bell))
		if err != nil {
			t.Fatal(err)
		}
		var f factory
		f.stopFlag.Store(bell)
		signals := make(chan os.Signal, 1)
		signals <- s
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go f.watch(ctx, stop, signals, hclog.NewNullLogger())
		<-ctx.Done()
		if next := (&imageState{StopFlag: fd}); !next.stopFlagSet() {
			t.Errorf("%s is not passed on", s)
		}
		_ = bell.Close()
	}
	if (*imageState)(nil).stopFlagSet() || (&imageState{}).stopFlagSet() {
		t.Error("rung() = true without a bell, want false")
	}
}
