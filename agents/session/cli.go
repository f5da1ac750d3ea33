package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/llama"
)

// runPrompt runs the CLI with a prompt, in the chain's last conversation if newCall resumes it. If the CLI has lost
// that conversation, or it has grown too long, runPrompt starts a new one, once. An incomplete run returns an *ended
// error.
func (r *run) runPrompt(ctx context.Context, prompt string) (*report, error) {
	c := r.newCall(ctx)
	r.expected = r.expectCache(c, prompt)
	first := prompt
	if c.Resume && r.reply != "" {
		first = r.reply
	}
	said, out := r.runCLI(ctx, c, first)
	silent := said.What == noFailure && !said.Ended && !said.Answered
	if c.Resume && ctx.Err() == nil && (silent || said.What == forgotten || said.What == overflown) {
		r.logf("%s cannot continue its conversation (%s); starting a new one", r.CLI, out.Reason)
		r.state.Session, r.state.Totals = "", agents.Usage{}
		said, out = r.runCLI(ctx, r.newCall(ctx), prompt)
	}
	r.task = prompt
	if said.What == overflown {
		r.state.Session, r.conversation = "", "" // the next attempt would overflow at once
	}
	return said, unlessDone(out)
}

// followUp sends one more message in this session's conversation, and with it those of people that wait.
func (r *run) followUp(ctx context.Context, words string) (*report, error) {
	if r.conversation == "" && r.own() == nil {
		return &report{}, nil
	}
	if words != "" {
		r.logf("nudged: %s", firstWords(words))
	}
	c := r.newCall(ctx)
	c.Session, c.Resume = r.conversation, true // a program of the operator's gets the whole prompt again
	said, out := r.runCLI(ctx, c, words)
	return said, unlessDone(out)
}

func unlessDone(out agents.Outcome) error {
	if out.Result == agents.Done {
		return nil
	}
	return &ended{out}
}

// newCall prepares the next run of the CLI. It resumes a conversation that a cache may still hold: with the same CLI on
// the same slot of a local backend. On an API, a new conversation costs less than sending an old one again. A
// conversation with an answered question or plan is resumed on any backend, because the answer refers to it.
func (r *run) newCall(ctx context.Context) *call {
	c := &call{Model: r.Model, BaseURL: r.BaseURL, Local: r.Local, environ: r.Environ, Session: newID()}
	if r.Left.USD > 0 {
		c.MaxUSD = max(r.Left.USD-r.usage.CostUSD, 0.01)
	}
	k := &r.state
	warm := r.Local && k.Thread == r.Thread && k.Slot == r.Slot
	if (warm || r.answered) && r.own() == nil && k.Session != "" && k.CLI == r.CLI {
		c.Session, c.Resume = k.Session, true
	}
	if r.Kind == agents.KindReview {
		c.Tree = r.treePath()
	}
	if c.Local && c.BaseURL != "" {
		ctx, cancel := context.WithTimeout(ctx, propsTime)
		defer cancel()
		said := llama.New(c.host()).Describe(ctx)
		c.Context, c.Model = said.Context, cmp.Or(c.Model, said.Model)
	}
	return c
}

// killedError is the error of a program that may have been ended by SIGKILL.
type killedError interface {
	error
	Killed() bool
}

// runOnce runs the CLI once and processes its events as they arrive.
func (r *run) runOnce(ctx context.Context, c *call, prompt string) (*report, agents.Outcome) {
	said, complaint := &report{}, &tail{limit: 4 << 10}
	if words := r.Left.Reached(r.usage.Tokens(), r.usage.CostUSD); words != "" {
		said.fail(failure{What: spent, Words: "it has used " + words})
		return said, outcome(r.CLI, said, r.heard, nil, "", r.Now())
	}
	before, resumed := agents.Usage{}, ""
	if c.Resume {
		before, resumed = r.state.Totals, ", continuing its last conversation"
	}
	r.logf("starting %s%s", r.CLI, resumed)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	prompt = r.withTold(prompt, c.Resume)
	c.talk = r.newTalk(c, prompt, before, cancel)
	out := r.eventWriter(ctx, c, said, before, cancel)
	own, left := r.own(), (*agents.Outcome)(nil)
	if own != nil {
		var err error
		if prompt, err = own.begin(prompt, c.Resume); err != nil {
			said.fail(failure{What: broken, Words: err.Error()})
			return said, outcome(r.CLI, said, r.heard, nil, "", r.Now())
		}
	}
	cmd := r.cmd(c, prompt)
	stderr := r.stderrWriter()
	cmd.Stdout, cmd.Stderr = out, io.MultiWriter(complaint, stderr)
	err := r.Run(ctx, cmd)
	out.end()
	stderr.end()
	said.Unread += out.dropped
	if silent, ok := errors.AsType[*silentError](context.Cause(ctx)); ok && said.What == noFailure && !said.Ended {
		said.fail(failure{What: down, Words: silent.words})
	}
	if errors.Is(err, os.ErrNotExist) {
		said.fail(failure{What: unusable, Words: err.Error()})
	}
	if k, ok := errors.AsType[killedError](err); ok && k.Killed() && ctx.Err() == nil {
		said.fail(failure{What: killed, Words: err.Error() + " (out of memory?)"})
	}
	if own != nil {
		left = own.end(said, err)
	}
	r.heard = r.heard || said.Answered
	r.recordUsage(said, c, before)
	if words := LastWords(string(complaint.text)); words != "" && !said.Ended && own == nil {
		r.logf("%s says: %s", r.CLI, firstWords(words))
	}
	if left != nil {
		return said, *left
	}
	if errors.Is(context.Cause(ctx), errTold) && !said.Ended {
		return said, agents.Outcome{Result: agents.Done}
	}
	return said, outcome(r.CLI, said, r.heard, err, string(complaint.text), r.Now())
}

