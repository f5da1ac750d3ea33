package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/threads"
)

const (
	// perMinute bounds the letters to a recipient. More messages than there is room for go as one digest.
	perMinute = 5
	// maxQueue bounds the messages that wait for a recipient. The oldest are dropped.
	maxQueue = 100
	// maxListed bounds the lines of a digest, and maxLine each of them, in bytes.
	maxListed = 10
	maxLine   = 250
	// A letter that did not arrive is tried again after firstRetry, and then after twice the time, up to lastRetry.
	firstRetry = 5 * time.Second
	lastRetry  = 10 * time.Minute
	// late is from when on a message says since when its cause stands.
	late = 2 * time.Minute
)

// Letter is one message, or a digest of several, for a recipient.
type Letter struct {
	ID    string // the same when the letter is tried again
	Title string
	Text  string // lines without markup
	Link  string // may be empty
}

// queue has the messages that wait for one recipient. It belongs to a Notifier, whose mutex guards it.
type queue struct {
	waiting []Message
	dropped int         // messages since the last letter
	sent    []time.Time // of the letters of the last minute
	failed  int         // tries in a row
	retry   time.Time   // nothing is tried before
	why     string      // the newest try failed; empty when it did not
}

// add puts messages at the end. A message replaces an older one about its cause.
func (q *queue) add(list []Message) {
	for _, m := range list {
		same := -1
		for i := range q.waiting {
			if q.waiting[i].Key == m.Key {
				same = i
			}
		}
		if same >= 0 {
			q.waiting[same] = m
			continue
		}
		q.waiting = append(q.waiting, m)
	}
	if more := len(q.waiting) - maxQueue; more > 0 {
		q.waiting = append([]Message(nil), q.waiting[more:]...)
		q.dropped += more
	}
}

// next returns the messages of the letter to send now. Without one, at is when there may be one; zero for not before
// another message comes.
func (q *queue) next(now time.Time) (batch []Message, at time.Time) {
	for len(q.sent) > 0 && now.Sub(q.sent[0]) >= time.Minute {
		q.sent = q.sent[1:]
	}
	room := perMinute - len(q.sent)
	switch {
	case len(q.waiting) == 0:
		return nil, time.Time{}
	case now.Before(q.retry):
		return nil, q.retry
	case room == 0:
		return nil, q.sent[0].Add(time.Minute)
	case len(q.waiting) <= room && q.dropped == 0:
		return q.waiting[:1:1], time.Time{}
	}
	return q.waiting[:len(q.waiting):len(q.waiting)], time.Time{}
}

// tried notes that a letter arrived, or why it did not.
func (q *queue) tried(now time.Time, batch []Message, dropped int, why string) {
	if q.why = why; why != "" {
		q.retry = now.Add(min(firstRetry<<min(q.failed, 10), lastRetry))
		q.failed++
		return
	}
	q.failed, q.retry = 0, time.Time{}
	q.sent = append(q.sent, now)
	q.dropped -= dropped
	rest := q.waiting[:0:0]
	for _, m := range q.waiting { // others may have come meanwhile, and the oldest may have been dropped
		if !holds(batch, m) {
			rest = append(rest, m)
		}
	}
	q.waiting = rest
}

func holds(batch []Message, m Message) bool {
	return slices.Contains(batch, m)
}

// titles say what a letter with one message is about.
var titles = map[threads.Topic]string{
	threads.NotifyNeedsHuman: "disinto needs you",
	threads.NotifyMerged:     "disinto merged",
	threads.NotifyParked:     "disinto: a thread is parked",
	threads.NotifyBudget:     "disinto: a budget is used up",
	threads.NotifyDown:       "disinto: the forge",
}

// write makes the letter of some messages; dropped is how many older ones were lost.
func write(now time.Time, batch []Message, dropped int) Letter {
	var l Letter
	if len(batch) == 1 && dropped == 0 {
		l = Letter{Title: titles[batch[0].Topic], Text: batch[0].text(now), Link: batch[0].Link}
	} else {
		l = digest(now, batch, dropped)
	}
	sum := sha256.New()
	for i := range batch {
		fmt.Fprintf(sum, "%s %d\n", batch[i].Key, batch[i].At.UnixNano())
	}
	l.ID = hex.EncodeToString(sum.Sum(nil)[:16])
	return l
}

func digest(now time.Time, batch []Message, dropped int) Letter {
	l := Letter{Title: fmt.Sprintf("disinto: %d messages", len(batch)+dropped)}
	var lines []string
	for i := range batch[:min(len(batch), maxListed)] {
		text := "- " + cut(batch[i].text(now), maxLine)
		if batch[i].Link != "" {
			text += " " + batch[i].Link
		}
		lines = append(lines, text)
	}
	if more := len(batch) - maxListed; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more: `disinto status` has all of them", more))
	}
	if dropped > 0 {
		lines = append(lines, fmt.Sprintf("%d older messages were lost while none could be sent", dropped))
	}
	l.Text = strings.Join(lines, "\n")
	return l
}

func (m *Message) text(now time.Time) string {
	if now.Sub(m.At) < late+m.Stands {
		return m.Words
	}
	return m.Words + " (since " + m.At.UTC().Format(time.RFC3339) + ")"
}

// cut keeps the first bytes of a text, and no half of a character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
