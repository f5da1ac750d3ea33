package web

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// convoys lists the open convoys with their progress.
func (s *Site) convoys(ctx context.Context, _ url.Values) (*board, error) {
	var d control.Convoys
	if err := s.API.Get(ctx, "/v1/convoys", &d); err != nil {
		return nil, err
	}
	sec := section{
		ID: "convoys", Title: "Open batches", Head: columns("Title", "Status", "Progress", ""),
		Empty: "No batch is open. disinto batch create makes one, from issues or from the tasks of a plan.",
	}
	for i := range d.Convoys {
		c := convoyOf(&d.Convoys[i])
		sec.Rows = append(sec.Rows, render("convoy-row", c.Ref, c))
	}
	return &board{Title: "Batches", Sections: []section{sec}}, nil
}

// convoy is a convoy as shown on a page.
type convoy struct {
	*threads.Convoy
	Ref    string
	Link   link // to the convoy's page
	Issue  link // to the tracking issue's page
	Shares []portion
	Next   []link // the members that are ready
	Staged bool
	Over   bool
}

func convoyOf(d *threads.Convoy) *convoy {
	ref := forge.Ref{Repo: d.Repo, Number: d.Number}
	c := &convoy{
		Convoy: d, Ref: ref.String(), Issue: refOf(d.Repo, d.Number), Shares: portions(d.Counts),
		Link:   link{d.Repo, ref.Short(), "/convoy?" + url.Values{"ref": {ref.String()}}.Encode()},
		Staged: d.State == threads.ConvoyStaged,
		Over:   d.State == threads.ConvoyDone || d.State == threads.ConvoyCancelled,
	}
	for i := range d.Members {
		if m := &d.Members[i]; m.State == threads.MemberReady {
			c.Next = append(c.Next, refOf(m.Repo, m.Number))
		}
	}
	return c
}

// convoyPill returns the pill of a convoy's state.
func convoyPill(state threads.ConvoyState) pill {
	tones := map[threads.ConvoyState]string{
		threads.ConvoyDone: "ok", threads.ConvoyStaged: "hold", threads.ConvoyCancelled: "hold",
	}
	return pill{cmp.Or(tones[state], "run"), title(string(state))}
}

// Done returns "3 of 5 done".
func (c *convoy) Done() string {
	return fmt.Sprintf("%d of %d done", c.Counts[threads.MemberDone], len(c.Members))
}

// Words returns how many members are in each state.
func (c *convoy) Words() string {
	var parts []string
	for _, sh := range c.Shares {
		parts = append(parts, fmt.Sprintf("%d %s", sh.Count, sh.State))
	}
	return strings.Join(parts, ", ")
}

// convoy shows one convoy: its progress, the graph of its members, and a row for each member.
func (s *Site) convoy(ctx context.Context, query url.Values) (*board, error) {
	ref := query.Get("ref")
	var d control.Convoys
	if err := s.API.Get(ctx, "/v1/convoys?"+url.Values{"ref": {ref}}.Encode(), &d); err != nil {
		return nil, err
	}
	if ref == "" || len(d.Convoys) != 1 {
		return nil, control.NotFound("cannot show %q: it is not a convoy", ref)
	}
	c := convoyOf(&d.Convoys[0])
	progress := section{ID: "progress", Title: "Progress", Note: c.Done(), Class: "panel"}
	progress.Rows = []row{render("convoy-progress", "progress", c)}
	members := section{
		ID: "members", Title: "Members", Head: columns("Title", "Status", "Wave#", "Agent", "Reason"),
		Empty: "It has no members.",
	}
	for i := range c.Members {
		m := &c.Members[i]
		members.Rows = append(members.Rows, render("member", m.Ref().String(), m))
	}
	name := fmt.Sprintf("Batch %s %s", c.Ref, c.Title)
	return &board{Title: name, Sections: []section{progress, waves(c), members}}, nil
}

// waves draws the members: finished ones first, then a column for each wave.
func waves(c *convoy) section {
	sec := section{ID: "graph", Title: "Waves", Class: "panel"}
	if len(c.Members) == 0 {
		return sec
	}
	var stages []stage
	for _, m := range c.Members {
		for len(stages) <= m.Wave {
			title := fmt.Sprintf("wave %d", len(stages))
			if len(stages) == 0 {
				title = "done"
			}
			stages = append(stages, stage{Title: title})
		}
		stages[m.Wave].Members = append(stages[m.Wave].Members, m)
	}
	left := slices.DeleteFunc(slices.Clone(stages[1:]), func(st stage) bool { return len(st.Members) == 0 })
	if len(left) > 0 {
		sec.Note = control.Count(len(left), "wave") + " left"
	}
	sec.Rows = []row{render("graph", "graph", draw("The members of "+c.Ref+" and what each waits for", stages))}
	return sec
}
