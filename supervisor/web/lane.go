package web

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads/ledger"
)

// maxBars bounds the bars of a page. Each takes about 200 bytes, and a page may have 40 kB.
const maxBars = 120

// frame is the range of time that a timeline shows.
type frame struct {
	within        reach
	from, now, to time.Time
}

// shape is a rectangle of a lane. X and W are percent of the lane's width.
type shape struct {
	X, W         float64
	Class        string
	Href         string
	Title, Label string
}

// drawing is a lane's data for its template.
type drawing struct {
	Name   string
	Words  string // for screen readers
	Now    float64
	Shapes []shape
}

// x returns the position of a time on a lane, limited to the lane.
func (f *frame) x(t time.Time) float64 {
	share := float64(t.Sub(f.from)) / float64(f.to.Sub(f.from))
	return 100 * max(0, min(1, share))
}

// tools links to the other ranges and to the lanes of agents.
func (f *frame) tools(by string) template.HTML {
	var ranges, lanes []navigation
	for _, r := range reaches {
		ranges = append(ranges, navigation{"/timeline?range=" + r.Name + "&by=" + by, r.Name, "", r.Name == f.within.Name})
	}
	for _, name := range []string{"slot", "agent"} {
		path := "/timeline?range=" + f.within.Name + "&by=" + name
		lanes = append(lanes, navigation{path, "By " + name, "", name == by})
	}
	return tabs("Lanes", lanes) + tabs("Range", ranges)
}

// tabs returns links to the forms of a page.
func tabs(label string, links []navigation) template.HTML {
	return template.HTML(execute("tabs", map[string]any{"Label": label, "Links": links}))
}

// totals shows the range in numbers.
func (f *frame) totals(slots []lane, d *control.Document, h *control.HistoryDocument) section {
	sec := section{ID: "totals", Class: "totals panel"}
	add := func(t total) { sec.Rows = append(sec.Rows, render("total", t.Name, t)) }
	var busy, beside, parked time.Duration
	failed := 0
	for i := range slots {
		b, p, w := f.spent(&slots[i])
		busy, parked, beside = busy+b, parked+p, beside+w
	}
	for i := range h.Sessions {
		if h.Sessions[i].Outcome.Wasted() {
			failed++
		}
	}
	whole := f.now.Sub(f.from) * time.Duration(max(len(slots), 1))
	of := "of " + control.Count(len(slots), "slot")
	add(total{Name: "Slots busy", Value: percent(busy, whole), Of: of, Href: "#shares"})
	add(total{
		Name: "Sessions", Value: strconv.Itoa(len(h.Sessions) + len(d.Sessions)), Href: "#list",
		Note: fmt.Sprintf("%d failed, %d running", failed, len(d.Sessions)),
	})
	add(total{Name: "Merged", Value: strconv.Itoa(len(h.Merges)), Href: "#lanes"})
	idle := total{Name: "Idle while work waits", Value: percent(beside, whole), Href: "#shares"}
	if beside > whole/20 {
		idle.Tone = "warn"
	}
	add(idle)
	add(total{Name: "Limited", Value: percent(parked, whole), Href: "#shares"})
	return sec
}

// lanes draws the lanes, with merges as marks on a separate one.
func (f *frame) lanes(by string, lanes []lane, merges []ledger.Merged) section {
	sec := section{
		ID: "lanes", Title: f.from.Format("2 January, 15:04") + " to now", Note: "UTC, by " + by, Class: "lanes panel",
		Empty: "No " + template.HTML(by) + " is configured.",
	}
	if len(lanes) == 0 {
		return sec
	}
	var labels []string
	for at := f.from; at.Before(f.to); at = at.Add(f.within.step) {
		labels = append(labels, at.Format(f.within.label))
	}
	sec.Rows = append(sec.Rows, render("axis", "axis", labels))
	lanes = f.coarse(lanes)
	for i := range lanes {
		sec.Rows = append(sec.Rows, render("lane", lanes[i].Name, f.draw(&lanes[i])))
	}
	if len(merges) > 0 {
		sec.Rows = append(sec.Rows, render("lane", "merged", f.marks(merges)))
	}
	sec.Rows = append(sec.Rows, render("legend", "legend", nil))
	return sec
}

// listed bounds the list of sessions.
const listed = 20

// list has the newest sessions of the range in words, for those who cannot see the lanes.
func (f *frame) list(d *control.Document, h *control.HistoryDocument) section {
	sec := section{
		ID: "list", Title: "Sessions", Head: columns("Work", "Result", "Agent", "Slot", "Started#", "Took#", ""),
		Empty: "No session ran in this time. A longer range shows more.",
	}
	for i := range d.Sessions {
		sec.Rows = append(sec.Rows, render("listed-run", d.Sessions[i].RunID, &d.Sessions[i]))
	}
	for i, p := range slices.Backward(h.Sessions) {
		if len(sec.Rows) == listed {
			break
		}
		sec.Rows = append(sec.Rows, render("listed", fmt.Sprint("past-", i), &p))
	}
	if all := len(d.Sessions) + len(h.Sessions); all > len(sec.Rows) {
		sec.Note = fmt.Sprintf("the newest %d of %d: disinto history lists all", len(sec.Rows), all)
	}
	return sec
}

// coarse joins narrow bars. It doubles the width of those it joins until at most maxBars remain.
func (f *frame) coarse(lanes []lane) []lane {
	for narrow := 0.1; ; narrow *= 2 {
		n, joined := 0, slices.Clone(lanes)
		for i := range joined {
			for _, list := range []*[]bar{&joined[i].Bars, &joined[i].Free, &joined[i].Parked} {
				*list = f.join(*list, narrow)
				n += len(*list)
			}
		}
		if n <= maxBars || narrow >= 100 {
			return joined
		}
	}
}

