package pid1

import (
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	tests := []struct {
		args string
		want Options
		bad  bool // left to main
	}{
		{args: "ls", want: Options{Command: []string{"ls"}}},
		{args: "ls -c --grace -- -r", want: Options{Command: []string{"ls", "-c", "--grace", "--", "-r"}}},
		{args: "-- -c", want: Options{Command: []string{"-c"}}},
		{args: "-c ls", want: Options{Single: true, Command: []string{"ls"}}},
		{args: "--single-child -- ls", want: Options{Single: true, Command: []string{"ls"}}},
		{args: "-r 15:3 --rewrite=SIGUSR1:0 ls", want: Options{
			Rewrites: []Rewrite{{15, 3}, {10, 0}},
			Command:  []string{"ls"},
		}},
		{args: "--rewrite term:Quit ls", want: Options{Rewrites: []Rewrite{{15, 3}}, Command: []string{"ls"}}},
		{args: "--rewrite 64:1 ls", want: Options{Rewrites: []Rewrite{{64, 1}}, Command: []string{"ls"}}},
		{args: "--grace 2s ls", want: Options{Grace: 2 * time.Second, Command: []string{"ls"}}},
		{args: "--grace=2s A=b", want: Options{Grace: 2 * time.Second, Command: []string{"A=b"}}},
		{args: "", bad: true},
		{args: "--", bad: true},
		{args: "-c", bad: true},
		{args: "-h", bad: true},
		{args: "--frob ls", bad: true},
		{args: "--single-child=yes ls", bad: true},
		{args: "--rewrite", bad: true},
		{args: "--rewrite 15 ls", bad: true},
		{args: "--rewrite 0:3 ls", bad: true},
		{args: "--rewrite 65:3 ls", bad: true},
		{args: "--rewrite -1:3 ls", bad: true},
		{args: "--rewrite TERM:X ls", bad: true},
		{args: "--grace soon ls", bad: true},
		{args: "--grace -1s ls", bad: true},
	}
	for _, tt := range tests {
		got, ok := parse(strings.Fields(tt.args))
		if ok == tt.bad || ok && !reflect.DeepEqual(got, tt.want) {
			t.Errorf("parse(%s) = %+v %v, want %+v", tt.args, got, ok, tt.want)
		}
		if again, ok := parse(got.arguments()); !tt.bad && (!ok || !reflect.DeepEqual(again, got)) {
			t.Errorf("%s: the arguments of %+v parse as %+v", tt.args, got, again)
		}
	}
}

func TestSignalNames(t *testing.T) {
	for name, want := range map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "CHLD": syscall.SIGCHLD,
		"PROF": syscall.SIGPROF, "SYS": syscall.SIGSYS,
	} {
		if got, ok := parseSignal(name); !ok || got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
}
