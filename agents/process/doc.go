// Package process starts, waits for, signals and reaps every process of disinto. No other package of the program may,
// and none imports os/exec. Linux only.
//
// # Use
//
//	signals, err := process.Init()      // first thing in main
//	reaper, err := process.NewReaper()  // before the first child
//	executor := &process.Executor{Reaper: reaper}
//	executor.Adopt(kept)                // with a Store: the sessions of the last supervisor
//	runs, err := executor.Unreported(ctx, instance) // ends other leftovers; the runs continue with Run
//	outcome := executor.Run(ctx, job, started) // a whole session
//	err = reaper.Run(ctx, process.Cmd{Argv: []string{"git", "fetch"}})
//
// # Waiting for children
//
// The kernel gives each exit status to exactly one waiter. Three compete for it: os/exec, a loop over wait4(-1), and
// the adopter of an orphan. A supervisor with two of them silently lost the status of 7 of 10 services, and os/exec
// beside a reaper leaks one pidfd per start until the garbage collector runs. So one goroutine, in Reaper, calls
// wait4(-1). It sends the status of a child that we started over a channel. Every other child is an adopted orphan,
// which it only counts.
//
// # A session
//
//	init (the nearest subreaper) or supervisor
//	└── shim (root, a subreaper, "disinto session-shim RUN-ID")
//	     └── the agent's program (its user, session, group, log, environment)
//	           └── tools, in sessions of their own ... daemons, orphans
//
// Agent programs run their tools in new sessions, and tools detach themselves, so killing a process group misses most
// of them. But no process can leave a subreaper above it: an orphan becomes the shim's child, whatever the orphan did
// to its group, session, arguments and environment. When wait4 reports that the shim has no child, no process of the
// session is left; no search is needed. To end the session, the shim sends TERM to every process below it, waits for
// the grace, and then kills until it has no children. Then it keeps the outcome until it is told to exit. It costs
// about 3 ms and 2.5 MiB of memory.
//
// A supervisor starts a shim as its own child. The shim waits until the supervisor orders it to start the program; with
// a Store, the shim's socket is stored before that. So when the supervisor is killed, the program has either been
// ordered to start, once, or will never start: docs/processes.md tells what follows at each step. The shim obeys and
// answers over the socket (wire.go), and knows the session's timeout and grace. Whoever has the socket's other end can
// continue the session. When nobody has it, because init and supervisor are gone, the shim ends its tree at once.
//
// What can go wrong:
//   - The agent tries to kill the shim, or to read the supervisor's environment. An agent with its own user can do
//     neither. An agent with the supervisor's user can kill the shim, but still cannot read.
//   - An agent with the supervisor's user stops the shim with SIGSTOP. The supervisor continues the shim when the
//     session must end, and kills it shortly after the grace.
//   - The shim is killed: its children become those of the init or, without one, ours. We kill those with the run id in
//     their environment, and those with no_new_privs, which only sessions have and no process can lose.
//   - The supervisor is killed: see above. Without an init the shim's socket closes, and the shim kills its tree at
//     once. Unreported checks that when the next supervisor starts. If it was PID 1, the kernel ends all processes.
//   - There is a writable version 2 cgroup: the session also gets a cgroup of its own, with its limits (see Contain),
//     and is ended with cgroup.kill too. The shim stays outside, so that none of the agent's limits ends it.
//   - The machine has no room for another process: the start is retried for a minute. The supervisor has started its
//     threads by then, because a Go program that gets no thread dies.
//
// After every session the supervisor itself searches /proc for the run id. Run returns when that search finds nothing.
//
// # What is not promised
//
// Work handed to a daemon that is not below us (docker, systemd-run, cron, at, a running tmux server) is not seen. An
// agent that runs as root can escape, in several ways. A process that the kernel does not release (state D) keeps its
// session open, because its slot is not free. Set-uid programs such as sudo gain no rights in a session. A program
// that opens /dev/stderr for writing without appending empties its own log, as with every log that is a file. The CPU
// time of children whose parent ignores SIGCHLD is not counted. A session's peak memory is never below the few MiB of
// the shim.
package process
