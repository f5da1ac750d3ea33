// Package nomad runs sessions as jobs of a HashiCorp Nomad cluster. Executor is the part in the supervisor. SessionRun
// is the part on the node, the command disinto session-run.
//
// # A session
//
// Each session is its own batch job, disinto-RUN, whose name Nomad accepts once. The session's order, with all its
// secrets, is a Nomad variable that only the job can read. Nomad encrypts it at rest, and a template writes it to the
// session's own memory file system. Job text, metadata, arguments and environment contain no secrets, because the
// servers' database stores them unencrypted.
//
//	supervisor ── Executor ── Nomad ── session-run ── agents/process ── the agent's program
//
// The program in the allocation is disinto itself. It moves the claim's ref (the fence), and runs the agent with
// agents/process, which limits, watches, reaps and ends it exactly as on the supervisor's machine. It prints the log
// without secrets, and updates a document with the session's state beside it. Its exit code is the class of the
// outcome.
//
// # What Nomad does not report
//
// The status "dead" of a job does not mean that its processes have ended, "complete" of an allocation does not mean
// success, and "lost" means that the state is unknown. Even with restart and reschedule disabled, Nomad starts a
// session again once its node has been unreachable for long enough. So a session starts only if the fence allows it.
// A slot is free only when no allocation of the job runs or can run, and each allocation has either reported through
// session-run or passed its deadline. Files of ended allocations vanish within seconds. So the log is copied while it
// is written. If the document is gone, the exit code gives the class of the outcome, and the forge shows the work.
//
// The executor relies on no event of Nomad, because every query can be repeated: one blocking query reports which of
// our jobs changed, and then the executor reads the allocations of those jobs.
package nomad
