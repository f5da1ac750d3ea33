package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
)

// lastOutput is how much of a failed command's output the agent gets, in bytes.
const lastOutput = 8 << 10

// Setup only runs the repository's setup, in a new worktree at the head of the default branch.
func (p *Program) Setup(ctx context.Context) error {
	w, err := readWork(p.Environ)
	if err != nil {
		return err
	}
	r, out := p.newRun(w), agents.Outcome{Result: agents.Done}
	base, err := r.fetchBase(ctx)
	if err == nil {
		err = r.checkOut(ctx, &promptData{Base: base}, remotes+base)
	}
	if err != nil {
		out = agents.Outcome{Result: agents.Failed, Reason: err.Error()}
	} else if failed := r.runSteps(ctx, agents.Step{Phase: agents.PhaseSetup}, w.Room.Setup); failed != nil {
		out = agents.Outcome{Result: agents.SetupFailed, Reason: failed.Words()}
	}
	out.Steps = agents.BoundedSteps(r.steps)
	return p.leave(&w, &out)
}

// setUp runs the repository's setup in the worktree, before the prompt. The repository is to blame for a failure at the
// base commit, which ends the session. On a branch the agent gets the output. What setup changes in tracked files is
// thrown away, and the files that it makes are never published.
func (r *run) setUp(ctx context.Context, d *promptData) error {
	if len(r.Room.Setup.Argv) == 0 {
		return nil
	}
	t := r.tree
	key, err := r.setupKey(ctx)
	if err != nil {
		return err
	}
	last := t.lastSetup(ctx)
	if last.Key == key && len(last.Made) == 0 {
		r.logf("setup: skipped, its commands and the lock files are those of the last one in this worktree")
		return nil
	}
	if !last.Running {
		if last.Before, err = t.unignored(ctx); err != nil {
			return err
		}
	}
	changed, err := t.runGit(ctx, "status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return err
	}
	last.Key, last.Running = "", true
	t.saveSetup(ctx, &last) // a killed session must not leave its files to the next one
	failed := r.runSteps(ctx, agents.Step{Phase: agents.PhaseSetup}, r.Room.Setup)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if changed == "" {
		if _, err := t.runGit(ctx, "reset", "--quiet", "--hard"); err != nil {
			return err
		}
	}
	if err := r.recordSetup(ctx, &last, key, failed == nil); err != nil {
		return err
	}
	switch {
	case failed == nil:
		return nil
	case r.atBase(ctx, d):
		return end(agents.SetupFailed, failed.Words())
	}
	d.breakBy("set up the repository", failed)
	return nil
}

// recordSetup records the files that a setup made, and its key if it succeeded.
func (r *run) recordSetup(ctx context.Context, last *setup, key string, ok bool) error {
	after, err := r.tree.unignored(ctx)
	if err != nil {
		return err
	}
	for _, name := range after {
		if !slices.Contains(last.Before, name) && !slices.Contains(last.Made, name) {
			last.Made = append(last.Made, name)
		}
	}
	if len(last.Made) > 0 {
		r.logf("setup made what git does not ignore, and what is not published: %s", strings.Join(last.Made, ", "))
	}
	last.Before, last.Running, r.tree.made = nil, false, last.Made
	if ok {
		last.Key = key
	}
	r.tree.saveSetup(ctx, last)
	return nil
}

// atBase reports whether the worktree has the base commit and nothing else.
func (r *run) atBase(ctx context.Context, d *promptData) bool {
	return r.Kind == agents.KindIssue && !d.Continues && r.tree.commit(ctx, remotes+d.Base) == r.tree.commit(ctx,
		"refs/heads/"+d.Branch)
}

// breakBy notes in the prompt that commands failed on the branch.
func (d *promptData) breakBy(what string, failed *failedStep) {
	d.BrokenBy, d.Broken = what, quoted(failed.Words()+"\n\n"+failed.output)
}

// failedStep is a command that failed, with the end of its output, without secrets.
type failedStep struct {
	agents.Step
	output string
}

