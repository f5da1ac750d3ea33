package pid1

import (
	"errors"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Options are the options of disinto exec.
type Options struct {
	// Single restricts us to the command: signals go to it and not to its process group, and processes that it leaves
	// behind are left alone. It is for daemons, and for programs that signal their children themselves.
	Single bool
	role   role // of the init under whose name we were called
	// Grace is the time from TERM to KILL. With 0 the command is never killed: the container's engine decides how long
	// it may take. Then the processes that it leaves behind have 5 s.
	Grace    time.Duration
	Rewrites []Rewrite
	// Command is the program, searched for in PATH unless its name has a slash, and its arguments.
	Command []string
}

// Rewrite replaces a signal by another before it is passed on.
type Rewrite struct {
	From syscall.Signal
	To   syscall.Signal // 0 drops the signal
}

// String writes the rewrite as ParseRewrite reads it.
func (r Rewrite) String() string { return strconv.Itoa(int(r.From)) + ":" + strconv.Itoa(int(r.To)) }

// lastSignal is the highest signal number of Linux.
const lastSignal = 64

// signalNames are the names of the signals from 1 on. Real-time signals, above them, have numbers only.
var signalNames = strings.Fields(`HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT
	CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS`)

// ParseRewrite reads a rewrite: 15:3, or TERM:QUIT.
func ParseRewrite(text string) (Rewrite, error) {
	from, to, ok := strings.Cut(text, ":")
	f, okFrom := parseSignal(from)
	t, okTo := parseSignal(to)
	if !ok || !okFrom || !okTo || f == 0 {
		return Rewrite{}, errors.New("write it as TERM:QUIT or 15:3; 0 on the right drops the signal")
	}
	return Rewrite{f, t}, nil
}

func parseSignal(text string) (syscall.Signal, bool) {
	name := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	for i, known := range signalNames {
		if name == known {
			return syscall.Signal(i + 1), true
		}
	}
	n, err := strconv.Atoi(text)
	return syscall.Signal(n), err == nil && n >= 0 && n <= lastSignal
}

// parse reads the arguments of disinto exec up to the first that is not an option: the command starts there. ok is
// false for all but the usual forms, whether right or wrong; main reads those again, with pflag.
func parse(args []string) (o Options, ok bool) {
	for len(args) > 0 {
		name, value, joined := strings.Cut(args[0], "=")
		switch name {
		case "-c", "--single-child":
			if o.Single = true; joined {
				return o, false
			}
		case "-r", "--rewrite", "--grace":
			if !joined && len(args) > 1 {
				value, joined = args[1], true
				args = args[1:]
			}
			if !joined || !o.set(name, value) {
				return o, false
			}
		case "--":
			o.Command = args[1:]
			return o, !joined && len(o.Command) > 0
		default:
			o.Command = args
			return o, !strings.HasPrefix(name, "-")
		}
		args = args[1:]
	}
	return o, false
}

// set sets an option that has a value.
func (o *Options) set(name, value string) bool {
	if name == "--grace" {
		d, err := time.ParseDuration(value)
		o.Grace = d
		return err == nil && d >= 0
	}
	r, err := ParseRewrite(value)
	o.Rewrites = append(o.Rewrites, r)
	return err == nil
}

// arguments writes the options as parse reads them.
func (o Options) arguments() (args []string) {
	if o.Single {
		args = append(args, "--single-child")
	}
	if o.Grace > 0 {
		args = append(args, "--grace", o.Grace.String())
	}
	for _, r := range o.Rewrites {
		args = append(args, "--rewrite", r.String())
	}
	return append(append(args, "--"), o.Command...)
}
