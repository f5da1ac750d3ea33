package worlds

import (
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// stepOf is the resolution in which a window counts usage.
const stepOf = 10 * time.Minute

// toll is the usage of a thread's sessions within one step.
type toll struct {
	from   time.Time
	tokens int64
}

// meter counts usage independently for the windows of a thread.
func (b *books) meter(thread string, now time.Time, tokens int64) {
	list := b.tolls[thread]
	if n := len(list); n > 0 && now.Sub(list[n-1].from) < stepOf {
		list[n-1].tokens += tokens
	} else if tokens > 0 {
		b.tolls[thread] = append(list, toll{now.Truncate(stepOf), tokens})
	}
}

// turnTolls moves the independent count, as a corrected clock does.
func (b *books) turnTolls(by time.Duration) {
	for _, list := range b.tolls {
		for i := range list {
			list[i].from = list[i].from.Add(by)
		}
	}
}

// within returns a thread's usage in a window. A step counts until all of it has left the window.
func (in *inspection) within(t *threads.Thread, length time.Duration) (tokens int64) {
	for _, u := range in.shell.books.tolls[t.Name] {
		if in.Now.Sub(u.from) < length+stepOf {
			tokens += u.tokens
		}
	}
	return tokens
}

// exhausted reports whether a window of a thread is used up.
func (in *inspection) exhausted(t *threads.Thread) bool {
	for _, w := range t.Windows {
		if in.within(t, w.Length) >= w.Tokens {
			return true
		}
	}
	return false
}

// saves reports whether a thread keeps the rest of a window for reviews and rework: past usage, the expected usage of
// running sessions and that of another issue would leave less than the reserve. The last part counts for at most half
// of what is not reserved.
func (in *inspection) saves(t *threads.Thread, busy []threads.Session) bool {
	if t.Reserve == 0 {
		return false
	}
	usual := make(map[agents.Kind]float64) // learnt tokens by kind
	for _, p := range in.s.History.Thread(t.Name).Paces {
		usual[p.Kind] = p.Tokens
	}
	for _, w := range t.Windows {
		spare := float64(w.Tokens) * (1 - t.Reserve)
		var more float64
		for i := range busy {
			if busy[i].Thread == t.Name {
				more += max(0, usual[busy[i].Item.Kind]-float64(busy[i].Used.InputTokens+busy[i].Used.OutputTokens))
			}
		}
		more += min(usual[agents.KindIssue], spare/2)
		if float64(in.within(t, w.Length))+more >= spare {
			return true
		}
	}
	return false
}

// subscribe gives a thread the windows of a subscription.
func (w *world) subscribe(t *threads.Thread) {
	short := threads.Window{Length: w.between(time.Hour, 6*time.Hour).Truncate(time.Minute)}
	short.Tokens = int64(w.number(500, 6000))
	t.Windows = []threads.Window{short}
	if w.chance(0.5) {
		long := threads.Window{Length: 2 * short.Length}
		long.Tokens = short.Tokens + int64(w.number(0, 2000))
		t.Windows = append(t.Windows, long)
	}
	if w.chance(0.8) {
		t.Reserve = float64(w.number(1, 9)) / 10
	}
}
