package control

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
)

// Every reason has a status. Those that only a person ends, and those that a person chose, are told apart.
func TestStatus(t *testing.T) {
	for _, doc := range threads.Codes() {
		r := threads.Reason{Code: doc.Code}
		q := QueueDocument{Code: doc.Code, NeedsPerson: r.NeedsPerson()}
		if got := q.Status(); (got == NeedsYou) != r.NeedsPerson() {
			t.Errorf("%s: got the status %s", doc.Code, got)
		}
	}
	for code, want := range map[threads.Code]Status{
		threads.BlockerOpen: Blocked, threads.NoSlot: Queued, threads.AgentBusy: Queued, threads.AssignedHuman: Held,
		threads.HasPull: InReview, threads.CIPending: Merging, threads.CoolDown: BackingOff, threads.OverBudget: Limited,
		threads.Paused: Paused, threads.NotDue: Scheduled, threads.NotBacklog: Unlabelled, threads.NotRead: Queued,
	} {
		if got := (&QueueDocument{Code: code}).Status(); got != want {
			t.Errorf("%s: got %s, want %s", code, got, want)
		}
	}
}

// many has 30 queued issues, of which every third is blocked and the last needs a person, one session, and two issues
// that are not queued, of which one needs a person.
func many() *Document {
	x := SessionDocument{Repo: "o/r", Number: 99, Title: "A tea pot", Agent: "dev-qwen", Kind: agents.KindIssue}
	d := &Document{Sessions: []SessionDocument{x}}
	for i := range int64(30) {
		q := QueueDocument{
			Repo: "o/r", Number: i + 1, Kind: agents.KindIssue, Title: fmt.Sprint("Task ", i+1), Code: threads.NoSlot,
		}
		if i%3 == 0 {
			q.Code, q.Agent = threads.BlockerOpen, "dev-kimi"
		}
		d.Queue = append(d.Queue, q)
	}
	d.Queue[29].Code, d.Queue[29].NeedsPerson = threads.GaveUp, true
	d.Unqueued = []QueueDocument{
		{Repo: "o/r", Number: 200, Title: "A tea cup", Code: threads.NotBacklog},
		{Repo: "x/y", Number: 1, Title: "Stuck", Code: threads.SkipLabel, NeedsPerson: true},
	}
	return d
}

// A query chooses a page of the items that fit all of it, and counts them by status.
func TestChoose(t *testing.T) {
	for query, want := range map[string]string{
		"rows=5":                        "1 2 3 4 5 of 31, needs 2",
		"rows=5&page=2":                 "6 7 8 9 10 of 31, needs 2",
		"rows=20&page=2":                "21 22 23 24 25 26 27 28 29 30 1 of 31, needs 2",
		"rows=5&page=9":                 " of 31, needs 2",
		"rows=3&status=blocked":         "1 4 7 of 10, needs 2",
		"rows=9&status=needs-you":       "30 1 of 2, needs 2",
		"rows=9&status=unlabelled":      "200 of 1, needs 2",
		"rows=9&q=tea":                  "99 200 of 2, needs 2",
		"rows=9&q=%2329":                "29 of 1, needs 2",
		"rows=2&agent=dev-kimi":         "1 4 of 10, needs 2",
		"rows=2&repo=x%2Fy":             "1 of 1, needs 2",
		"rows=2&kind=review":            " of 0, needs 2",
		"rows=0":                        " of 31, needs 2",
		"rows=9&q=task+3&status=queued": "3 of 1, needs 2",
	} {
		values, _ := url.ParseQuery(query)
		q, err := ReadQueueQuery(values)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		d := many()
		d.Choose(q)
		var numbers []string
		for _, x := range d.Queue {
			numbers = append(numbers, fmt.Sprint(x.Number))
		}
		got := fmt.Sprintf("%s of %d, needs %d", strings.Join(numbers, " "), d.Waiting.Fits, len(d.Waiting.Needs))
		if got != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
	d := many()
	d.Choose(&QueueQuery{Rows: 1})
	if w := d.Waiting; w.Queue != 30 || w.Unqueued != 2 || w.Statuses[Blocked] != 10 || w.Statuses[Running] != 1 {
		t.Errorf("got %+v", w)
	}
}

// A text also finds closed items by the titles of their sessions, each once, and none that is open.
func TestClosed(t *testing.T) {
	var past []ledger.Past
	for i, title := range []string{"A Bell", "a bell for the door", "a bell", "a gong", "bell of a cat"} {
		ref := ledger.Ref{Repo: "o/r", Number: int64(i + 1)}
		last := ledger.Past{Ref: ref, Title: title, End: time.Unix(int64(i), 0)}
		past = append(past, ledger.Past{Ref: ref, Title: title}, last)
	}
	open := func(r forge.Ref) bool { return r.Number == 2 }
	for text, want := range map[string]string{"bell": "5 3 1", "#4": "4", "": "", "drum": ""} {
		var got []string
		q := QueueQuery{Text: text}
		for _, c := range q.Closed(past, open) {
			if got = append(got, fmt.Sprint(c.Number)); c.Last.Unix() != c.Number-1 {
				t.Errorf("%+v: want the end of its last session", c)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	if list := (&QueueQuery{Text: "bell", Status: Blocked}).Closed(past, open); list != nil {
		t.Errorf("among blocked items: got %+v", list)
	}
}

func TestReadQueueQuery(t *testing.T) {
	if q, err := ReadQueueQuery(url.Values{"status": {"odd"}}); q != nil || err != nil {
		t.Errorf("without rows: got %+v, %v, want all items", q, err)
	}
	for query, want := range map[string]string{
		"rows=x": "number of rows", "rows=-1": "number of rows", "rows=5&page=0": "number of page",
		"rows=5&status=odd": "odd",
	} {
		values, _ := url.ParseQuery(query)
		_, err := ReadQueueQuery(values)
		no := (*Refusal)(nil)
		if !errors.As(err, &no) || no.Status != http.StatusBadRequest || !strings.Contains(no.Words, want) {
			t.Errorf("%s: got %v, want a refusal with %q", query, err, want)
		}
	}
}