// join merges neighbouring bars that are narrower than narrow and closer to each other than that.
func (f *frame) join(bars []bar, narrow float64) (list []bar) {
	for _, b := range bars {
		if !b.Until.After(f.from) || !b.From.Before(f.to) {
			continue
		}
		if n := len(list); n > 0 && f.x(b.Until)-f.x(b.From) < narrow {
			last := &list[n-1]
			near := f.x(b.From)-f.x(last.Until) < narrow
			if near && (last.n > 1 || f.x(last.Until)-f.x(last.From) < narrow) {
				last.n += b.n
				last.Kind, last.Outcome, last.Href, last.Label = b.Kind, b.Outcome, "", ""
				last.Words = fmt.Sprintf("%d sessions", last.n)
				if b.Until.After(last.Until) {
					last.Until = b.Until
				}
				continue
			}
		}
		list = append(list, b)
	}
	return list
}

func (f *frame) draw(l *lane) drawing {
	words := l.Name + ": " + control.Count(sessionsIn(l.Bars), "session")
	d := drawing{Name: l.Name, Now: f.x(f.now), Words: words}
	for _, p := range l.Parked {
		d.Shapes = append(d.Shapes, f.shape(&p, "parked", "starts nothing: "+p.Kind))
	}
	for _, b := range l.Free {
		d.Shapes = append(d.Shapes, f.shape(&b, "beside", "idle while work waits: "+b.Kind))
	}
	for _, b := range l.Bars {
		d.Shapes = append(d.Shapes, f.shape(&b, "bar "+b.Kind+" "+b.Outcome, b.Words))
	}
	return d
}

func sessionsIn(bars []bar) (n int) {
	for _, b := range bars {
		n += b.n
	}
	return n
}

// shape returns a bar, wide enough to be seen.
func (f *frame) shape(b *bar, class, words string) shape {
	from := f.x(b.From)
	format := "15:04"
	if f.within.whole > 24*time.Hour {
		format = "2 Jan 15:04"
	}
	times := b.From.UTC().Format(format) + " to " + b.Until.UTC().Format(format)
	w := max(f.x(b.Until)-from, 0.2)
	sh := shape{X: from, W: w, Class: class, Href: b.Href, Title: words + ", " + times}
	if w > 5 {
		sh.Label = b.Label
	}
	return sh
}

// marks draws the merges.
func (f *frame) marks(merges []ledger.Merged) drawing {
	l := lane{Name: "merged"}
	for _, m := range merges {
		l.Bars = append(l.Bars, bar{
			span: span{m.When, m.When}, Kind: "merge", Href: refOf(m.Ref.Repo, m.Ref.Number).Href,
			Words: "merged " + fmt.Sprintf("%s#%d", m.Ref.Repo, m.Ref.Number), n: 1,
		})
	}
	joined := f.coarse([]lane{l})
	d := f.draw(&joined[0])
	d.Words = control.Count(len(merges), "merge")
	return d
}

// share is a row of the table of shares.
type share struct {
	Name, Busy, Parked, Beside, Why, Idle string
}

// shares shows how every lane spent the time shown, in percent.
func (f *frame) shares(lanes []lane) section {
	sec := section{
		ID: "shares", Title: "Utilization", Note: "of the time shown",
		Head: columns("Lane", "Busy#", "Limited#", "Idle, work waiting#", "Idle#", "Main cause"),
	}
	for i := range lanes {
		sec.Rows = append(sec.Rows, render("share", lanes[i].Name, f.share(&lanes[i])))
	}
	return sec
}

// spent divides the time shown.
func (f *frame) spent(l *lane) (busy, parked, beside time.Duration) {
	busy = f.covered(l.Bars)
	parked = f.covered(slices.Concat(l.Bars, l.Parked)) - busy
	return busy, parked, f.covered(slices.Concat(l.Bars, l.Parked, l.Free)) - busy - parked
}

func (f *frame) share(l *lane) share {
	whole := f.now.Sub(f.from)
	busy, parked, beside := f.spent(l)
	return share{
		Name: l.Name, Busy: percent(busy, whole), Parked: percent(parked, whole), Beside: percent(beside, whole),
		Idle: percent(whole-busy-parked-beside, whole), Why: f.leading(l.Free),
	}
}

// percent writes a part of a whole.
func percent(part, whole time.Duration) string {
	switch percent := 100 * float64(part) / float64(max(whole, 1)); {
	case percent <= 0:
		return "–"
	case percent < 1:
		return "< 1 %"
	default:
		return fmt.Sprintf("%.0f %%", percent)
	}
}

// covered returns how much of the time shown the bars cover together.
func (f *frame) covered(bars []bar) (sum time.Duration) {
	bars = slices.Clone(bars)
	slices.SortFunc(bars, func(a, b bar) int { return a.From.Compare(b.From) })
	end := f.from
	for _, b := range bars {
		from, until := b.From, earlier(b.Until, f.now)
		if from.Before(end) {
			from = end
		}
		if until.After(from) {
			sum += until.Sub(from)
			end = until
		}
	}
	return sum
}

// leading returns the reasons for most of the time beside work, at most three.
func (f *frame) leading(free []bar) string {
	by := make(map[string]time.Duration)
	for _, b := range free {
		by[b.Kind] += f.covered([]bar{b})
	}
	codes := slices.Collect(maps.Keys(by))
	slices.SortFunc(codes, func(a, b string) int { return cmp.Or(cmp.Compare(by[b], by[a]), strings.Compare(a, b)) })
	return strings.Join(codes[:min(3, len(codes))], ", ")
}
