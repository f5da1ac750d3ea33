// Package process starts, waits for, signals and reaps every process that disinto has. Nothing else in the program may:
// os/exec appears nowhere else, and its Wait not even here. Linux only.
//
// # Use
//
//	signals, err := process.Init()      // first thing in main
//	reaper, err := process.NewReaper()  // before anything is started
//	n, err := process.EndStale(ctx, instance)
//	executor := &process.Executor{Reaper: reaper}
//	outcome := executor.Run(ctx, job, started)           // a session, to its very end
//	err = reaper.Run(ctx, process.Cmd{Argv: []string{"git", "fetch"}})
//
// # Who waits for what
//
// The kernel gives each exit status to exactly one waiter, and three would like to have it: os/exec, a loop over
// wait4(-1), and whoever adopted an orphan. A supervisor with two of them lost the status of 7 of 10 services without a
// word, and os/exec beside a reaper leaks one pidfd for each start until the garbage collector runs. So there is one
// goroutine, in Reaper, that calls wait4(-1). A child that we started gets its status over a channel; everything else
// is an adopted orphan, and is counted.
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
// and wait4 says so at once and without a search. The shim sends TERM to what is below it, waits the grace, and kills
// until that is the case. It has no state but that; it costs about 3 ms and under 1 MiB of memory of its own.
//
// What else could happen, and what then:
//   - The agent tries to kill the shim, or to read the supervisor's environment: it may not, when it has a user of its
//     own. With the supervisor's user it can kill the shim, and still cannot read.
//   - The shim is killed: its children become ours, and those with the run id in their environment, or with
//     no_new_privs (which only sessions have, and no process can lose), are killed.
//   - The supervisor is killed: the shim's socket closes, and it kills its tree at once. EndStale makes sure of it when
//     the next supervisor starts. In a PID namespace there is nothing to do.
//   - There is a writable version 2 cgroup: the session is put into one of its own as well, and cgroup.kill is used. Its
//     limits are those of the cgroup then; see Contain. The shim is outside, so that no limit of the agent's ends it.
//   - There is no room for another process: the start is tried again for a minute. The supervisor itself has its threads
//     by then; a Go program that gets none dies.
//
// After every session the supervisor looks through /proc for the run id itself. Run returns when that finds nothing.
//
// # What is not promised
//
// Work that is handed to a daemon which is not below us (docker, systemd-run, cron, at, a running tmux server) is not
// seen. An agent that runs as root can leave, in several ways. A process that the kernel does not let go (state D)
// keeps its session open, since its slot is not free. Set-uid programs such as sudo gain nothing in a session. A
// program that opens /dev/stderr for writing without appending empties its own log, as with every log that is a file.
// CPU time of children whose parent ignores SIGCHLD is not counted, and the peak memory of a session is never below
// the few MiB that the shim has.
//
// Tests that need another user, a namespace or a cgroup skip without root. The test binary plays the programs they
// start; see helpers_test.go.
package process
