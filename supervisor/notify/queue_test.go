package notify

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// numbered returns n messages with the time at.
func numbered(n int, at time.Time) (list []Message) {
	for i := range n {
		list = append(list, Message{
			Key: fmt.Sprintf("k%d", i), Topic: threads.NotifyNeedsHuman, Words: fmt.Sprintf("word %d", i), At: at,
			Link: "http://forge/x",
		})
	}
	return list
}

// drain sends everything that may be sent at now, and returns the number of messages in each letter.
func drain(q *queue, now time.Time) (letters []int) {
	for len(letters) < 1000 {
		batch, _ := q.next(now)
		if batch == nil {
			return letters
		}
		letters = append(letters, len(batch))
		q.recordResult(now, batch, q.dropped, "")
	}
	return letters
}

func TestDigest(t *testing.T) {
	for _, tt := range []struct {
		at   []int // messages that come, one second after the other
		want string
	}{
		{[]int{1}, "[[1]]"},
		{[]int{5}, "[[1 1 1 1 1]]"},
		{[]int{6}, "[[6]]"},
		{[]int{100}, "[[100]]"},
		{[]int{3, 3}, "[[1 1 1] [3]]"},
		{[]int{1, 1, 1, 1, 1, 1, 1}, "[[1] [1] [1] [1] [1] [] []]"},
	} {
		var q queue
		var got [][]int
		for i, n := range tt.at {
			now := epoch.Add(time.Duration(i) * time.Second)
			list := numbered(n, now)
			for j := range list {
				list[j].Key += fmt.Sprint(" ", i)
			}
			q.add(list)
			got = append(got, drain(&q, now))
		}
		if fmt.Sprint(got) != tt.want {
			t.Errorf("%v: got letters %v, want %s", tt.at, got, tt.want)
		}
	}
}

// In a storm at most five letters go out per minute, and every message is in one of them.
func TestDigestStorm(t *testing.T) {
	var q queue
	letters, messages := 0, 0
	for s := range 600 {
		now := epoch.Add(time.Duration(s) * time.Second)
		if s < 500 {
			q.add([]Message{{Key: fmt.Sprint(s), At: now}})
		}
		for _, n := range drain(&q, now) {
			letters++
			messages += n
		}
	}
	if letters > 5*10 || messages != 500 {
		t.Errorf("got %d letters with %d messages in ten minutes, want at most 50 with 500", letters, messages)
	}
}

// A failed letter is retried after growing delays. Meanwhile messages queue up to a bound.
func TestRetry(t *testing.T) {
	var q queue
	q.add(numbered(1, epoch))
	var rests []string
	now := epoch
	for range 9 {
		batch, _ := q.next(now)
		q.recordResult(now, batch, 0, "no route")
		_, at := q.next(now)
		rests = append(rests, at.Sub(now).String())
		now = at
	}
	if got := strings.Join(rests, " "); got != "5s 10s 20s 40s 1m20s 2m40s 5m20s 10m0s 10m0s" {
		t.Errorf("got retries after %s", got)
	}
	late := numbered(maxQueue+20, now)
	q.add(late[1:])
	if len(q.waiting) != maxQueue || q.dropped != 20 {
		t.Fatalf("got %d queued and %d dropped, want %d and 20", len(q.waiting), q.dropped, maxQueue)
	}
	batch, _ := q.next(now)
	l := write(now, batch, q.dropped)
	if l.Title != "disinto: 120 messages" ||
		!strings.HasSuffix(l.Text, "\nand 90 more: `disinto status` has all of them\n"+
			"20 older messages were lost while none could be sent") || strings.Count(l.Text, "\n") != maxListed+1 {
		t.Errorf("got the digest %q, %q", l.Title, l.Text)
	}
	q.add([]Message{{Key: "while it is sent"}})
	q.recordResult(now, batch, q.dropped, "")
	if len(q.waiting) != 1 || q.why != "" || q.failed != 0 {
		t.Errorf("after the digest: got %d queued, %d failures, error %q", len(q.waiting), q.failed, q.why)
	}
}

// A retried letter has the same id, and a late one says when its cause started.
func TestLetter(t *testing.T) {
	batch := numbered(1, epoch)
	first, second := write(epoch, batch, 0), write(epoch.Add(time.Hour), batch, 0)
	if first.ID != second.ID || first.ID == write(epoch, numbered(1, epoch.Add(1)), 0).ID {
		t.Errorf("got ids %q and %q", first.ID, second.ID)
	}
	if first.Title != "disinto needs you" || first.Text != "word 0" || first.Link != "http://forge/x" {
		t.Errorf("got the letter %+v", first)
	}
	if second.Text != "word 0 (since 2026-11-22T12:00:00Z)" {
		t.Errorf("an hour later: got %q", second.Text)
	}
	long := numbered(10, epoch)
	for i := range long {
		long[i].Words = strings.Repeat("ä", 10_000)
	}
	if l := write(epoch, long, 0); len(l.Text) > maxNtfy || !strings.Contains(l.Text, "…") {
		t.Errorf("a digest of long messages: got %d bytes", len(l.Text))
	}
}
