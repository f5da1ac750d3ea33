package session

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// ask runs the CLI with a prompt, on from the conversation of the session before where that pays: on a slot that still
// holds it. A conversation that is gone, or has grown too long, is begun anew, once. The error is an *ended unless the
// run is complete.
func (s *session) ask(ctx context.Context, prompt string) (*report, error) {
	c := s.call(ctx)
	r, out := s.runCLI(ctx, c, prompt)
	if c.Resume && ctx.Err() == nil && (r.What == forgotten || r.What == overflown || r.What == noTrouble && !r.Ended && r.Turns == 0) {
		s.logf("%s cannot go on with its conversation (%s), a new one begins", s.CLI, out.Reason)
		s.keep.Session, s.keep.Totals = "", agents.Usage{}
		r, out = s.runCLI(ctx, s.call(ctx), prompt)
	}
	if r.What == overflown {
		s.keep.Session, s.conversation = "", "" // the next attempt must not begin where this one ended
	}
	if out.Result != agents.Done {
		return r, &ended{out}
	}
	return r, nil
}

// nudge says one more thing in the conversation of this session.
func (s *session) nudge(ctx context.Context, words string) (*report, error) {
	if s.conversation == "" {
		return &report{}, nil
	}
	s.logf("nudged: %s", firstWords(words))
	c := s.call(ctx)
	c.Session, c.Resume = s.conversation, true
	r, out := s.runCLI(ctx, c, words)
	if out.Result != agents.Done {
		return r, &ended{out}
	}
	return r, nil
}

// call is what a run is made of. A conversation is gone on with only where a cache may still hold it: the same CLI on the
// same slot of a local backend. On an API every run begins afresh, which is cheaper than to send an old conversation
// again.
func (s *session) call(ctx context.Context) *call {
	c := &call{
		Model: s.Model, BaseURL: s.BaseURL, Local: s.Local, Root: os.Geteuid() == 0, environ: s.Environ,
	}
	k := &s.keep
	if s.Local && k.Session != "" && k.CLI == s.CLI && k.Thread == s.Thread && k.Slot == s.Slot {
		c.Session, c.Resume = k.Session, true
	} else {
		c.Session = newID()
	}
	if c.Local && c.BaseURL != "" {
		c.Context = contextOf(ctx, c.host())
	}
	return c
}

// runCLI runs the CLI once and reads its events as they come.
func (s *session) runCLI(ctx context.Context, c *call, prompt string) (*report, agents.Outcome) {
	argv, more := s.cli.command(c)
	// A worktree that the CLI breaks must not turn its git to a repository that the workspace happens to be in.
	more = append(more, "GIT_CEILING_DIRECTORIES="+s.Workspace)
	r := &report{}
	run, cancel := context.WithCancel(ctx)
	defer cancel()
	patience := newPatience(s.Local, cancel)
	defer patience.stop()
	linger := time.AfterFunc(time.Hour, cancel)
	linger.Stop()
	defer linger.Stop()
	out := &lines{each: func(line []byte) {
		s.cli.read(line, r)
		if r.Ended {
			linger.Reset(lastWord)
		} else {
			linger.Stop()
		}
		if r.Turns > 0 {
			patience.stop()
		}
		if r.Note != "" {
			s.logf("%s", r.Note)
		}
		if r.Hopeless {
			cancel()
		}
	}}
	complaint := &end{limit: 4 << 10}
	before := agents.Usage{}
	if c.Resume {
		before = s.keep.Totals
	}
	s.logf("%s begins%s", s.CLI, map[bool]string{true: ", on from its last conversation"}[c.Resume])
	err := s.Run(run, Cmd{
		Argv: argv, Dir: s.treePath(), Env: withVars(s.Environ, more), Stdin: strings.NewReader(prompt), Stdout: out, Stderr: complaint,
	})
	out.flush()
	r.Unread += out.dropped
	if patience.over.Load() && r.What == noTrouble {
		r.trouble(Trouble{What: down, Words: fmt.Sprintf("no answer from the model in %s; it may be waiting for a usage limit, in silence", firstAnswer)})
	}
	if errors.Is(err, os.ErrNotExist) {
		r.trouble(Trouble{What: down, Words: err.Error()})
	}
	s.account(r, c, before)
	if words := lastLine(complaint.String()); words != "" && !r.Ended {
		s.logf("%s says: %s", s.CLI, firstWords(words))
	}
	return r, outcome(s.CLI, r, err, complaint.String(), s.Now())
}

