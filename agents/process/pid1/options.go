package pid1

import (
	"errors"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Options are those of disinto exec.
type Options struct {
	// Single says that signals are for the command alone, not for its process group, and that what the command leaves
	// behind is left alone: for programs that tell their children themselves, and daemons.
	Single bool
	// Grace is the time from TERM to KILL. 0 means that the command is never killed, as it is whoever stops the container
	// that decides how long it may take, and that what it leaves behind has leftoverGrace.
	Grace    time.Duration
	Rewrites []Rewrite
	// Command is the program, searched for in PATH unless it has a slash, and its arguments.
	Command []string
}

// Rewrite has a signal passed on as another one.
type Rewrite struct {
	From syscall.Signal
	To   syscall.Signal // 0 means that it is not passed on
}

// String is what ParseRewrite reads.
func (r Rewrite) String() string { return strconv.Itoa(int(r.From)) + ":" + strconv.Itoa(int(r.To)) }

// lastSignal is the highest that Linux has.
const lastSignal = 64

// signalNames are those of the signals from 1 on; beyond them are the real-time ones, which have numbers only.
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

// parse reads the arguments of disinto exec up to the first that is no option: what follows belongs to the command.
// It knows the usual forms only; ok is false for everything else, right or wrong.
func parse(args []string) (o Options, ok bool) {
	for len(args) > 0 {
		name, value, joined := strings.Cut(args[0], "=")
		args = args[1:]
		switch name {
		case "-c", "--single-child":
			if o.Single = true; joined {
				return o, false
			}
			continue
		case "-r", "--rewrite", "--grace":
			if !joined && len(args) > 0 {
				value, args, joined = args[0], args[1:], true
			}
			if !joined || !o.set(name, value) {
				return o, false
			}
			continue
		case "--":
			o.Command = args
			return o, !joined && len(args) > 0
		}
		if strings.HasPrefix(name, "-") {
			return o, false
		}
		if joined {
			name += "=" + value
		}
		o.Command = append([]string{name}, args...)
		return o, true
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

// arguments undoes parse.
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
