package process

import (
	"fmt"
	"syscall"
	"testing"

	"codeberg.org/johba/disinto/agents"
)

// A start that failed for want of processes or memory says nothing about the program.
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
