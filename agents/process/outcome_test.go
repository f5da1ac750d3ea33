package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"codeberg.org/johba/disinto/agents"
)

// A start that failed for lack of processes or memory proves nothing about the program.
func TestNotStarted(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want agents.Result
		code int
	}{
		{fmt.Errorf("no room: %w", syscall.EAGAIN), agents.NoRoom, 1},
		{syscall.ENOMEM, agents.NoRoom, 1},
		{syscall.ENOENT, agents.Failed, 127},
		{syscall.EACCES, agents.Failed, 126},
		{syscall.EIO, agents.Failed, 1},
	} {
		if o := notStarted("work", tt.err); o.Result != tt.want || o.ExitCode != tt.code || o.Reason == "" {
			t.Errorf("%v: %+v, want %s and %d", tt.err, o, tt.want, tt.code)
		}
	}
}

// A full disk is not the item's fault: neither when the session cannot start on it, nor when its result does not fit.
func TestFullDisk(t *testing.T) {
	needRoot(t)
	for name, script := range map[string]string{
		"at the start": "exit 0",
		"no result":    "cat /dev/zero >$T/result/ballast; echo '{}' >$DISINTO_RESULT; exit 1",
		"half of one":  "printf x >$DISINTO_RESULT; cat /dev/zero >$T/result/ballast; exit 1",
	} {
		t.Run(name, func(t *testing.T) {
			job := newJob(t, script)
			dir := filepath.Dir(job.ResultPath)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			size := "size=64k"
			if name == "at the start" {
				size = "nr_inodes=1" // the folder's own
			}
			if err := unix.Mount("tmpfs", dir, "tmpfs", 0, size); err != nil {
				t.Skip("cannot mount: " + err.Error())
			}
			t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
			if name == "at the start" {
				job.ResultPath = filepath.Join(dir, "deeper", "result.json")
			}
			o := (&Executor{Reaper: reaper}).Run(t.Context(), job, nil)
			if o.Result != agents.NoRoom || !strings.Contains(o.Reason, "no ") {
				t.Errorf("outcome %+v, want no-room", o)
			}
		})
	}
}
