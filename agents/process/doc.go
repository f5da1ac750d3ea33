// Package process starts, waits for, signals and reaps every process that disinto has. No other package of the program
// may: os/exec appears nowhere else, and its Wait not even here. Linux only.
//
// # Use
//
//	signals, err := process.Init()      // first thing in main
//	reaper, err := process.NewReaper()  // before anything is started
//	none, err := executor.Kept(ctx, instance)         // ends what is left of an earlier supervisor
//	executor := &process.Executor{Reaper: reaper}
//	outcome := executor.Run(ctx, job, started)           // a session, to its very end
//	err = reaper.Run(ctx, process.Cmd{Argv: []string{"git", "fetch"}})
//
// # Waiting for children
//
// The kernel gives each exit status to exactly one waiter, and three compete for it: os/exec, a loop over wait4(-1),
// and the process that adopted an orphan. A supervisor with two of them lost the status of 7 of 10 services without a
// word, and os/exec beside a reaper leaks one pidfd for each start until the garbage collector runs. So one goroutine,
// in Reaper, calls wait4(-1). A child that we started gets its status over a channel; every other one is an adopted
// orphan, and is counted.
//
// # A session
//
//	supervisor ── shim (root, a subreaper, "disinto session-shim RUN-ID")
//	                └── the agent's program (its user, session, group, log, environment)
//	                      └── tools, in sessions of their own ... daemons, orphans
//
// Agent programs run their tools in new sessions, and tools detach themselves; killing a process group misses most of
// them. But a process cannot leave a subreaper above it: an orphan becomes the shim's child, whatever it did to its
// group, session, arguments and environment. So when the shim has no children any more, nothing of the session is left,
// and wait4 says so at once and without a search. To end the session, the shim sends TERM to all below it, waits for
// the grace, and kills until it has no children. It has no other state; it costs about 3 ms and under 1 MiB of memory.
//
// What can go wrong:
//   - The agent tries to kill the shim, or to read the supervisor's environment: with a user of its own it may not.
//     With the supervisor's user it can kill the shim, and still cannot read.
//   - The agent stops the shim with SIGSTOP, which it can with the supervisor's user: the shim is continued when the
//     session is to end, and killed shortly after the grace.
//   - The shim is killed: its children become ours. Those with the run id in their environment are killed, and those
//     with no_new_privs, which only sessions have and no process can lose.
//   - The supervisor is killed: the shim's socket closes, and it kills its tree at once. EndStale makes sure of that
//     when the next supervisor starts. In a PID namespace the kernel does it.
//   - There is a writable version 2 cgroup: the session gets a cgroup of its own as well, with its limits (see
//     Contain), and is ended with cgroup.kill too. The shim is outside, so that no limit of the agent's ends it.
//   - The machine has no room for another process: the start is tried again for a minute. The supervisor has started
//     its threads by then; a Go program that gets none dies.
//
// After every session the supervisor looks through /proc for the run id itself. Run returns when that finds nothing.
//
// # What is not promised
//
// Work handed to a daemon that is not below us (docker, systemd-run, cron, at, a running tmux server) is not seen. An
// agent that runs as root can leave, in several ways. A process that the kernel does not let go (state D) keeps its
// session open, since its slot is not free. Set-uid programs such as sudo gain nothing in a session. A program that
// opens /dev/stderr for writing without appending empties its own log, as with every log that is a file. The CPU time
// of children whose parent ignores SIGCHLD is not counted, and the peak memory of a session is never below the few MiB
// of the shim.
package process