// runSteps runs commands in the worktree, one after the other, until one fails, and records each like a step. What a
// command leaves running is ended.
func (r *run) runSteps(ctx context.Context, like agents.Step, c agents.Commands) *failedStep {
	r.show(agents.Doing{Phase: like.Phase, Since: r.Now()})
	defer r.show(agents.Doing{})
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, errTooLong)
	defer cancel()
	for _, argv := range c.Argv {
		if failed := r.runStep(ctx, like, argv, c.Timeout); failed != nil {
			return failed
		}
	}
	return nil
}

var errTooLong = errors.New("its time is over")

func (r *run) runStep(ctx context.Context, s agents.Step, argv []string, limit time.Duration) *failedStep {
	s.Command = firstWords(r.post.hide(strings.Join(argv, " ")))
	phase := s.Phase
	r.logf("%s: %s", phase, s.Command)
	began, said := r.Now(), &tail{limit: 2 * lastOutput}
	out := &commandLog{log: r.Out, last: said, hides: agents.NewRedactor(r.post.secrets)}
	stop := r.beat(out, phase, &s, began)
	err := r.Run(ctx, agents.Cmd{
		Argv: argv, Dir: r.treePath(), Env: r.roomEnviron(), Stdout: out, Stderr: out, Alone: true,
	})
	stop()
	out.end()
	s.Seconds = r.Now().Sub(began).Round(time.Millisecond).Seconds()
	exit, exited := errors.AsType[interface {
		error
		ExitCode() int
	}](err)
	switch {
	case err == nil:
	case errors.Is(context.Cause(ctx), errTooLong):
		s.Exit, s.Why = -1, "no end within "+limit.String()
	case exited && exit.ExitCode() >= 0:
		s.Exit = exit.ExitCode()
	default:
		s.Exit, s.Why = -1, firstWords(err.Error())
	}
	r.steps = append(r.steps, s)
	if !s.Failed() {
		r.logf("%s: %s, done after %.1f s", phase, s.Command, s.Seconds)
		return nil
	}
	r.logf("%s: %s, after %.1f s", phase, s.Words(), s.Seconds)
	return &failedStep{s, agents.ManyLines(cutFront(string(said.text), lastOutput))}
}

// beat says now and then that a command still runs, so that nobody takes a silent one for a stall.
func (r *run) beat(out *commandLog, phase agents.Phase, s *agents.Step, began time.Time) (stop func()) {
	tick, done, stopped := time.NewTicker(max(r.Room.Beat, time.Millisecond)), make(chan bool), make(chan bool)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				out.note(fmt.Sprintf("%s: %s runs for %s", phase, s.Command, r.Now().Sub(began).Round(time.Second)))
			}
		}
	}()
	return func() { tick.Stop(); close(done); <-stopped }
}

// commandLog takes the output of a command, without secrets, into the log, and keeps the last of it. Notes of our own
// come from another goroutine.
type commandLog struct {
	mu    sync.Mutex // held while the log is written
	log   io.Writer
	last  *tail
	hides *agents.Redactor
}

func (c *commandLog) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(p), c.put(c.hides.Next(string(p)))
}

func (c *commandLog) put(text string) error {
	_, _ = c.last.Write([]byte(text))
	_, err := io.WriteString(c.log, text)
	return err
}

func (c *commandLog) note(words string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = io.WriteString(c.log, words+"\n")
}

func (c *commandLog) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.put(c.hides.End())
	if text := c.last.text; len(text) > 0 && text[len(text)-1] != '\n' {
		_, _ = io.WriteString(c.log, "\n")
	}
}

// show writes the phase into the result file, where the supervisor reads it, and what it has heard.
func (r *run) show(d agents.Doing) {
	d.Heard = r.told.heard
	if text, err := agents.FormatProgress(r.usage, d); err == nil {
		_ = writeFile(r.ResultPath, text)
	}
}

// roomEnviron returns the environment of the repository's commands: the session's without the keys of models, and with
// git's header for the forge.
func (r *run) roomEnviron() []string {
	env := slices.DeleteFunc(slices.Clone(r.Environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return name == agents.RoomVar || slices.Contains(r.Room.Withheld, name)
	})
	header := [2]string{"http." + r.ForgeURL + "/.extraHeader", authorization(r.Token)}
	return append(withSettings(env, [][2]string{header}), "GIT_TERMINAL_PROMPT=0", "GIT_CEILING_DIRECTORIES="+r.Workspace)
}

