package supervisor

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// Secrets that others could read are an alarm.
func TestAlarmOfExposedSecrets(t *testing.T) {
	for path, want := range map[string]int{"": 0, "/etc/secrets.env": 1} {
		s := &Supervisor{Config: new(threads.Config), Exposed: func() string { return path }}
		s.init()
		if list := s.alarms(time.Now()); len(list) != want || want == 1 && list[0].Code != control.Exposed {
			t.Errorf("%q: got %+v", path, list)
		}
	}
}

// A journal that cannot be written is told as what it is: only the errors of a full disk say that the disk is full.
func TestAlarmOfTheJournal(t *testing.T) {
	for _, tt := range []struct {
		err  error
		code threads.Code
		want string
	}{
		{syscall.ENOSPC, threads.NoRoom, "is full"},
		{syscall.EDQUOT, threads.NoRoom, "is full"},
		{syscall.EIO, control.Journal, "takes no line: write it: input/output error"},
		{errors.New("a record has 2 MB"), control.Journal, "takes no line: write it: a record has 2 MB"},
	} {
		s := &Supervisor{Config: new(threads.Config), StateDir: "/state"}
		s.init()
		s.problems.setJournal(fmt.Errorf("cannot write the journal: write it: %w", tt.err))
		list := s.alarms(time.Now())
		if len(list) != 1 || list[0].Code != tt.code || !strings.Contains(list[0].Words, tt.want) {
			t.Errorf("%v: got %+v, want one %s with %q", tt.err, list, tt.code, tt.want)
		}
	}
}
