package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// The largest numbers of reasons and of items named for each: with the threads they fill a screen of 24 lines.
const reasonLines, reasonItems = 8, 3

// WhyNoMore shows why no more work starts: for each thread what keeps it from another session, and the waiting items
// counted by the reason why they wait, those that only a person can move on first.
func (v View) WhyNoMore(d *control.Document) string {
	v.repo = onlyRepo(d)
	p := v.page()
	v.head(p, d)
	if d.Paused {
		p.line("everything is paused"+v.relative(d.Words())+"; disinto resume starts waiting work", held)
	}
	for _, fault := range d.Faults() {
		p.line(fault, wrong)
	}
	rows := [][]cell{row(faint, "THREAD", "WHY IT STARTS NOTHING MORE")}
	for i := range d.Threads {
		t := &d.Threads[i]
		rows = append(rows, []cell{{t.Name, bold}, {v.noMoreOn(d, t), plain}})
	}
	p.headed(-1, rows)
	rows = [][]cell{row(faint, "ITEMS", "REASON", "WHICH MEANS")}
	reasons := byReason(d)
	for _, r := range reasons[:min(len(reasons), reasonLines)] {
		count := cell{fmt.Sprint(len(r.items)), plain}
		if r.needsPerson {
			count.style = held
		}
		means := r.means + ": " + v.firstNames(r.items, reasonItems)
		rows = append(rows, []cell{count, {string(r.code), plain}, {means, plain}})
	}
	p.headed(-1, rows)
	if more := len(reasons) - reasonLines; more > 0 {
		p.line(numbered(more, "more reason", "more reasons")+": disinto status --all", faint)
	}
	if len(reasons) == 1 && reasons[0].code == threads.NotBacklog {
		p.line(onlyBacklog, faint)
	}
	if len(reasons) == 0 {
		p.end()
		if d.Forge.OK {
			p.line("nothing waits: no issue is open, and no pull request needs a review; "+onlyBacklog, good)
		} else {
			p.line("it is unknown what waits: "+v.unread(&d.Forge), wrong)
		}
		return p.text.String()
	}
	if !v.Lost { // a supervisor answers it
		p.end()
		p.line("one of them, rule by rule: disinto why "+v.typed(refOf(&reasons[0].items[0])), faint)
	}
	return p.text.String()
}

// noMoreOn says what keeps a thread from another session: the whole thread, or each of its agents.
func (v View) noMoreOn(d *control.Document, t *control.ThreadDocument) string {
	switch {
	case d.Paused:
		return "everything is paused"
	case t.Paused:
		return "paused" + v.relative(t.Words()) + "; disinto resume " + t.Name
	case t.ParkedUntil.After(v.Now):
		return fmt.Sprintf("%s for %s: %s", t.Rest(), control.Age(t.ParkedUntil.Sub(v.Now)), t.ParkedWhy)
	}
	var busy, idle []string
	var whys []string
	for i := range d.Agents {
		switch a := &d.Agents[i]; {
		case a.Thread != t.Name:
		case a.State == control.AgentWorking:
			busy = append(busy, a.Name)
		case a.State == control.AgentIdle:
			idle = append(idle, a.Name)
		default:
			whys = append(whys, a.Name+": "+strings.TrimPrefix(a.Why, a.Name+" "))
		}
	}
	if len(idle) > 0 {
		whys = append([]string{"idle (no waiting item can start on it): " + strings.Join(idle, ", ")}, whys...)
	}
	if len(busy) > 0 {
		whys = append([]string{"at work: " + strings.Join(busy, ", ")}, whys...)
	}
	if len(whys) == 0 {
		return "it has no agents: disinto hire-an-agent"
	}
	return strings.Join(whys, "; ")
}

// reason is all waiting items with one code.
type reason struct {
	code        threads.Code
	means       string
	needsPerson bool
	items       []control.QueueDocument
}

// byReason groups the waiting items, those that need a person first, then the largest group.
func byReason(d *control.Document) []reason {
	var list []reason
	for _, q := range slices.Concat(d.Queue, d.Unqueued) {
		at := slices.IndexFunc(list, func(r reason) bool { return r.code == q.Code && r.needsPerson == q.NeedsPerson })
		if at < 0 {
			at = len(list)
			list = append(list, reason{code: q.Code, means: cmp.Or(q.Code.Means(), q.Why), needsPerson: q.NeedsPerson})
		}
		list[at].items = append(list[at].items, q)
	}
	slices.SortStableFunc(list, func(a, b reason) int {
		if a.needsPerson != b.needsPerson {
			if a.needsPerson {
				return -1
			}
			return 1
		}
		return cmp.Compare(len(b.items), len(a.items))
	})
	return list
}

// refOf returns the reference of a waiting item; for scheduled work the repository.
func refOf(q *control.QueueDocument) string {
	return forge.Ref{Repo: q.Repo, Number: q.Number}.String()
}