// firstAnswer is how long the model of a paid API may take to say anything at all. codex, qwen and opencode wait in
// silence for as long as a refused request tells them to, which may be hours; the supervisor would take that for a stall
// and burn an attempt.
const firstAnswer = 5 * time.Minute

// lastWord is how long a CLI may stay after it said how it ended, in silence. Some wait for a tool that they left in the
// background, or for a connection that nobody closes; what they were for is done, and the slot is wanted.
const lastWord = 30 * time.Second

// patience ends a run that does not begin to answer. On a local backend there is none to lose: no limits are there, and
// to read a long prompt takes long.
type patience struct {
	timer *time.Timer
	over  atomic.Bool
}

func newPatience(local bool, cancel func()) *patience {
	p := &patience{}
	if !local {
		p.timer = time.AfterFunc(firstAnswer, func() {
			p.over.Store(true)
			cancel()
		})
	}
	return p
}

func (p *patience) stop() {
	if p.timer != nil {
		p.timer.Stop()
	}
}

// idLike is what a conversation may be called: it becomes an argument, and a part of the result.
var idLike = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._:-]{0,199}$`)

// account keeps what a run used, and its conversation.
func (s *session) account(r *report, c *call, before agents.Usage) {
	u := used(r, before)
	if s.Local {
		u.CostUSD = 0 // what a CLI thinks that it would have cost elsewhere
	}
	s.usage = sum(s.usage, u)
	id := r.Session
	if id == "" && r.Turns > 0 {
		id = c.Session
	}
	if !idLike.MatchString(id) {
		return
	}
	s.conversation = id
	s.keep.CLI, s.keep.Session, s.keep.Thread, s.keep.Slot = s.CLI, id, s.Thread, s.Slot
	if (r.TotalTokens || r.TotalCost) && r.Usage != (agents.Usage{}) { // a run that failed at once tells no totals
		s.keep.Totals = r.Usage
	}
	s.keep.save(s.keepPath())
}

// newID is a random UUID, the form in which CLIs want the id of a conversation.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// withVars sets variables in an environment. NAME= takes one away.
func withVars(environ, more []string) []string {
	env := slices.DeleteFunc(slices.Clone(environ), func(old string) bool {
		name, _, _ := strings.Cut(old, "=")
		return slices.ContainsFunc(more, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
	})
	for _, kv := range more {
		if !strings.HasSuffix(kv, "=") {
			env = append(env, kv)
		}
	}
	return env
}

// propsTime is how long a local server may take to say how long its context is.
const propsTime = 3 * time.Second

// contextOf asks a llama-server how long the context of a slot is, in tokens; 0 when nobody says.
func contextOf(ctx context.Context, host string) int {
	ctx, cancel := context.WithTimeout(ctx, propsTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, host+"/props", nil)
	if err != nil {
		return 0
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	var props struct {
		Settings struct {
			Context int `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(resp.Body).Decode(&props) != nil {
		return 0
	}
	return max(0, props.Settings.Context)
}

// end keeps the last bytes of what is written to it.
type end struct {
	text  []byte
	limit int
}

func (e *end) Write(p []byte) (int, error) {
	e.text = append(e.text, p...)
	if n := len(e.text) - e.limit; n > 0 {
		e.text = slices.Clone(e.text[n:])
	}
	return len(p), nil
}

func (e *end) String() string { return string(e.text) }
