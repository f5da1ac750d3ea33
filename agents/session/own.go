package session

import (
	"errors"
	"os"
	"path/filepath"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/plainfile"
)

// ownProgram is the adapter of a program of the operator's, which edits files in its folder. Its lines are no events:
// its exit status, and the result that it may leave like any agent's program, say how it ended. It has no
// conversations, so each run gets the whole prompt.
type ownProgram struct {
	argv   []string
	prompt agents.PromptBy
	work   *work
	asked  string // the last whole prompt
}

func (p *ownProgram) command(*call) (argv, vars []string) {
	vars = []string{"DISINTO_RESULT=" + p.work.ownResultPath()}
	if p.prompt == agents.PromptFile {
		vars = append(vars, "DISINTO_PROMPT="+p.work.promptPath())
	}
	return p.argv, vars
}

func (p *ownProgram) read(line []byte, r *report) bool {
	r.Answered = true
	r.Said = string(line)
	r.Words, r.Note = r.Said, firstWords(r.Said)
	return true
}

func (p *ownProgram) credentials() (vars, files []string) { return nil, nil }

// begin prepares a run, and returns the text for the program's stdin. A prompt that follows up on the last one contains
// it.
func (p *ownProgram) begin(prompt string, follows bool) (stdin string, err error) {
	if follows {
		prompt = joined(p.asked, prompt)
	} else {
		p.asked = prompt
	}
	if err := os.Remove(p.work.ownResultPath()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if p.prompt == agents.PromptFile {
		return "", writeFile(p.work.promptPath(), []byte(prompt))
	}
	return prompt, nil
}

// end reads the result that the program left, and returns its outcome; nil if it left none, or is done.
func (p *ownProgram) end(said *report, exit error) *agents.Outcome {
	said.Ended = exit == nil && said.What == noFailure
	said.Answered = said.Answered || said.Ended
	text, err := plainfile.Read(p.work.ownResultPath(), agents.MaxResult)
	if err != nil {
		return nil
	}
	out, err := agents.ParseResult(text)
	if err != nil && !errors.Is(err, agents.ErrUnfinished) {
		return nil
	}
	said.Usage = out.Usage
	switch {
	case err != nil || said.final():
		return nil
	case out.Result == agents.Done:
		said.Ended, said.failure = true, failure{}
		return nil
	}
	return &agents.Outcome{Result: out.Result, Reason: out.Reason, Words: out.Words, RetryAt: out.RetryAt}
}

// ownResultPath is where a program of the operator's may leave its result, beside that of the session.
func (w *work) ownResultPath() string { return filepath.Join(w.Workspace, "result.json") }

// own returns the adapter of a program of the operator's; nil for an agent CLI.
func (r *run) own() *ownProgram {
	p, _ := r.cli.(*ownProgram)
	return p
}
