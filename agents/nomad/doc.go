// Package nomad runs sessions as jobs of a HashiCorp Nomad cluster. Executor is the supervisor's side of it, and Place
// is that of the machine, behind the command disinto session-run.
//
// # A session
//
// Each session is a batch job of its own, disinto-RUN, whose name Nomad accepts once. What the session is, its order,
// is a variable that only the job may read, with every secret in it; Nomad encrypts it at rest and a template writes it
// to the session's own memory file system. Job text, metadata, arguments and environment have no secret in them: they
// lie readable in the database of the servers.
//
//	supervisor ── Executor ── Nomad ── session-run (Place) ── agents/process ── the agent's program
//
// The program in the allocation is disinto itself. It moves the ref of the claim (the fence), runs the agent with
// agents/process, which limits, watches, reaps and ends it there as on the supervisor's machine, prints the log without
// secrets, and keeps a document of what is known beside it. Its exit code is the class of the outcome.
//
// # What Nomad does not say
//
// The status "dead" of a job does not mean that its processes are gone, "complete" of an allocation does not mean
// success, and "lost" means that nothing is known. Whatever restart and reschedule say, a session is started again when
// its machine is not heard of for long enough. So a slot is free when no allocation of the job is left that runs or may
// run, and each has had the word of session-run, or its deadline has passed; and a session begins only where the fence
// lets it. Files of ended allocations vanish within seconds: the log is copied while it is written, and without the
// document the exit code says how the session ended, and the forge what it achieved.
//
// Nomad answers as many questions as it is asked, and no event of it is relied on: one blocking query tells which of
// our jobs changed, and then the allocations of that job are read.
package nomad
