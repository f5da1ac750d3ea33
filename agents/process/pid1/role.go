package pid1

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"
)

// The names of the other inits that the program can play, and "" for its own.
const (
	tini     = "tini"
	dumbInit = "dumb-init"
)

// role is another init that we play, with the options, environment, messages and exit codes that its users expect.
// The zero value is disinto exec.
type role struct {
	name    string // tini, dumbInit or empty
	verbose int    // tini: 0 errors, 1 warnings, 2 and more its actions; dumb-init: 1

	// Tini only.
	subreaper bool
	warn      bool           // about each reaped orphan
	death     syscall.Signal // sent to us when our parent dies
	zero      map[int]bool   // the exit codes that become 0
}

// roleOf returns the role for the name under which the program was called; false for our own name.
func roleOf(argv0 string) (role, bool) {
	switch name := argv0[strings.LastIndexByte(argv0, '/')+1:]; name {
	case tini:
		return role{name: tini, verbose: 1}, true
	case dumbInit:
		return role{name: dumbInit}, true
	}
	return role{}, false
}

// run plays the role with this process's arguments and environment, and returns the exit code.
func (r role) run() int {
	o := Options{role: r}
	var code int
	var done bool
	if r.name == tini {
		code, done = o.parseTini(os.Args[0], os.Args[1:])
	} else {
		code, done = o.parseDumbInit(os.Args[0], os.Args[1:])
	}
	if done {
		return code
	}
	return run(o)
}

// prepare prepares the role before the start of the command.
func (r *role) prepare() {
	if r.death != 0 { // set for this thread, the first, which lives as long as the process
		_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(r.death), 0)
	}
	if r.name == "" || r.subreaper {
		// Orphans come to us, PID 1 or not. Every kernel that Go supports has this option.
		_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0)
	}
	var bit int32 // our parent may have made us a subreaper
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prGetChildSubreaper, uintptr(unsafe.Pointer(&bit)), 0)
	if r.name == tini && bit == 0 && os.Getpid() != 1 {
		r.print(1, "Tini is not running as PID 1 and isn't registered as a child subreaper.\n"+
			"Zombie processes will not be re-parented to Tini, so zombie reaping won't work.\nTo fix the problem, "+
			"use the -s option or set the environment variable TINI_SUBREAPER to register Tini as a child subreaper, "+
			"or run Tini as PID 1.")
	}
}

// Two options of prctl.
const prSetChildSubreaper, prGetChildSubreaper = 36, 37

// print prints tini's message for this level of verbosity and above.
func (r *role) print(level int, text string) {
	if r.name != tini || r.verbose < level {
		return
	}
	out := os.Stdout
	if level < 2 {
		out = os.Stderr
	}
	levels := []string{"FATAL", "WARN ", "INFO ", "DEBUG", "TRACE"}
	_, _ = out.WriteString("[" + levels[level] + " tini (" + strconv.Itoa(os.Getpid()) + ")] " + text + "\n")
}

// debug prints dumb-init's message when it is verbose, or tini's at this level of verbosity; neither prints an empty
// text.
func (r *role) debug(level int, dumb, other string) {
	if r.name == dumbInit && r.verbose > 0 && dumb != "" {
		_, _ = os.Stderr.WriteString("[dumb-init] " + dumb + "\n")
	}
	if other != "" {
		r.print(level, other)
	}
}

// number formats a signal's number.
func number(s syscall.Signal) string { return strconv.Itoa(int(s)) }

func (r *role) spawned(name string, pid int, session bool) {
	p := strconv.Itoa(pid)
	if session {
		r.debug(0, "setsid complete.", "")
	}
	r.debug(2, "Child spawned with PID "+p+".", "Spawned child process '"+name+"' with pid '"+p+"'")
}

// reaped reports the end of a process, which was the command or an orphan.
func (r *role) reaped(pid int, ws syscall.WaitStatus, command bool) {
	if r.name == "" {
		return
	}
	p, code, how := strconv.Itoa(pid), ws.ExitStatus(), "exited with exit status "
	end := "normally (with status '" + strconv.Itoa(code) + "')"
	if ws.Signaled() {
		code, how = int(ws.Signal()), "was terminated by signal "
		end = "with signal (with signal '" + number(ws.Signal()) + "')"
	}
	r.debug(3, "A child with PID "+p+" "+how+strconv.Itoa(code)+".", "Reaped child with pid: '"+p+"'")
	switch {
	case command:
		r.debug(2, "Forwarded signal 15 to children.", "Main child exited "+end)
	case r.warn:
		r.print(1, "Reaped zombie process with pid="+p)
	}
}

// ended returns the exit code for the command's exit code.
func (r *role) ended(code int) int {
	r.debug(4, "Child exited with status "+strconv.Itoa(code)+". Goodbye.", "Exiting: child has exited")
	if r.zero[code] {
		return 0
	}
	return code
}

// reportFailure reports why the command does not run, and returns the exit code for that.
func (r *role) reportFailure(name string, err error) int {
	code, why := exitCode(err), err.Error()
	why = strings.ToUpper(why[:1]) + why[1:] // as in C
	switch r.name {
	case tini:
		if err != syscall.ENOENT && err != syscall.EACCES {
			code = exitFailed
		}
		r.print(0, "exec "+name+" failed: "+why)
	case dumbInit:
		code = 2
		_, _ = os.Stderr.WriteString("[dumb-init] " + name + ": " + why + "\n")
	default:
		printFailure(name, err.Error())
	}
	return code
}
