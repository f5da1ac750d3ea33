// Package session is the built-in agent program, which `disinto agent` runs on one item. It depends only on the
// environment contract, like any other agent program, and runs as the agent's subprocess.
//
// A session checks out the item's branch in a worktree of its workspace, renders a prompt, runs an agent CLI (claude,
// codex, opencode, qwen) headless, and publishes the work: a pushed branch with its pull request, or a formal review.
// It accesses the forge through a Desk, and writes its outcome to the result file.
//
// Decisions are pure functions without files or processes: the adapters (claude.go and its siblings), outcome.go,
// prompt.go, verdict.go. To add a CLI, write one file with an adapter whose init adds it to adapters, add its name to
// agents.CLIs, and record transcripts into testdata.
package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// Program is the agent program with its environment. All fields except Prompts are required.
type Program struct {
	CLI string // the name of one of agents.CLIs, or agents.ACP; empty for a program of the operator's
	// Command is a program with its arguments: one of the operator's, which is given the prompt as Prompt says, or the
	// agent that speaks ACP.
	Command []string
	Prompt  agents.PromptBy
	Prompts string   // a folder with templates that take precedence over the embedded ones; empty means none
	Environ []string // of this process: the environment contract
	Desk    Desk     // the forge of $FORGE_URL, for the account of $FORGE_TOKEN
	// Run runs git or the CLI until it ends. When ctx is done it ends the program and returns an error.
	Run func(ctx context.Context, cmd agents.Cmd) error
	Out io.Writer // the session's log
	Now func() time.Time
}

// Do runs one session and writes its result to the file that the contract names. The error says why there is no result;
// a failed session has one. Do not call it concurrently for an agent: sessions share the mirrors in its HOME.
func (p *Program) Do(ctx context.Context) error {
	w, err := readWork(p.Environ)
	if err != nil {
		return err
	}
	cli, err := p.adapter(&w)
	if err != nil {
		return err
	}
	r := p.newRun(w)
	r.cli, r.state = cli, loadState(w.statePath())
	out := r.do(ctx)
	return p.leave(&w, &out)
}

// newRun returns a session's access to its repository and the forge.
func (p *Program) newRun(w work) *run {
	r := &run{work: w, tree: newTree(p.Run, w, p.Environ)}
	r.told.path = agents.Getenv(p.Environ, agents.InboxVar)
	r.post = outgoing{Desk: p.Desk, repo: w.Repo}
	for _, s := range r.tree.secrets {
		r.post.secrets = append(r.post.secrets, s.Value.Reveal())
	}
	safe := *p
	safe.Desk, r.Program = &r.post, &safe
	r.tree.answers = func(ctx context.Context) error {
		_, err := p.Desk.Repository(ctx, w.Repo)
		return err
	}
	r.tree.missingFiles = func(ctx context.Context, files []forge.LargeFile) ([]forge.LargeFile, error) {
		return p.Desk.MissingFiles(ctx, w.Repo, files)
	}
	return r
}

// leave logs an outcome and writes it to the result file.
func (p *Program) leave(w *work, out *agents.Outcome) error {
	p.logf("%s%s", out.Result, prefixed(": ", out.Reason))
	text, err := agents.FormatResult(out)
	if err == nil {
		err = writeFile(w.ResultPath, text)
	}
	if err != nil {
		return fmt.Errorf("cannot leave a result: %w", err)
	}
	return nil
}

// adapter returns the adapter of the session's program. A program that Command names is called by its file's name.
func (p *Program) adapter(w *work) (adapter, error) {
	if len(p.Command) == 0 {
		return findAdapter(p.CLI)
	}
	speaks := p.CLI == agents.ACP
	p.CLI = filepath.Base(p.Command[0])
	if speaks {
		return &acp{argv: p.Command}, nil
	}
	return &ownProgram{argv: p.Command, prompt: p.Prompt, work: w}, nil
}

