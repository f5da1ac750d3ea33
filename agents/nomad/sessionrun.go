package nomad

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/forge"
)

// SessionRun is the machine and the allocation in which a session runs. All fields except Starved are required.
type SessionRun struct {
	Environ []string // as set by Nomad
	Out     io.Writer
	Self    string // the path of disinto on this machine
	// Run runs a job on this machine, like agents/process.
	Run func(ctx context.Context, job agents.Job, started func(agents.Started)) agents.Outcome
	// Begin is the fence. It returns forge.ErrTaken if the session has begun elsewhere, or may no longer begin.
	Begin func(ctx context.Context, job agents.Job, place string) error
	// Starved returns how many processes of this allocation the kernel has killed at its limit of memory; nil means none.
	Starved func() int64
	// NoSandbox returns why this machine can confine no session; nil if it can. A nil NoSandbox means that it can.
	NoSandbox func() error
	// Unheld returns what this machine does not hold of sessions with egress, or with a network of their own; nil if
	// nothing. A nil Unheld means that it holds all.
	Unheld func(egress, network bool) error
}

// runMark precedes the run id on the node. A supervisor that starts on the same machine ends processes with run ids of
// its instance, and must not end this session.
const runMark = "node."

func (p *SessionRun) getenv(name string) string { return agents.Getenv(p.Environ, name) }

// Do runs the session of this allocation until all its processes have ended, and returns the exit code of session-run.
func (p *SessionRun) Do(ctx context.Context) int {
	began := time.Now()
	path := filepath.Join(p.getenv("NOMAD_TASK_DIR"), documentFile)
	book := &documentWriter{path: path, d: document{Format: documentFormat}}
	if _, err := os.Lstat(path); err == nil { // the first start of this allocation has deleted the order
		return book.close(agents.Outcome{Result: agents.Lost, Reason: "its allocation was restarted"})
	}
	book.write(func(*document) {})
	if question := p.getenv(tryVar); question != "" {
		return book.close(p.answer(question))
	}
	o, err := p.takeOrder()
	if err != nil {
		return book.close(agents.Outcome{Result: agents.NoPlace, Reason: oneLine(err.Error())})
	}
	if err := p.checkExposed(&o.Job); err != nil {
		return book.close(agents.Outcome{Result: agents.NoPlace, Reason: oneLine(err.Error())})
	}
	if err := p.fence(ctx, o); err != nil {
		return book.close(notBegun(ctx, err))
	}
	return book.close(p.runAgent(ctx, o, book, began))
}

// takeOrder reads the session's order and deletes its file, so that no process of the node can read the order's tokens
// there. Nomad keeps the files of an ended allocation for hours.
func (p *SessionRun) takeOrder() (*Order, error) {
	path := p.orderPath()
	text, err := base64.StdEncoding.DecodeString(p.getenv(orderVar))
	if err == nil && len(text) == 0 {
		text, err = plainfile.Read(path, maxOrder)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the order of the session: %w", err)
	}
	if err := os.Remove(path); err != nil {
		return nil, fmt.Errorf("cannot delete the order of the session from the node: %w", err)
	}
	return parseOrder(text)
}

func (p *SessionRun) orderPath() string {
	return filepath.Join(p.getenv("NOMAD_SECRETS_DIR"), orderFile)
}

// fenceTime bounds the time spent on asking the forge whether the session may start.
const fenceTime = time.Minute

// fence queries the forge until it answers.
func (p *SessionRun) fence(ctx context.Context, o *Order) error {
	ctx, cancel := context.WithTimeout(ctx, fenceTime)
	defer cancel()
	place := p.getenv("DISINTO_NODE_NAME") + "/" + p.getenv("NOMAD_ALLOC_ID")
	for pause := 200 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := p.Begin(ctx, o.Job, place)
		if err == nil || !errors.Is(err, forge.ErrUnavailable) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// notBegun returns the outcome of a session that the fence prevented from starting.
func notBegun(ctx context.Context, err error) agents.Outcome {
	o := agents.Outcome{Result: agents.Failed, Reason: oneLine(err.Error()), ExitCode: 1}
	switch {
	case ctx.Err() != nil:
		o.Result = agents.Cancelled
	case errors.Is(err, forge.ErrTaken), errors.Is(err, forge.ErrUnavailable):
		o.Result = agents.Lost
	}
	return o
}

// runAgent runs the agent.
func (p *SessionRun) runAgent(ctx context.Context, o *Order, book *documentWriter, began time.Time) agents.Outcome {
	job, clean, err := p.localJob(o)
	if err != nil {
		return agents.Outcome{Result: agents.NoRoom, Reason: oneLine(err.Error())}
	}
	defer clean()
	var starved int64
	if p.Starved != nil {
		starved = p.Starved()
	}
	// No process may run after the deadline, when the supervisor reuses the slot. Clocks differ, so the maximum
	// duration applies too.
	ctx, cancel := context.WithDeadline(ctx, began.Add(longest(&job)))
	defer cancel()
	job.Spent = func(u agents.Usage) { book.write(func(d *document) { d.Usage = u }) }
	job.Doing = func(now agents.Doing) { book.write(func(d *document) { d.Doing = now }) }
	relay := p.relayLog(job, o.Secrets, book)
	out := p.Run(ctx, job, func(s agents.Started) {
		book.write(func(d *document) { d.Started = &startReport{s.At.UTC(), s.Sandbox} })
	})
	relay()
	if out.Result == agents.Cancelled && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		out.Result, out.Reason = agents.TimedOut, "it outlasted its deadline"
	}
	if p.Starved != nil {
		out = addStarved(out, p.Starved()-starved, &o.Job)
	}
	return out
}

