package notify

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// Message is about one cause for which a person is notified.
type Message struct {
	Key   string       // identifies the cause
	Code  threads.Code // an item's reason; another code makes another cause
	Topic threads.Topic
	Words string // one line
	Link  string // a page of the forge; may be empty
	Over  string // the message when the cause is over; empty sends none
	// Stands is how long the cause must last before it is sent.
	Stands time.Duration
	At     time.Time // when the cause started
}

// downFor is how long the forge may be silent before a message: a restart needs none.
const downFor = time.Minute

// Causes returns a message for each cause in a status. A merge is not a cause, because it does not last: see
// Notifier.RecordMerge.
func Causes(d *control.Document) (list []Message) {
	tell := func(topic threads.Topic, key, words string) {
		list = append(list, Message{Key: key, Topic: topic, Words: words})
	}
	own := func(a control.AlarmDocument) bool {
		return a.Code == threads.TokenRejected && a.About == control.OwnToken
	}
	if d.Forge.Error != "" && !d.Forge.OK && !slices.ContainsFunc(d.Alarms, own) {
		list = append(list, Message{
			Key: "down", Topic: threads.NotifyDown, Words: "the forge does not answer: " + Clean(d.Forge.Error, maxWhy),
			Stands: downFor, Over: "the forge answers again",
		})
	}
	for i := range d.Alarms {
		a := &d.Alarms[i]
		tell(threads.NotifyNeedsHuman, string(a.Code)+" "+a.About, Clean(a.Words, maxAlarm))
	}
	for _, line := range d.Problems {
		if strings.HasPrefix(line, control.NomadProblem) {
			list = append(list, Message{
				Key: "nomad", Topic: threads.NotifyDown, Words: Clean(line, maxWhy), Stands: downFor, Over: "Nomad answers again",
			})
		} else if !strings.HasPrefix(line, cannotSend) { // a failing recipient would get the message about itself
			tell(threads.NotifyNeedsHuman, "problem "+withoutNumbers(line), Clean(line, maxWhy))
		}
	}
	if d.Config.Error != "" {
		tell(threads.NotifyNeedsHuman, "config", "the configuration has mistakes, which `disinto check` lists; the version "+
			"before it stays in force")
	}
	for i := range d.Agents {
		a := &d.Agents[i]
		if usedUp(&a.Spent) {
			tell(threads.NotifyBudget, "budget of agent "+a.Name, a.Name+spentWords(&a.Spent))
		}
	}
	list = append(list, heldCauses(d)...)
	for i := range d.Threads {
		t := &d.Threads[i]
		if !t.ParkedUntil.IsZero() {
			tell(threads.NotifyParked, "parked "+t.Name, fmt.Sprintf("thread %s is %s until %s: %s",
				t.Name, t.Rest(), t.ParkedUntil.UTC().Format(time.RFC3339), Clean(t.ParkedWhy, maxWhy)))
		}
		if usedUp(&t.Spent) {
			tell(threads.NotifyBudget, "budget of thread "+t.Name, "thread "+t.Name+spentWords(&t.Spent))
		}
		for j := range t.Windows {
			if w := &t.Windows[j]; usedUp(w.Spent()) {
				tell(threads.NotifyBudget, "window of thread "+t.Name+" "+w.Length,
					fmt.Sprintf("thread %s has used %s in %s, and starts nothing until some of it is older than that",
						t.Name, usedWords(w.Spent()), w.Length))
			}
		}
	}
	return append(list, itemCauses(d)...)
}

