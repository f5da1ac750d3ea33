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
	// perMinute bounds the letters to a recipient. Messages beyond it are combined into one digest.
	perMinute = 5
	// maxQueue bounds the messages queued for a recipient. The oldest are dropped.
	maxQueue = 100
	// maxListed bounds the lines of a digest. maxLine bounds each line, in bytes.
	maxListed = 10
	maxLine   = 250
	// A failed letter is retried after firstRetry, and then after double the time, up to lastRetry.
	firstRetry = 5 * time.Second
	lastRetry  = 10 * time.Minute
	// late is the age beyond which a message says when its cause started.
	late = 2 * time.Minute
)

// Letter is one message, or a digest of several, for a recipient.
type Letter struct {
	ID    string // the same for a retry
	Title string
	Text  string // lines without markup
	Link  string // may be empty
}

// queue has the messages for one recipient. It belongs to a Notifier, whose mutex guards it.
type queue struct {
	waiting []Message
	dropped int         // messages dropped since the last letter
	sent    []time.Time // the times of the last minute's letters
	failed  int         // failed attempts in a row
	retry   time.Time   // no attempt before this time
	why     string      // the error of the newest attempt; empty if it succeeded
}

// add appends messages. A message replaces an older one about the same cause.
func (q *queue) add(list []Message) {
	for _, m := range list {
		if i := slices.IndexFunc(q.waiting, func(w Message) bool { return w.Key == m.Key }); i >= 0 {
			q.waiting[i] = m
		} else {
			q.waiting = append(q.waiting, m)
		}
	}
	if more := len(q.waiting) - maxQueue; more > 0 {
		q.waiting = slices.Clone(q.waiting[more:])
		q.dropped += more
	}
}

// next returns the messages of the letter to send now. If there is none, at is when there may be one; zero means not
// before another message is added.
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

// recordResult records that a letter arrived, or why it did not.
func (q *queue) recordResult(now time.Time, batch []Message, dropped int, why string) {
	if q.why = why; why != "" {
		q.retry = now.Add(min(firstRetry<<min(q.failed, 10), lastRetry))
		q.failed++
		return
	}
	q.failed, q.retry = 0, time.Time{}
	q.sent = append(q.sent, now)
	q.dropped -= dropped
	// Meanwhile, messages may have been added and the oldest dropped. batch is a part of the old list.
	q.waiting = slices.DeleteFunc(slices.Clone(q.waiting), func(m Message) bool { return slices.Contains(batch, m) })
}

// titles are the titles of letters with one message.
var titles = map[threads.Topic]string{
	threads.NotifyNeedsHuman: "disinto needs you",
	threads.NotifyMerged:     "disinto merged",
	threads.NotifyParked:     "disinto: a thread starts nothing",
	threads.NotifyBudget:     "disinto: a budget is used up",
	threads.NotifyDown:       "disinto: the forge",
}

// write makes a letter of messages. dropped is the number of older messages that were lost.
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

// cut shortens a text to limit bytes without splitting a character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
