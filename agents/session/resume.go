package session

import (
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/plainfile"
)

// cacheExpectation says that the local server may have cached the beginning of this session's first request, from the
// last session of this agent on the chain.
type cacheExpectation struct{ changed string } // see agents.Resumption

// maxPrompt is how many bytes of a prompt are stored for comparison with the next one.
const maxPrompt = 1 << 20

// expectCache compares a session's prompt with the last one on the chain, and stores it for the next session. It is
// called before the first run of the CLI.
func (r *run) expectCache(c *call, prompt string) *cacheExpectation {
	last, err := plainfile.Read(r.promptPath(), maxPrompt)
	_ = writeFile(r.promptPath(), []byte(prompt)[:min(len(prompt), maxPrompt)])
	k := &r.state
	switch {
	case !r.Local || k.Session == "" || k.CLI != r.CLI || k.Thread != r.Thread:
		return nil
	case c.Resume:
		return &cacheExpectation{}
	case err != nil:
		return nil
	}
	return &cacheExpectation{changed: firstChange(string(last), prompt)}
}

// firstChange returns the first line of a prompt that differs from the previous prompt, with its number. It returns ""
// if that line is in the second half, where changing text belongs and costs little.
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

// recordResumption records and logs how much of the first request was cached. u is the usage of the first run so far.
func (r *run) recordResumption(u agents.Usage) {
	share, known := u.Hit()
	if r.expected == nil || !known {
		return
	}
	r.resumed = &agents.Resumption{Cached: u.CachedTokens, Computed: u.InputTokens, Changed: r.expected.changed}
	r.expected = nil
	r.logf("continuing where the last session ended: the server still had %.0f %% of %d tokens", 100*share,
		u.CachedTokens+u.InputTokens)
}
