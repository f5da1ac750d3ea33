package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/supervisor/control"
)

// display is how the demo shows itself: a redrawn status on a terminal, log lines elsewhere, and as JSON nothing but
// the last document.
type display struct {
	*terminal
	json    bool
	redrawn bool
	log     hclog.Logger
	logging *atomic.Bool // whether log lines are shown
}

func newDisplay(c *cli, asJSON bool) *display {
	s := &display{terminal: c.terminal(), json: asJSON, logging: new(atomic.Bool)}
	s.redrawn = s.live() && !asJSON
	s.logging.Store(!s.redrawn && !asJSON)
	s.log = newLog(valve{c.stdout, s.logging})
	return s
}

// valve lets through what is written while it is open.
type valve struct {
	io.Writer
	open *atomic.Bool
}

func (v valve) Write(p []byte) (int, error) {
	if !v.open.Load() {
		return len(p), nil
	}
	return v.Writer.Write(p)
}

func (s *display) begin() {
	if s.redrawn {
		_, _ = io.WriteString(s, enterScreen)
	}
}

func (s *display) end() {
	if s.redrawn {
		_, _ = io.WriteString(s, leaveScreen)
	}
}

// frame draws one picture of the factory at work.
func (s *display) frame(d *control.Document, merged int, took time.Duration) {
	if !s.redrawn {
		return
	}
	width, height := s.size()
	head := &page{width: width, colour: s.colour}
	head.line(fmt.Sprintf("demo: %d of %d merged, %s", merged, demo.Due(), age(took)), bold)
	head.end()
	v := view{now: time.Now(), width: width, height: max(height-2, 1), colour: s.colour}
	_ = s.redraw(head.text.String() + v.render(d))
}

// report prints what the demo came to.
func (s *display) report(r *demo.Report, took time.Duration) error {
	if s.json {
		raw, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return printJSON(s, raw)
	}
	width, _ := s.size()
	p := &page{width: width, colour: s.colour}
	p.end()
	p.line(fmt.Sprintf("%d of %d issues merged in %s", len(r.Merged), demo.Due(), age(took)), bold)
	p.end()
	merged(p, r)
	waiting(p, r)
	p.end()
	p.table(-1, [][]cell{
		{{"agents", faint}, {strings.Join(r.Used, ", "), plain}},
		{{"switches", faint}, {fmt.Sprintf("%d times a llama slot went to another agent", r.Switches), plain}},
		broken(r),
	})
	_, err := io.WriteString(s, p.text.String())
	return err
}

func merged(p *page, r *demo.Report) {
	rows := [][]cell{heads("ISSUE", "TITLE", "BY", "APPROVED BY")}
	for _, m := range r.Merged {
		approved := strings.Join(m.Approvers, " and ")
		if m.Rounds > 0 {
			approved += fmt.Sprintf(", in round %d", m.Rounds+1)
		}
		rows = append(rows, []cell{{fmt.Sprintf("#%d", m.Issue), plain}, {m.Title, plain}, {m.Author, plain}, {approved, plain}})
	}
	for _, n := range r.Missing {
		rows = append(rows, []cell{{fmt.Sprintf("#%d", n), plain}, {}, {}, {"not merged", wrong}})
	}
	p.table(1, rows)
}

// waiting is what is held, and why.
func waiting(p *page, r *demo.Report) {
	v := view{repo: demo.Repo}
	rows := [][]cell{heads("HELD", "TITLE", "WHY")}
	for _, q := range r.Queue {
		if q.Number != 0 {
			rows = append(rows, []cell{{fmt.Sprintf("#%d", q.Number), plain}, {q.Title, plain}, {v.short(q.Why), held}})
		}
	}
	if len(rows) > 1 {
		p.end()
		p.table(1, rows)
	}
}

// broken says whether the rules were kept, and what was looked at to know.
func broken(r *demo.Report) []cell {
	if len(r.Violations) == 0 {
		return []cell{{"violations", faint}, {fmt.Sprintf("none in %s: one agent in a llama slot at a time, one session "+
			"for an agent, no local review of local work, nothing begun while blocked", count(r.Looked, "session")), good}}
	}
	return []cell{{"violations", faint}, {strings.Join(r.Violations, "; "), wrong}}
}

// invite says how to use a demo that goes on.
func (s *display) invite(to io.Writer, w *demo.World, dir string) {
	fmt.Fprintf(to, `
The factory goes on until you interrupt it. File an issue as %s:

  curl -H "Authorization: token %s" -H "Content-Type: application/json" \
    -d '{"title": "Add a sign", "body": "Add `+"`sign.md`"+`.", "labels": [%d]}' \
    %s/api/v1/repos/%s/issues

  disinto status --watch --state %s/state
  disinto why 9 --state %s/state
  git clone %s/%s.git

Its files stay in %s.

`, demo.Human, w.HumanToken, w.Backlog, w.URL, demo.Repo, dir, dir, w.URL, demo.Repo, dir)
	s.logging.Store(!s.json)
}