// addStarved adds to an outcome that the kernel killed processes of the session at its limit of memory, which makes a
// killed session a failed one. It does not change the outcome of a session that was cancelled or still succeeded.
func addStarved(out agents.Outcome, killed int64, j *agents.Job) agents.Outcome {
	if killed <= 0 || out.Result == agents.Cancelled || out.Result == agents.Done && out.Claimed {
		return out
	}
	if out.Result == agents.Killed {
		out.Result = agents.Failed
	}
	if out.Reason != "" {
		out.Reason += "; "
	}
	out.Reason += fmt.Sprintf("out of memory, its limit is %s: %d processes killed", memoryLimit(j), killed)
	return out
}

// localJob returns an order's job with the paths of this machine, and a function that removes its temporary paths.
func (p *SessionRun) localJob(o *Order) (job agents.Job, clean func(), err error) {
	job = o.Job
	if o.Folder != nil {
		if job.Command, err = p.unpackFolder(o.Folder, job.Command); err != nil {
			return job, nil, err
		}
	}
	base := cmp.Or(
		p.getenv("DISINTO_VOLUME"), o.Paths[p.getenv("DISINTO_NODE")], filepath.Join(p.getenv("NOMAD_TASK_DIR"), "state"))
	sweepLogs()
	logs, err := newLogFolder()
	if err != nil {
		return job, nil, err
	}
	job.RunID = runMark + job.RunID
	job.Limits.Memory = 0 // Nomad enforces the allocation's limit
	if o.Job.Target.Driver == agents.DriverExec {
		job.User = "" // it is session-run's own
	}
	job.LogPath = filepath.Join(logs.path, "log")
	job.ResultPath = filepath.Join(base, "results", job.HomeKey, job.RunID+".json")
	work := filepath.Join(base, "work", filepath.Dir(job.Workspace))
	if job.Dir == "" || strings.HasSuffix(job.Dir, "/"+job.Workspace) { // otherwise it is the cwd of a role
		job.Dir = filepath.Join(base, "work", job.Workspace)
	}
	job.Home = filepath.Join(base, "home", job.HomeKey)
	if job.Tmp != "" {
		job.Tmp = filepath.Join(base, "tmp", job.HomeKey)
	}
	if o.Own {
		job.Command = append([]string{p.Self}, job.Command[1:]...)
	}
	if job.Sandbox.On() {
		job.Sandbox.Write = append(slices.Clone(job.Sandbox.Write), work)
		job.Sandbox.Hide = append(slices.Clone(job.Sandbox.Hide), base, p.nomadDir(&o.Job))
	}
	job.Env, job.Secrets = p.environ(&job), o.Secrets
	return job, func() {
		logs.remove()
		_ = os.Remove(job.ResultPath)
	}, nil
}

// unpackFolder copies a folder into the allocation, and returns the command with the path of the copy.
func (p *SessionRun) unpackFolder(f *Folder, command []string) ([]string, error) {
	dir := filepath.Join(p.getenv("NOMAD_TASK_DIR"), "folder")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for name, text := range f.Files {
		if name != filepath.Base(name) {
			return nil, fmt.Errorf("cannot copy %q: it is not a file name", name)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	command = slices.Clone(command)
	for i, word := range command {
		if word == f.Path {
			command[i] = dir
		}
	}
	return command, nil
}

// environ returns a job's environment with the values of this machine instead of the supervisor's.
func (p *SessionRun) environ(job *agents.Job) []string {
	own := []string{
		"DISINTO_RUN_ID=" + job.RunID, "DISINTO_WORKSPACE=" + job.Dir, "DISINTO_RESULT=" + job.ResultPath,
		agents.InboxVar + "=" + agents.InboxPath(job.ResultPath),
		"HOME=" + job.Home, "PWD=" + job.Dir,
	}
	if path := p.getenv("PATH"); path != "" {
		own = append(own, "PATH="+path)
	}
	env := agents.Setenv(job.Env, own)
	if job.Tmp != "" {
		return agents.Setenv(env, []string{"TMPDIR=" + job.Tmp})
	}
	return slices.DeleteFunc(env, func(entry string) bool { return strings.HasPrefix(entry, "TMPDIR=") })
}

// documentWriter writes a session's document, for the supervisor to read.
type documentWriter struct {
	path string

	mu sync.Mutex // guards the fields below
	d  document
}

// write changes the document and replaces its file as a whole, so that no reader sees half of it.
func (b *documentWriter) write(change func(*document)) {
	b.mu.Lock()
	change(&b.d)
	text, err := json.Marshal(b.d)
	b.mu.Unlock()
	if err == nil {
		_ = plainfile.Replace(b.path, text)
	}
}

// close records how the session ended, and returns its exit code.
func (b *documentWriter) close(out agents.Outcome) int {
	b.write(func(d *document) { d.Outcome = &out })
	return codeOf(out.Result)
}
