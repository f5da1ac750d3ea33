// Package session is the built-in agent program: what `disinto agent` does with one piece of work. It knows nothing but
// the environment contract, as any program in its place would, and runs as the agent's subprocess.
//
// A session is: a worktree of the item in its workspace, a prompt, one run of an agent CLI (claude, codex, opencode,
// qwen) headless, and what follows from it on the forge: a pushed branch with its pull request, or a formal review. How
// it ended goes into the result file.
//
// What decides is pure and has no file or process in it: events (claude.go and its siblings read a CLI's stream into a
// report), outcome.go, prompt.go, verdict.go. To add a CLI: one file with an adapter, its line in adapters, a recorded
// transcript in testdata.
package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// Cmd is a program to run: git, or an agent CLI.
type Cmd struct {
	Argv   []string
	Dir    string
	Env    []string // the complete environment
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// Program is one session. All fields but Prompts have to be set.
type Program struct {
	CLI string // one of agents.CLIs
	// Prompts is a folder with templates that stand before our own; empty means none.
	Prompts string
	Environ []string // of this process: the contract
	Desk    Desk     // the forge of $FORGE_URL, for the account of $FORGE_TOKEN
	// Run runs a program to its end. When ctx is done it ends the program and returns an error.
	Run func(ctx context.Context, cmd Cmd) error
	Out io.Writer // the session's log
	Now func() time.Time
}

// wipTime is how long the work in progress of a session that was ended may take to be saved. The supervisor's grace is
// 7 s by default, and the CLI needs up to 2 of them to end.
const wipTime = 4 * time.Second

// Do does the session's work and leaves its result where the contract says. The error is what keeps a result from being
// left; how the work went is in the result.
func (p *Program) Do(ctx context.Context) error {
	w, err := readWork(p.Environ)
	if err != nil {
		return err
	}
	cli, err := findAdapter(p.CLI)
	if err != nil {
		return err
	}
	s := &session{Program: p, work: w, cli: cli}
	s.tree = newTree(p.Run, w, p.Environ)
	s.keep = loadKeep(w.keepPath())
	out := s.do(ctx)
	p.logf("%s%s", out.Result, prefixed(": ", out.Reason))
	return writeResult(w.ResultPath, &out)
}

// session is a Program at work.
type session struct {
	*Program
	work
	cli  adapter
	tree *tree
	keep keep // of the sessions before on this chain
	// profile is what the agent remembers; nil without a profile repository.
	profile      *profile
	usage        agents.Usage // of all runs of the CLI
	conversation string       // the CLI's id of this session's; empty before there is one
}

func (s *session) do(ctx context.Context) agents.Outcome {
	work := map[agents.Kind]func(context.Context) (agents.Outcome, error){
		agents.KindIssue: s.implement, agents.KindRework: s.rework, agents.KindReview: s.review, agents.KindSchedule: s.errand,
	}[s.Kind]
	began := s.Now()
	s.profile = s.openProfile(ctx)
	interrupted := s.keep.Running
	s.keep.Running, s.keep.Interrupted = true, interrupted
	s.keep.save(s.keepPath())
	out, err := work(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		out = s.interrupted(ctx)
	case err != nil:
		out = failure(err)
		fallthrough
	default:
		s.keep.Running = false
	}
	out.SessionID = s.conversation
	if ctx.Err() == nil {
		s.remember(ctx, &out, began)
		s.tree.tidy(ctx, s.logf)
	}
	s.keep.save(s.keepPath())
	out.Usage = s.usage
	return out
}

// interrupted saves the work of a session that was told to end. It stays in the worktree too, and the next session on
// the chain goes on from there.
func (s *session) interrupted(ctx context.Context) agents.Outcome {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wipTime)
	defer cancel()
	out := agents.Outcome{Result: agents.Failed, Reason: "ended by a signal, nothing was unsaved"}
	saved, err := s.tree.save(ctx, "ended by a signal")
	switch {
	case err != nil:
		out.Reason = "ended by a signal; the work in progress is in the workspace only: " + err.Error()
	case saved != "":
		out.Reason = "ended by a signal; the work in progress is on " + saved
	}
	return out
}

// failure is the outcome when something around the CLI went wrong. A forge that does not answer is nobody's failure.
func failure(err error) agents.Outcome {
	var e *ended
	switch {
	case errors.As(err, &e):
		return e.Outcome
	case errors.Is(err, forge.ErrUnavailable):
		return agents.Outcome{Result: agents.BackendDown, Reason: err.Error()}
	}
	return agents.Outcome{Result: agents.Failed, Reason: err.Error()}
}

// ended is an error that is an outcome: it stops the work wherever it is.
type ended struct{ agents.Outcome }

func (e *ended) Error() string { return string(e.Result) + ": " + e.Reason }

func (p *Program) logf(format string, args ...any) {
	fmt.Fprintf(p.Out, "%s\n", fmt.Sprintf(format, args...))
}

// prefixed is text with something in front of it, or nothing for nothing.
func prefixed(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}
