package web

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads/ledger"
)

// reach is how far back a timeline shows, divided into labelled steps.
type reach struct {
	Name        string
	whole, step time.Duration
	label       string // a layout of time.Format
}

var reaches = []reach{
	{"15m", 15 * time.Minute, 5 * time.Minute, "15:04"},
	{"1h", time.Hour, 10 * time.Minute, "15:04"},
	{"6h", 6 * time.Hour, time.Hour, "15:04"},
	{"24h", 24 * time.Hour, 3 * time.Hour, "15:04"},
	{"7d", 7 * 24 * time.Hour, 24 * time.Hour, "Mon 2 Jan"},
	{"30d", 30 * 24 * time.Hour, 5 * 24 * time.Hour, "2 Jan"},
}

// span is a time on a lane.
type span struct{ From, Until time.Time }

// bar is a session on a lane, or several that are too short to be shown apart.
type bar struct {
	span
	Kind, Outcome string // of the last session, if several
	Label         string // such as #12
	Href          string // empty for scheduled work and for several sessions
	Words         string
	n             int
}

// lane shows what a slot or an agent did.
type lane struct {
	Name   string
	Bars   []bar
	Parked []bar // of a slot: the times its thread was parked
	Free   []bar // of a slot: the times it was free beside work
}

// timeline shows what every slot and every agent did, and why slots were free beside work.
func (s *Site) timeline(ctx context.Context, query url.Values) (*board, error) {
	var d control.Document
	if err := s.API.Get(ctx, "/v1/state?rows=0", &d); err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	within, err := reachOf(query.Get("range"), now.Sub(d.StartedAt))
	if err != nil {
		return nil, err
	}
	now = now.Truncate(within.whole / 600)
	view := frame{within: within, now: now, to: now.Truncate(within.step).Add(within.step)}
	view.from = view.to.Add(-within.whole)
	var h control.HistoryDocument
	since := url.Values{"since": {view.from.Format(time.RFC3339)}}
	if err := s.API.Get(ctx, "/v1/history?"+since.Encode(), &h); err != nil {
		return nil, err
	}
	slots, workers := lanes(&d, &h, now)
	shown, by := slots, "slot"
	if query.Get("by") == "agent" {
		shown, by = workers, "agent"
	}
	return &board{Title: "Timeline", State: &d, Tools: view.tools(by), Sections: []section{
		view.totals(slots, &d, &h), view.lanes(by, shown, h.Merges), view.list(&d, &h), view.shares(shown),
	}}, nil
}

// reachOf returns the reach with a name. Without a name it is a day, or less if that covers the supervisor's life.
func reachOf(name string, life time.Duration) (reach, error) {
	var names []string
	for _, r := range reaches {
		if r.Name == name {
			return r, nil
		}
		names = append(names, r.Name)
	}
	if name != "" {
		known := strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
		return reach{}, control.Invalid("cannot show the range %q: range is %s", name, known)
	}
	for _, r := range reaches[1:3] {
		if life < r.whole-r.step {
			return r, nil
		}
	}
	return reaches[3], nil
}

// lanes returns the slots, by thread and number, and the agents, by name. The bar of a running session ends now.
func lanes(d *control.Document, h *control.HistoryDocument, now time.Time) (slots, workers []lane) {
	at, who := make(map[string]*lane), make(map[string]*lane)
	for i := range d.Threads {
		t := &d.Threads[i]
		for _, sl := range t.Slots {
			at[slotName(t.Name, sl.Index)] = &lane{Name: slotName(t.Name, sl.Index)}
		}
	}
	for i := range d.Agents {
		who[d.Agents[i].Name] = &lane{Name: d.Agents[i].Name}
	}
	add := func(thread string, slot int, agent string, b bar) {
		if l := at[slotName(thread, slot)]; l != nil {
			l.Bars = append(l.Bars, b)
		}
		if l := who[agent]; l != nil {
			l.Bars = append(l.Bars, b)
		}
	}
	for i := range h.Sessions {
		add(h.Sessions[i].Thread, h.Sessions[i].Slot, h.Sessions[i].Agent, barOf(&h.Sessions[i].Past))
	}
	for i := range d.Sessions {
		x := &d.Sessions[i]
		p := ledger.Past{
			Agent: x.Agent, Kind: x.Kind, Ref: ledger.Ref{Repo: x.Repo, Number: x.Number}, Start: x.StartedAt, End: now,
			Outcome: "running",
		}
		add(x.Thread, x.Slot, x.Agent, barOf(&p))
	}
	for _, f := range h.Free {
		if l := at[slotName(f.Thread, f.Slot)]; l != nil {
			l.Free = append(l.Free, bar{span: span{f.From, f.Until}, Kind: string(f.Code), n: 1})
		}
	}
	for _, p := range h.Parks {
		for name, l := range at {
			if strings.HasPrefix(name, p.Thread+"/") {
				l.Parked = append(l.Parked, bar{span: span{p.From, earlier(p.Until, now)}, Kind: p.Why, n: 1})
			}
		}
	}
	return sorted(at), sorted(who)
}

func slotName(thread string, slot int) string { return fmt.Sprintf("%s/%d", thread, slot) }

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func sorted(by map[string]*lane) []lane {
	var list []lane
	for _, name := range slices.Sorted(maps.Keys(by)) {
		slices.SortStableFunc(by[name].Bars, func(a, b bar) int { return a.From.Compare(b.From) })
		list = append(list, *by[name])
	}
	return list
}

func barOf(p *ledger.Past) bar {
	ref := forge.Ref(p.Ref)
	b := bar{span: span{p.Start, p.End}, Kind: string(p.Kind), Outcome: string(p.Outcome), n: 1}
	b.Words = fmt.Sprintf("%s, %s %s", p.Agent, p.Kind, cmp.Or(p.Role, ref.Repo))
	if ref.Number != 0 {
		b.Href, b.Label = refOf(ref.Repo, ref.Number).Href, ref.Short()
		b.Words = fmt.Sprintf("%s, %s %s", p.Agent, p.Kind, ref)
	}
	b.Words += ", " + string(p.Outcome)
	return b
}