// run is one session of a Program.
type run struct {
	*Program
	work
	cli          adapter
	tree         *tree
	post         outgoing          // the Program's Desk
	state        chainState        // state from earlier sessions on this chain
	profile      *profile          // nil without a profile repository
	readers      readers           // the accounts whose texts enter the prompt
	usage        agents.Usage      // summed over all runs of the CLI
	expected     *cacheExpectation // nil if no cache can hold this session's beginning, or its use is known
	resumed      *agents.Resumption
	heard        bool   // the model answered in this session
	task         string // the prompt with which a conversation that was lost begins again; empty for none
	conversation string // the CLI's id of this session's conversation; empty before the first
	answered     bool   // the last session asked people, and this one continues it
	reply        string // the prompt that continues the conversation, which contains the rest
	ownBranch    bool   // no pull request uses the session's branch yet
	corrected    bool   // the CLI was asked to write its answer file again
	onBranch     bool   // the session's branch is checked out
	took         string // the commit of an earlier session's work with which it began; empty without one
	since        string // the commit or ref at which the session's branch began
	ahead        int    // the commits that are about to be pushed
	steps        []agents.Step
	into         string // the branch into which the work is merged
	setupOver    bool   // the proxy knows that the setup is over
	verifying    verifying
	told         told
	outage       time.Duration // for which this session has waited for its forge
}

func (r *run) do(ctx context.Context) agents.Outcome {
	work := map[agents.Kind]func(context.Context) (reason string, err error){
		agents.KindIssue: r.implement, agents.KindRework: r.rework,
		agents.KindReview: r.review, agents.KindSchedule: r.errand,
	}[r.Kind]
	if r.Plan && r.Kind == agents.KindIssue {
		work = r.plan
	}
	began := r.Now()
	r.answered = r.state.Asked
	r.profile = r.openProfile(ctx)
	r.state.Running, r.state.Interrupted = true, r.state.Running
	r.state.save(r.statePath())
	reason, err := work(ctx)
	out := agents.Outcome{Result: agents.Done, Reason: reason}
	switch {
	case err != nil && ctx.Err() != nil:
		out = agents.Outcome{Result: agents.Failed, Reason: "ended by a signal"}
	case err != nil:
		out = r.outcomeOf(err)
	}
	r.state.Running = false
	where := ""
	if interrupted(out.Result) {
		where = r.saveInterrupted(ctx, r.post.hide(cmp.Or(out.Reason, string(out.Result))))
	} else {
		if r.handedIn(ctx); out.Result == agents.Done {
			r.dropTaken(ctx)
		}
		r.tree.dropMade(ctx)
	}
	r.replaceDamaged(ctx, err)
	if where != "" && (ctx.Err() != nil || out.Result == agents.OverBudget) {
		out.Reason += where
	} else if where != "" {
		r.logf("stopped%s", where)
	}
	unheard := []agents.Result{
		agents.Limited, agents.BackendDown, agents.OverBudget, agents.Unanswered, agents.Killed,
		agents.SetupFailed,
	}
	cut := ctx.Err() != nil || slices.Contains(unheard, out.Result)
	r.state.Asked = out.Words != "" || r.answered && cut
	out.SessionID = r.conversation
	if ctx.Err() == nil {
		r.recordSession(ctx, &out, began)
		r.tree.tidy(ctx, r.logf)
	}
	r.state.save(r.statePath())
	out.Usage, out.Resumed = r.usage, r.resumed
	out.Heard = r.told.heard
	out.Steps, out.Verified = agents.BoundedSteps(r.steps), r.verifying.result.Bounded()
	return out
}

// outcomeOf converts an error. One outside the CLI that comes before the model's first answer, or from a forge that
// does not answer, does not count as an attempt.
func (r *run) outcomeOf(err error) agents.Outcome {
	if e, ok := errors.AsType[*ended](err); ok {
		return e.Outcome
	}
	out := agents.Outcome{Result: agents.Failed, Reason: err.Error()}
	switch {
	case errors.Is(err, forge.ErrUnavailable):
		out.Result = agents.BackendDown
	case !r.heard:
		out.Result = agents.Unanswered
	}
	return out
}

// ended is an outcome as an error, which ends the session from anywhere.
type ended struct{ agents.Outcome }

func (e *ended) Error() string { return string(e.Result) + ": " + e.Reason }

func end(result agents.Result, reason string) error {
	return &ended{agents.Outcome{Result: result, Reason: reason}}
}

// endWithText ends the session with a text for people: a question or a plan.
func endWithText(result agents.Result, words string) error {
	words = agents.ManyLines(words)
	return &ended{agents.Outcome{Result: result, Reason: firstWords(words), Words: words}}
}

func (p *Program) logf(format string, args ...any) { fmt.Fprintf(p.Out, format+"\n", args...) }

// prefixed returns the text with a prefix, and "" for an empty text.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// joined joins paragraphs, without the empty ones.
func joined(paragraphs ...string) string {
	return strings.Join(slices.DeleteFunc(paragraphs, func(p string) bool { return p == "" }), "\n\n")
}