// heldCauses returns the messages about agents that start nothing until a person acts: one for all that are held for
// the same reason, such as a program that is missing.
func heldCauses(d *control.Document) (list []Message) {
	names := make(map[string][]string) // by reason
	for i := range d.Agents {
		if a := &d.Agents[i]; a.State == control.AgentHeld && a.NeedsPerson {
			why := Clean(strings.TrimPrefix(a.Why, a.Name+" "), maxWhy)
			names[why] = append(names[why], a.Name)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(names)) {
		list = append(list, Message{
			Key: "held " + withoutNumbers(why), Topic: threads.NotifyNeedsHuman,
			Words: strings.Join(names[why], ", ") + " can start nothing: " + why,
		})
	}
	return list
}

func usedUp(s *control.SpentDocument) bool {
	return s.TokensPerDay > 0 && s.Tokens >= s.TokensPerDay || s.USDPerDay > 0 && s.USD >= s.USDPerDay
}

func spentWords(s *control.SpentDocument) string {
	return " has used " + usedWords(s) + " today, and starts nothing until midnight (UTC)"
}

func usedWords(s *control.SpentDocument) string {
	if s.TokensPerDay > 0 && s.Tokens >= s.TokensPerDay {
		return fmt.Sprintf("%d of %d tokens", s.Tokens, s.TokensPerDay)
	}
	return fmt.Sprintf("$%.2f of $%.2f", s.USD, s.USDPerDay)
}

// itemCauses returns the messages about items that need a person. It leaves out items that wait for a held agent, which
// has a message of its own. Items for which no agent is fit, for the same reason, share one message.
func itemCauses(d *control.Document) (list []Message) {
	at := make(map[string]int) // by key
	for i := range len(d.Queue) + len(d.Unqueued) {
		q := rowOf(d, i)
		class := q.Code.Class()
		if !q.NeedsPerson || class == threads.Busy {
			continue
		}
		ref := q.Repo + "#" + strconv.FormatInt(q.Number, 10)
		m := Message{
			Key: "item " + ref, Code: q.Code, Topic: threads.NotifyNeedsHuman, Words: itemWords(d, q, ref), Link: linkTo(d, q),
		}
		switch {
		case class == threads.Unfit:
			m.Key = "unfit " + Clean(q.Why, maxWhy)
		case q.Number == 0:
			m.Key += " " + q.Title
		}
		if first, seen := at[m.Key]; !seen {
			at[m.Key] = len(list)
			list = append(list, m)
		} else if list[first].Code == threads.SkipLabel && class != threads.Unfit {
			list[first] = m // the other code is the reason for the label
		}
	}
	return list
}

// rowOf returns row i of the queue followed by the unqueued items.
func rowOf(d *control.Document, i int) *control.QueueDocument {
	if i < len(d.Queue) {
		return &d.Queue[i]
	}
	return &d.Unqueued[i-len(d.Queue)]
}

func itemWords(d *control.Document, q *control.QueueDocument, ref string) string {
	if q.Number == 0 {
		ref = q.Repo
	}
	words := ref + " " + Clean(q.Title, maxTitle) + ": " + Clean(q.Why, maxWhy)
	if q.Code == threads.SkipLabel {
		words += lastWords(d, q)
	}
	if q.Mend != "" {
		words += "; " + Clean(q.Mend, maxWhy)
	}
	return words
}

// lastWords quotes the item's newest session, because a label does not say why it was set.
func lastWords(d *control.Document, q *control.QueueDocument) string {
	newest := slices.IndexFunc(d.Recent, func(r control.RecentDocument) bool {
		return r.Repo == q.Repo && r.Number == q.Number
	})
	if newest < 0 || d.Recent[newest].Outcome == agents.Done || d.Recent[newest].Reason == "" {
		return ""
	}
	return ", " + d.Recent[newest].Agent + " said: " + Clean(d.Recent[newest].Reason, maxWhy)
}

// linkTo returns the page of an item; empty for scheduled work.
func linkTo(d *control.Document, q *control.QueueDocument) string {
	if q.Number == 0 {
		return ""
	}
	return control.ItemPage(d.Forge.URL, q.Repo, q.Number)
}

// withoutNumbers removes the digits, so that a line whose counts grow stays one cause.
func withoutNumbers(line string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, Clean(line, maxWhy))
}

// The bounds of texts within a message, in characters.
const (
	maxTitle = 80
	maxAlarm = 800
	maxWhy   = 200
)

// harmless removes mentions, links and markup from text.
var harmless = strings.NewReplacer("@", "@\u200b", "<", "‹", ">", "›", "](", "] (", "://", ":/\u200b/")

// Clean turns text from the forge, an agent or a server into one harmless line of at most limit characters.
func Clean(s string, limit int) string {
	var b strings.Builder
	n, space := 0, false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			space = n > 0
			continue
		case !unicode.IsGraphic(r):
			continue
		case space:
			b.WriteByte(' ')
			n++
		}
		space = false
		if n >= limit {
			b.WriteString("…")
			break
		}
		b.WriteRune(r)
		n++
	}
	return harmless.Replace(b.String())
}
