package process

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/tree"
)

// After a failed hand-over, sessions continue as before. A session whose program ended meanwhile gets its normal
// outcome. The hand-over is JSON, without the environment.
func TestDetachAndResume(t *testing.T) {
	e := &Executor{Reaper: reaper}
	ending, going := newJob(t, `while ! test -e "$T/end"; do sleep 0.02; done; exit 3`), newJob(t, "sleep 1000")
	ending.Env = append(ending.Env, "SECRET=hush")
	ends, cancelled := make(chan agents.Outcome, 1), make(chan agents.Outcome, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { ends <- e.Run(ctx, ending, nil) }()
	go func() { cancelled <- e.Run(ctx, going, nil) }()
	eventually(t, "both run", func() bool {
		_, one := e.Activity(ending.RunID)
		_, two := e.Activity(going.RunID)
		return one && two
	})
	var h *Handover
	var resume func()
	eventually(t, "no start is in progress", func() (ok bool) {
		var err error
		if h, resume, err = e.Detach(); err != nil && !errors.Is(err, ErrBusy) {
			t.Fatal(err)
		}
		return err == nil
	})
	want := []string{ending.RunID, going.RunID}
	slices.Sort(want)
	if !slices.Equal(h.Runs(), want) || len(h.Descriptors()) != 2 {
		t.Errorf("handed over %q with %v, want %q", h.Runs(), h.Descriptors(), want)
	}
	if text, err := json.Marshal(h); err != nil || len(text) == 0 ||
		slices.Contains(h.Sessions[0].Job.Env, "SECRET=hush") {
		t.Errorf("the hand-over is %s, %v; want JSON without the environment", text, err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(ending.Dir), "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	shim := h.Sessions[slices.Index(h.Runs(), ending.RunID)].Shim
	eventually(t, "its shim is an unreaped zombie", func() bool {
		p, err := tree.Find(shim)
		return err == nil && p.Dead()
	})
	resume()
	if o := <-ends; o.Result != agents.Failed || o.ExitCode != 3 {
		t.Errorf("outcome %+v, want failed with exit code 3", o)
	}
	stop()
	if o := <-cancelled; o.Result != agents.Cancelled {
		t.Errorf("outcome %+v, want cancelled", o)
	}
	noneAlive(t, ending.RunID, going.RunID)
}

// A later image also counts a timeout from the start of the program. A sealed state cannot be changed once it is
// written.
func TestHandedTimeout(t *testing.T) {
	r := &run{begun: time.Now().Add(-time.Hour), job: agents.Job{Timeout: time.Minute}}
	select {
	case <-r.timeout():
	case <-time.After(time.Minute):
		t.Error("a minute's timeout is not over an hour after the start")
	}
	state, err := SealState(map[string]int{"a": 1})
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	if _, err := state.WriteAt([]byte("x"), 0); !errors.Is(err, syscall.EPERM) {
		t.Errorf("writing to a sealed state: %v, want EPERM", err)
	}
	var got map[string]int
	if err := ReadState(state, &got); err != nil || got["a"] != 1 {
		t.Errorf("ReadState = %v, %v, want the written value", got, err)
	}
	if _, err := state.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if err := ReadState(state, new(int)); err == nil {
		t.Error("ReadState accepted a state with other content")
	}
}

// pending reports a signal that arrives while signals are blocked; unnoticed, it would kill the next image.
func TestWaitingSignal(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, unix.SIGUSR1)
	defer signal.Stop(heard)
	var before unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, answeredSet(), &before); err != nil {
		t.Fatal(err)
	}
	none := pending(answeredSet())
	err := unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGUSR1)
	one := pending(answeredSet())
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	<-heard
	if none || err != nil || !one || pending(answeredSet()) {
		t.Errorf("pending was %v before the signal and %v after it (%v); want false and true", none, one, err)
	}
}

func TestStopFlag(t *testing.T) {
	for _, times := range []int{0, 1, 2} {
		flag, err := NewStopFlag()
		if err != nil {
			t.Fatal(err)
		}
		for range times {
			SetStopFlag(flag)
		}
		if got := StopFlagSet(flag); got != (times > 0) {
			t.Errorf("StopFlagSet after %d times = %t", times, got)
		}
		SetStopFlag(flag) // too late, and harmless
	}
}
