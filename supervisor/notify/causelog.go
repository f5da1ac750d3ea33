package notify

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/threads"
)

const (
	// stay is how long a cause must be absent to be over. An item is absent for a second while its labels change.
	stay = time.Minute
	// firstRest is the least time between two messages about a cause that was over in between. It doubles each time,
	// up to 21 hours.
	firstRest   = 10 * time.Minute
	mostDoubled = 7
	// maxCauses bounds the causes kept. More causes wait until others are over.
	maxCauses = 2000
)

// causeLog has the active causes and those that were sent. The zero value has none.
type causeLog struct{ causes map[string]*cause }

// cause is one cause and its messages so far.
type cause struct {
	Message           // At is when the cause started
	gone    time.Time // when it became absent; zero while it is active
	over    bool      // found to be over, and Over was sent
	newest  time.Time // when it was last sent; zero if never
	times   int       // how often it was sent
	again   bool      // it came back after it was over
	sent    bool      // a recipient got the newest message
}

// rest returns the least time until the next message.
func (c *cause) rest() time.Duration { return firstRest << min(max(c.times-1, 0), mostDoubled) }

// record records the active causes. If whole is false, the forge was not read, and a cause missing from list may still
// be active.
func (t *causeLog) record(now time.Time, list []Message, whole bool) {
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
			c.update(m)
		}
	}
	for key, c := range t.causes {
		if whole && !standing[key] && c.gone.IsZero() {
			c.gone = now
		}
	}
}

// update records that a cause is active. A label that we set for another reason is not another cause.
func (c *cause) update(m Message) {
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

// due returns the messages to send now, oldest first, and marks them as sent. next is when more may be due without a
// new status; zero means never.
func (t *causeLog) due(now time.Time) (list []Message, next time.Time) {
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

// due returns the message about a cause if it is time, and when to check again. If at has passed, the cause can be
// forgotten.
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

// recordSent records that a recipient got messages.
func (t *causeLog) recordSent(batch []Message) {
	for i := range batch {
		if c := t.causes[batch[i].Key]; c != nil && !c.again {
			c.sent = true
		}
	}
}

// forgetUnsent removes the causes that no recipient got, so that they are sent to the current recipients.
func (t *causeLog) forgetUnsent() {
	for key, c := range t.causes {
		if !c.sent {
			delete(t.causes, key)
		}
	}
}

// line is a cause in the file for the next supervisor.
type line struct {
	Key   string        `json:"key"`
	Code  threads.Code  `json:"code,omitempty"`
	Topic threads.Topic `json:"topic"`
	Over  string        `json:"over,omitempty"`
	At    time.Time     `json:"at"`
	Times int           `json:"times"`
}

// lines returns the causes that a recipient got, by key.
func (t *causeLog) lines() []line {
	list := []line{}
	for _, c := range t.causes {
		if c.sent {
			list = append(list, line{c.Key, c.Code, c.Topic, c.Over, c.newest, c.times})
		}
	}
	slices.SortFunc(list, func(a, b line) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// restore adds the causes that an earlier supervisor sent.
func (t *causeLog) restore(list []line) {
	t.causes = make(map[string]*cause)
	for _, l := range list[:min(len(list), maxCauses)] {
		m := Message{Key: l.Key, Code: l.Code, Topic: l.Topic, Over: l.Over, At: l.At}
		t.causes[l.Key] = &cause{Message: m, newest: l.At, times: max(l.Times, 1), sent: true}
	}
}
