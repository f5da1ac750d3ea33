package main

import (
	"context"
	"os"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/agents/process"
)

// An image that is told to stop while the next one begins tells that.
func TestStopIsToldOn(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		bell, err := process.Bell()
		if err != nil {
			t.Fatal(err)
		}
		fd, err := syscall.Dup(process.Descriptor(bell))
		if err != nil {
			t.Fatal(err)
		}
		var f factory
		f.bell.Store(bell)
		signals := make(chan os.Signal, 1)
		signals <- s
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go f.watch(ctx, stop, signals, hclog.NewNullLogger())
		<-ctx.Done()
		if next := (&legacy{Bell: fd}); !next.rung() {
			t.Errorf("%s is not told on", s)
		}
		_ = bell.Close()
	}
	if (*legacy)(nil).rung() || (&legacy{}).rung() {
		t.Error("the first image, or one after an image without a bell, stops at once")
	}
}
