package main

import (
	"os"
	"testing"
)

// On a terminal the manual goes through the person's pager, and is printed if there is none; in a pipe it is roff.
func TestManPages(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		environ []string
		want    string
	}{
		{[]string{"MANPAGER=sed -n 's/^DISINTO WHY/by manpager/p'", "PAGER=false"}, "by manpager\r\n"},
		{[]string{"PAGER=sed -n 's/^DISINTO WHY/by pager/p'"}, "by pager\r\n"},
		{[]string{"PATH="}, "\nDISINTO WHY\r\n"},
	} {
		terminal, screen := pseudoTerminal(t, 80)
		person := reading(screen)
		child, err := os.StartProcess(self, []string{self, "man"}, &os.ProcAttr{
			Env: append(tt.environ, "TERM=xterm"), Files: []*os.File{terminal, terminal, terminal},
		})
		if err != nil {
			t.Fatal(err)
		}
		person.sees(t, tt.want)
		_ = child.Release() // the tests' reaper waits for it
	}
}