// cmd returns the command of a run, apart from its output.
func (r *run) cmd(c *call, prompt string) agents.Cmd {
	argv, vars := r.cli.command(c)
	// If the CLI breaks its worktree, its git must not find a repository that contains the workspace.
	vars = append(vars, "GIT_CEILING_DIRECTORIES="+r.Workspace)
	vars = append(vars, withoutMonitor(r.Environ)...)
	stdin := io.Reader(strings.NewReader(prompt))
	if c.talk != nil {
		stdin = c.talk
	}
	return agents.Cmd{Argv: argv, Dir: r.folder(), Env: withVars(r.Environ, vars), Stdin: stdin}
}

// folder returns the CLI's working directory.
func (r *run) folder() string {
	if r.Kind == agents.KindReview {
		return r.asidePath()
	}
	return r.treePath()
}

// withoutMonitor disables the file monitor program that a repository within the checkout may configure for git. Other
// git settings in the environment stay.
func withoutMonitor(environ []string) []string {
	n, _ := strconv.Atoi(agents.Getenv(environ, "GIT_CONFIG_COUNT"))
	return []string{
		fmt.Sprintf("GIT_CONFIG_COUNT=%d", n+1),
		fmt.Sprintf("GIT_CONFIG_KEY_%d=core.fsmonitor", n), fmt.Sprintf("GIT_CONFIG_VALUE_%d=false", n),
	}
}

// eventWriter returns a writer for the CLI's events. It cancels the run if the CLI is silent for too long, cannot
// succeed, repeats itself, or has reached its limits.
func (r *run) eventWriter(
	ctx context.Context, c *call, said *report, before agents.Usage, cancel context.CancelCauseFunc,
) *lines {
	m := &runMeter{run: r, said: said, before: before}
	quiet := r.listen(ctx, cancel, c.probe())
	tell := time.AfterFunc(time.Hour, func() { cancel(errTold) })
	tell.Stop()
	end := func() {
		tell.Stop()
		quiet.timer.Stop()
		c.talk.end()
		m.readDiary() // a CLI that died has written its last usage there
	}
	return &lines{stop: end, each: func(line []byte) {
		if errors.Is(context.Cause(ctx), errTold) { // what it says while it is being ended
			return
		}
		said.add(r.cli, line, r.Now())
		c.talk.next(said)
		m.measure()
		quiet.event(said)
		if said.Note != "" {
			r.logf("%s", said.Note)
		}
		if said.Answered {
			r.hear()
		}
		if said.Hopeless || said.final() {
			cancel(nil)
		}
		r.interrupt(tell, said)
	}}
}

// stderrWriter returns a writer that logs what a program of the operator's prints on stderr, because it has no events.
// That of a CLI would be its debugging output.
func (r *run) stderrWriter() *lines {
	return &lines{stop: func() {}, each: func(line []byte) {
		if r.own() != nil {
			r.logf("%s", firstWords(string(line)))
		}
	}}
}

// recordUsage records the usage of a run, and its conversation.
func (r *run) recordUsage(said *report, c *call, before agents.Usage) {
	r.usage = r.usage.Add(r.cost(said, before))
	id := said.Session
	if id == "" && said.Answered {
		id = c.Session
	}
	if !agents.ValidSessionID(id) || r.own() != nil {
		return
	}
	r.conversation = id
	r.state.CLI, r.state.Session, r.state.Thread, r.state.Slot = r.CLI, id, r.Thread, r.Slot
	r.state.Totals = totals(said, before)
	r.state.save(r.statePath())
}

// cost returns the usage of a run so far.
func (r *run) cost(said *report, before agents.Usage) agents.Usage {
	u := used(said, before)
	if r.Local {
		u.CostUSD = 0 // the CLI's estimate of a paid API's price
	}
	return u
}

// newID returns a random UUID, the format that CLIs require for the id of a conversation.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// withVars sets variables in an environment. NAME= removes a variable.
func withVars(environ, more []string) []string {
	return slices.DeleteFunc(agents.Setenv(environ, more), func(entry string) bool {
		return strings.HasSuffix(entry, "=") && slices.Contains(more, entry)
	})
}

// propsTime is the time limit for a local server to report its model's name and context length.
const propsTime = 3 * time.Second

// tail holds the last bytes written to it.
type tail struct {
	text  []byte
	limit int
}

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if n := len(t.text) - t.limit; n > 0 {
		t.text = slices.Clone(t.text[n:])
	}
	return len(p), nil
}
