package session

import (
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/plainfile"
)

// goesOn says that the local server has read the beginning of a session's first request before: in the last session of
// this agent on the chain.
type goesOn struct{ changed string } // see agents.Resumption

// maxPrompt bounds how much of a prompt is kept to compare the next one with, in bytes.
const maxPrompt = 1 << 20

// expects compares a session with the last one on the chain, and keeps its prompt for the next. It is called before the
// first run of the CLI.
func (r *run) expects(c *call, prompt string) *goesOn {
	last, err := plainfile.Read(r.promptPath(), maxPrompt)
	_ = writeFile(r.promptPath(), []byte(prompt)[:min(len(prompt), maxPrompt)])
	k := &r.keep
	switch {
	case !r.Local || k.Session == "" || k.CLI != r.CLI || k.Thread != r.Thread:
		return nil
	case c.Resume:
		return &goesOn{}
	case err != nil:
		return nil
	}
	return &goesOn{changed: firstChange(string(last), prompt)}
}

// firstChange is the first line of a prompt that was another one before, with its number. It is empty where that
// stands in the second half: what changes stands last, and costs little.
func firstChange(was, is string) string {
	same := 0
	for same < min(len(was), len(is)) && was[same] == is[same] {
		same++
	}
	if 2*same >= min(len(was), len(is)) {
		return ""
	}
	begin := strings.LastIndexByte(is[:same], '\n') + 1
	line, _, _ := strings.Cut(is[begin:], "\n")
	return fmt.Sprintf("line %d: %s", 1+strings.Count(is[:begin], "\n"), firstWords(line))
}

// resumption notes what a cache had of the first answer, and tells it. u is the use of the first run so far.
func (r *run) resumption(u agents.Usage) {
	share, known := u.Hit()
	if r.goesOn == nil || !known {
		return
	}
	r.resumed = &agents.Resumption{Cached: u.CachedTokens, Computed: u.InputTokens, Changed: r.goesOn.changed}
	r.goesOn = nil
	r.logf("it goes on where the last session ended: the server still had %.0f %% of %d tokens", 100*share,
		u.CachedTokens+u.InputTokens)
}
