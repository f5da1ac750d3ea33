package notify

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/threads"
)

const (
	// stay is how long a cause has to be away to be over. An item that is being labelled is away for a second.
	stay = time.Minute
	// firstRest is the time from one telling of a cause to the next, if it was over in between. It doubles each time, up
	// to some 21 hours.
	firstRest   = 10 * time.Minute
	mostDoubled = 7
	// maxCauses bounds what is remembered. Beyond it causes wait for others to be over.
	maxCauses = 2000
)

// told remembers the causes that stand, and those that were told. The zero value remembers none.
type told struct{ causes map[string]*cause }

// cause is one cause and what was told of it.
type cause struct {
	Message           // At is when it began
	gone    time.Time // since when it is away; zero while it stands
	over    bool      // it was found to be over, and that was told
	newest  time.Time // when it was told last; zero while it was not
	times   int       // how often it was told
	again   bool      // it was over, and came back
	sent    bool      // a recipient has the newest telling
}

// rest is the least time between two tellings.
func (c *cause) rest() time.Duration { return firstRest << min(max(c.times-1, 0), mostDoubled) }

// see notes which causes stand. Where the status is not whole, because the forge was not read, a cause that it lacks
// may stand as before.
func (t *told) see(now time.Time, list []Message, whole bool) {
	if t.causes == nil {
		t.causes = make(map[string]*cause)
	}
	standing := make(map[string]bool, len(list))
	for _, m := range list {
		standing[m.Key] = true
		m.At = now
		switch c := t.causes[m.Key]; {
		case c == nil && len(t.causes) < maxCauses:
			t.causes[m.Key] = &cause{Message: m}
		case c != nil:
			c.see(m)
		}
	}
	for key, c := range t.causes {
		if whole && !standing[key] && c.gone.IsZero() {
			c.gone = now
		}
	}
}

// see notes that a cause stands. A label that we put on an item for another reason is no other cause.
func (c *cause) see(m Message) {
	isOther := m.Code != c.Code && m.Code != threads.SkipLabel
	isTold := !c.newest.IsZero() && !c.again
	switch {
	case isOther || !c.gone.IsZero() && m.At.Sub(c.gone) >= stay:
		c.again, c.over = true, false
	case isTold || c.gone.IsZero():
		m.At, m.Code = c.At, c.Code
	}
	c.Message, c.gone = m, time.Time{}
}

// due returns what is to be told now, oldest first, and notes it as told. next is when something may be due that no new
// status brings; zero for never.
func (t *told) due(now time.Time) (list []Message, next time.Time) {
	for key, c := range t.causes {
		m, at := c.due(now)
		if m != nil {
			list = append(list, *m)
		}
		switch {
		case at.IsZero():
		case !at.After(now):
			delete(t.causes, key)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	slices.SortFunc(list, func(a, b Message) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Key, b.Key)) })
	return list, next
}

// due returns the message about a cause, if it is time, and when to look at it again; a time that has come means that
// the cause can be forgotten.
func (c *cause) due(now time.Time) (m *Message, at time.Time) {
	isTold := !c.newest.IsZero() && !c.again
	if !c.gone.IsZero() {
		if left := c.gone.Add(stay); now.Before(left) {
			return nil, left
		}
		if isTold && c.Over != "" && !c.over {
			m = &Message{Key: c.Key + " over", Topic: c.Topic, Words: c.Over, At: now}
		}
		c.over = true
		if c.newest.IsZero() {
			return m, now
		}
		return m, c.newest.Add(c.rest())
	}
	if isTold {
		return nil, time.Time{}
	}
	at = c.At.Add(c.Stands)
	if rested := c.newest.Add(c.rest()); !c.newest.IsZero() && rested.After(at) {
		at = rested
	}
	if now.Before(at) {
		return nil, at
	}
	c.newest, c.again, c.sent = now, false, false
	c.times++
	tell := c.Message
	return &tell, time.Time{}
}

// arrived notes that a recipient has some messages.
func (t *told) arrived(batch []Message) {
	for i := range batch {
		if c := t.causes[batch[i].Key]; c != nil && !c.again {
			c.sent = true
		}
	}
}

// forgetUnsent forgets what no recipient has, so that it is told to those that there are now.
func (t *told) forgetUnsent() {
	for key, c := range t.causes {
		if !c.sent {
			delete(t.causes, key)
		}
	}
}

// line is a cause in the file that the next supervisor reads.
type line struct {
	Key   string        `json:"key"`
	Code  threads.Code  `json:"code,omitempty"`
	Topic threads.Topic `json:"topic"`
	Over  string        `json:"over,omitempty"`
	At    time.Time     `json:"at"`
	Times int           `json:"times"`
}

// lines are the causes that a recipient has heard of, by key.
func (t *told) lines() []line {
	list := []line{}
	for _, c := range t.causes {
		if c.sent {
			list = append(list, line{c.Key, c.Code, c.Topic, c.Over, c.newest, c.times})
		}
	}
	slices.SortFunc(list, func(a, b line) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// restore takes over what an earlier supervisor told.
func (t *told) restore(list []line) {
	t.causes = make(map[string]*cause)
	for _, l := range list[:min(len(list), maxCauses)] {
		m := Message{Key: l.Key, Code: l.Code, Topic: l.Topic, Over: l.Over, At: l.At}
		t.causes[l.Key] = &cause{Message: m, newest: l.At, times: max(l.Times, 1), sent: true}
	}
}