// setup is what the last setup of a worktree was made of, and what it made.
type setup struct {
	Key  string   `json:"key"`            // of setupKey; empty if it failed
	Made []string `json:"made,omitempty"` // files and folders that git does not ignore; a folder's ends in /
	// Running says that the setup has not ended, and Before what was in the worktree when it began.
	Running bool     `json:"running,omitempty"`
	Before  []string `json:"before,omitempty"`
}

// lockFiles are the files that a package manager writes, as patterns of git.
var lockFiles = []string{"*.lock", "*.lock.*", "*.lockb", "*.lockfile", "*-lock.*", "go.sum", "*/go.sum"}

// setupKey returns a hash of the commands and of the tracked lock files.
func (r *run) setupKey(ctx context.Context) (string, error) {
	locks, err := r.tree.runGit(ctx, append([]string{"ls-files", "--stage", "--"}, lockFiles...)...)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(r.Room.Setup.Argv)
	sum := sha256.Sum256(append(text, locks...))
	return hex.EncodeToString(sum[:]), err
}

// setupPath is a file of git's folder for the worktree, which disappears with it; "" without a worktree.
func (t *tree) setupPath(ctx context.Context) string {
	dir, err := t.runGit(ctx, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "disinto-setup")
}

func (t *tree) lastSetup(ctx context.Context) (s setup) {
	text, err := plainfile.Read(t.setupPath(ctx), maxLeft)
	if err != nil || json.Unmarshal(text, &s) != nil {
		return setup{}
	}
	return s
}

func (t *tree) saveSetup(ctx context.Context, s *setup) {
	if text, err := json.Marshal(s); err == nil {
		_ = os.RemoveAll(t.setupPath(ctx))
		_ = writeFile(t.setupPath(ctx), text)
	}
}

// maxMade bounds the names of files that setup made. More than these are in folders.
const maxMade = 1000

// unignored returns the files that are neither tracked nor ignored, and folders that contain nothing else.
func (t *tree) unignored(ctx context.Context) (names []string, err error) {
	out, err := t.runGit(ctx, "ls-files", "--others", "--exclude-standard", "--directory", "--no-empty-directory", "-z")
	for name := range strings.SplitSeq(out, "\x00") {
		if name != "" && len(names) < maxMade {
			names = append(names, name)
		}
	}
	return names, err
}

// dropMade deletes what setup made and git does not ignore: it would count as work that nobody has handed in.
func (t *tree) dropMade(ctx context.Context) {
	if len(t.made) == 0 {
		return
	}
	args := []string{"clean", "--quiet", "-ffd", "--"}
	for _, name := range t.made {
		args = append(args, ":(top,literal)"+strings.TrimSuffix(name, "/"))
	}
	_, _ = t.runGit(ctx, args...) // what stays is saved, as the rest of a worktree is
}

// isMade reports whether setup made a file or folder.
func (t *tree) isMade(name string) bool {
	return slices.ContainsFunc(t.made, func(made string) bool {
		return name == made || strings.HasSuffix(made, "/") && strings.HasPrefix(name, made)
	})
}

// checkMade returns a *notForForge if a commit that is not on the forge has a file that setup made.
func (t *tree) checkMade(ctx context.Context, commit string) error {
	if len(t.made) == 0 {
		return nil
	}
	args := []string{"log", "--format=", "--name-only", "--diff-filter=d", "--no-renames", "--cc", "-z"}
	out, err := t.runGit(ctx, append(args, notOnForge(commit)...)...)
	if err != nil {
		return err
	}
	for name := range strings.SplitSeq(out, "\x00") {
		if name = strings.TrimSpace(name); name != "" && t.isMade(name) {
			what := firstWords(name) + ", which the setup of the repository made and git does not ignore"
			return &notForForge{what, "leave it out of git"}
		}
	}
	return nil
}
