package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

var whyCommand = command{
	name: "why", args: "REF", minArgs: 1, maxArgs: 1,
	short: "why an issue or pull request is not worked on: rule by rule",
	long: `
REF is 12, #12 or owner/name#12. Asks the running supervisor, which answers with
the rules it decides by.`,
	setup: func(flags *pflag.FlagSet) action {
		var p place
		p.flags(flags)
		asJSON := flags.Bool("json", false, "print the explanation, for programs")
		return func(ctx context.Context, c *cli, args []string) error { return why(ctx, c, &p, args[0], *asJSON) }
	},
}

func why(ctx context.Context, c *cli, p *place, ref string, asJSON bool) error {
	// The supervisor knows which repository a bare number means; what is no reference at all is wrong usage.
	if _, err := forge.ParseRef(ref, "owner/name"); err != nil {
		return usagef("%v", err)
	}
	var raw json.RawMessage
	if err := control.NewClient(p.stateDir(c)).Get(ctx, "/v1/why?ref="+url.QueryEscape(ref), &raw); err != nil {
		return err
	}
	t := c.terminal()
	if asJSON {
		return printJSON(t, raw)
	}
	var ex threads.Explanation
	if err := json.Unmarshal(raw, &ex); err != nil {
		return fmt.Errorf("cannot understand the supervisor's answer: %w", err)
	}
	width, _ := t.size()
	_, err := fmt.Fprint(t, explanation(&ex, width, t.colour))
	return err
}

// explanation is every rule in order, with the answer to each: first those about the item, then, if none of them says
// no, those about each agent that could take it.
func explanation(ex *threads.Explanation, width int, colour bool) string {
	p := &page{width: width, colour: colour}
	// The heading says the repository; the references of the reasons need not.
	short := view{repo: ex.Repo}.short
	ref := forge.Ref{Repo: ex.Repo, Number: ex.Number}
	p.table(2, [][]cell{{{string(ex.Kind), plain}, {ref.String(), bold}, {ex.Title, plain}}})
	verdict := short(ex.Verdict)
	if ex.Position > 0 {
		verdict += fmt.Sprintf(" (place %d in the queue)", ex.Position)
	}
	p.line(verdict, verdictStyle(ex))
	if ex.Code != "" {
		p.line(whatToDo(ex.Mend), faint)
	}
	p.end()
	p.steps(ex.Steps, short)
	for i := range ex.Candidates {
		c := &ex.Candidates[i]
		p.end()
		p.line(fmt.Sprintf("%s as %s on %s", c.Agent, c.Role, c.Thread), bold)
		p.steps(c.Steps, short)
	}
	return p.text.String()
}

// whatToDo says what would change the verdict.
func whatToDo(mend string) string {
	if mend == "" {
		return "nothing to do: it goes on by itself"
	}
	return "to change that: " + mend
}

func verdictStyle(ex *threads.Explanation) style {
	if ex.Code != "" {
		return held
	}
	return good
}

// steps shows rules and their answers, to the first no. A later one is most often about the same thing (an issue that is
// closed has no pull request, no reviewer and nobody who may merge it) and is left to --json.
func (p *page) steps(steps []threads.Step, short func(string) string) {
	rows := make([][]cell, 0, len(steps))
	for i, s := range steps {
		if !s.OK {
			rows = append(rows, []cell{{"  no", wrong}, {s.Rule, plain}, {short(s.Why), wrong}})
			if rest := len(steps) - i - 1; rest > 0 {
				rows = append(rows, []cell{{}, {count(rest, "more rule"), faint}, {}})
			}
			break
		}
		rows = append(rows, []cell{{"  yes", faint}, {s.Rule, faint}, {}})
	}
	if len(rows) > 0 {
		p.table(-1, rows)
	}
}
