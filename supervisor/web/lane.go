package web

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads/ledger"
)

// laneWidth is the width of a lane in units of its drawing, which the browser stretches to the page.
const laneWidth = 1000

// maxBars bounds the bars of a section. Each takes about 250 bytes, and a page may have 200 kB.
const maxBars = 350

// frame is the range of time that a timeline shows.
type frame struct {
	within        reach
	from, now, to time.Time
}

// shape is a rectangle of a lane.
type shape struct {
	X, W  float64
	Class string
	Href  string
	Title string
}

// drawing is a lane's data for its template.
type drawing struct {
	Name   string
	Words  string // for screen readers
	Grid   []float64
	Now    float64
	Shapes []shape
}

// x returns the position of a time on a lane, limited to the lane.
func (f *frame) x(t time.Time) float64 {
	share := float64(t.Sub(f.from)) / float64(f.to.Sub(f.from))
	return laneWidth * max(0, min(1, share))
}

// key links to the other reaches and explains the colours.
func (f *frame) key() section {
	var links []navigation
	for _, r := range reaches {
		links = append(links, navigation{"/timeline?range=" + r.Name, r.Name, "", r.Name == f.within.Name})
	}
	title := f.from.Format("2 January, 15:04") + " to now"
	return section{ID: "key", Title: title, Note: "UTC", Rows: []row{render("key", "key", links)}}
}

// section draws lanes, with merges as marks on a separate lane.
func (f *frame) section(id, title, note string, lanes []lane, merges []ledger.Merged) section {
	sec := section{ID: id, Title: title, Note: note, Empty: "There is none."}
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
	return sec
}

// coarse joins narrow bars. It doubles the width of those it joins until at most maxBars remain.
func (f *frame) coarse(lanes []lane) []lane {
	for narrow := 1.0; ; narrow *= 2 {
		n, joined := 0, slices.Clone(lanes)
		for i := range joined {
			for _, list := range []*[]bar{&joined[i].Bars, &joined[i].Free, &joined[i].Parked} {
				*list = f.join(*list, narrow)
				n += len(*list)
			}
		}
		if n <= maxBars || narrow >= laneWidth {
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
				last.Kind, last.Outcome, last.Href = b.Kind, b.Outcome, ""
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
	for at := f.from.Add(f.within.step); at.Before(f.to); at = at.Add(f.within.step) {
		d.Grid = append(d.Grid, f.x(at))
	}
	for _, p := range l.Parked {
		d.Shapes = append(d.Shapes, f.shape(&p, "parked", "parked: "+p.Kind))
	}
	for _, b := range l.Free {
		d.Shapes = append(d.Shapes, f.shape(&b, "beside", "free beside work: "+b.Kind))
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
	return shape{X: from, W: max(f.x(b.Until)-from, 1.5), Class: class, Href: b.Href, Title: words + ", " + times}
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
func (f *frame) shares(slots, workers []lane) section {
	sec := section{
		ID: "shares", Title: "Shares", Note: "of the time shown",
		Head: columns("Lane", "Busy", "Parked", "Free beside work", "Idle", "Because of"),
	}
	for i, list := range [][]lane{slots, workers} {
		for j := range list {
			sec.Rows = append(sec.Rows, render("share", fmt.Sprintf("%d-%s", i, list[j].Name), f.share(&list[j])))
		}
	}
	return sec
}

func (f *frame) share(l *lane) share {
	whole := f.now.Sub(f.from)
	part := func(d time.Duration) string {
		switch percent := 100 * float64(d) / float64(whole); {
		case percent <= 0:
			return "-"
		case percent < 1:
			return "< 1 %"
		default:
			return fmt.Sprintf("%.0f %%", percent)
		}
	}
	busy := f.covered(l.Bars)
	parked := f.covered(slices.Concat(l.Bars, l.Parked)) - busy
	beside := f.covered(slices.Concat(l.Bars, l.Parked, l.Free)) - busy - parked
	return share{
		Name: l.Name, Busy: part(busy), Parked: part(parked), Beside: part(beside),
		Idle: part(whole - busy - parked - beside), Why: f.leading(l.Free),
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
	var codes []string
	for code := range by {
		codes = append(codes, code)
	}
	slices.SortFunc(codes, func(a, b string) int {
		if by[a] != by[b] {
			return int(by[b] - by[a])
		}
		return strings.Compare(a, b)
	})
	return strings.Join(codes[:min(3, len(codes))], ", ")
}
