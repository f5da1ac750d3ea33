package session

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// report sums up the events of a run. Adapters fill it event by event. The zero value is a run without events.
type report struct {
	Session string // the CLI's id of the conversation
	Words   string // the model's last text
	// Answered says that the model answered. A session without an answer says nothing about its item.
	Answered bool
	// Said is the last error that was not final, or the last line of stdout that is no event. It explains the end of a
	// run without a last event.
	Said    string
	Usage   agents.Usage
	Running agents.Usage // of this run so far, summed over answers, because a live run reports no total
	// TotalTokens and TotalCost say that these parts of Usage cover the whole conversation, not only this run.
	TotalTokens, TotalCost bool
	Ended                  bool // the last event of a complete run was read, and none of another turn since
	background             int  // tasks that the CLI runs in the background, and waits for after its last event
	failure
	Hopeless  bool   // the CLI retries without a chance of success and must be ended
	Unread    int    // lines that are not events
	Note      string // one line for the log about the last event; may be empty
	overflows int    // how often the conversation was too long
	repeats   repeats
	writing   string        // id of the answer that the model writes
	answers   []modelAnswer // the last answers of the model
	calling   bool          // the last event was about a tool, so the model will answer again
	finished  bool          // the last event has the result of a tool
	now       time.Time     // time of the event
	changed   []string      // files that the event reports as written, without their content
}

// modelAnswer is an answer of the model with its usage. Some CLIs report an answer in parts, each with the whole usage.
type modelAnswer struct {
	id   string
	used agents.Usage
}

// answersMost bounds the answers that can be reported in parts at the same time.
const answersMost = 32

// count adds an answer of the model, or a further part of it, to the usage of the run.
func (r *report) count(id string, u agents.Usage) {
	i := slices.IndexFunc(r.answers, func(a modelAnswer) bool { return a.id == id && id != "" })
	if i < 0 {
		r.answers = append(last(r.answers, answersMost-1), modelAnswer{id: id})
		i = len(r.answers) - 1
	}
	a := &r.answers[i]
	total := a.used.Max(u.Bounded())
	r.Running, a.used = r.Running.Add(total.Less(a.used)), total
}

// call records the call of a tool.
func (r *report) call(id, tool string, input []byte) {
	r.calling, r.Note = true, toolSummary(tool, input)
	r.repeats.begin(id, tool, input, r.now)
}

// result records the result of a tool.
func (r *report) result(id string, result []byte) {
	r.calling, r.finished = true, true
	r.repeats.end(id, result, r.now)
}

// failure is the reason why a run did not do its work.
type failure struct {
	What  class
	Words string
	Until time.Time     // when a usage limit is lifted; zero if the CLI does not report it
	After time.Duration // the same as a duration after the event
}

// class is the kind of trouble.
type class string

const (
	noFailure class = ""
	limited   class = "limited"   // a usage limit, or too many requests
	signedOut class = "auth"      // the backend rejects the credentials
	overflown class = "overflow"  // the conversation does not fit the context window
	refused   class = "refused"   // the model refuses
	down      class = "down"      // the backend does not answer, or answers only with errors
	forgotten class = "forgotten" // the conversation to resume does not exist
	looped    class = "loop"      // the CLI repeats itself
	spent     class = "budget"    // the CLI has reached its budget
	killed    class = "killed"    // something outside ended the CLI with SIGKILL
	unusable  class = "unusable"  // no credit, no such model, no such program: the agent's or its account's fault
	broken    class = "broken"    // anything else
)

// final reports whether the trouble is final, whatever the CLI reports while it is being ended.
func (t *failure) final() bool { return t.What == looped || t.What == spent }

// fail records a failure. A usage limit is not overwritten, because CLIs report it again as another error.
func (r *report) fail(t failure) {
	if r.final() || r.What == limited && t.What != limited {
		return
	}
	if t.What == limited && t.Until.IsZero() {
		t.Until = r.Until
	}
	t.Words = firstWords(unwrapped(t.Words))
	r.failure = t
}

// unwrapped returns the message of an error that a CLI passes on as JSON, as its backend sent it.
func unwrapped(words string) string {
	var e struct {
		Message string
		Error   struct{ Message string }
	}
	if json.Unmarshal([]byte(words), &e) != nil {
		return words
	}
	return cmp.Or(e.Error.Message, e.Message, words)
}

// add processes one line of a CLI's stdout.
func (r *report) add(a adapter, line []byte, now time.Time) {
	r.Note, r.calling, r.finished, r.now, r.changed = "", false, false, now, nil
	if !a.read(line, r) {
		r.Unread++
		r.Said = string(line)
	}
}

// classes classify errors without a status by their text. The first match counts.
var classes = []struct {
	what class
	text *regexp.Regexp
}{
	{looped, regexp.MustCompile(`(?i)loop detect`)}, // qwen also detects loops
	{forgotten, regexp.MustCompile(`(?i)no (conversation|(saved )?session|rollout) found|(session|thread.*) not found`)},
	{overflown, overflowWords},
	{refused, filterWords},
	{spent, regexp.MustCompile(`(?i)budget (is )?(exhausted|exceeded)`)},
	{limited, regexp.MustCompile(`(?i)usage.?limit|rate.?limit|hit your .{0,20}limit|quota|too many requests|\b429\b`)},
	{unusable, regexp.MustCompile(`(?i)\b40[24]\b|payment required|billing|(credit|balance).{0,20}(too low|insuff)|` +
		`insufficient.{0,10}(credit|balance|funds)|model\b.*(not found|not exist|not supported)|` +
		`issue with the selected model|root/sudo privileges`)},
	{signedOut, regexp.MustCompile(`(?i)\b40[13]\b|unauthori[sz]ed|invalid.{0,10}api.?key|not logged in|` +
		`please run /login|authentication|credential|missing api key|api key.{0,20}(missing|required|not)`)},
	{down, regexp.MustCompile(`(?i)\b5\d\d\b|overloaded|econnre|high demand|unable to connect|` +
		`connection (refused|reset|error|closed)|fetch failed|timed? ?out|network|socket|eai_again|enotfound|` +
		`stream disconnected|internal server error|service unavailable|error sending request`)},
}

var overflowWords = regexp.MustCompile(`(?i)prompt is too long|context.{0,20}(length|window|size|overflow|limit)|` +
	`exceeds? .{0,40}context|maximum context|too many tokens|input is too long|ran out of room`)

// filterWords match the refusal of one prompt by a filter of the backend.
var filterWords = regexp.MustCompile(`(?i)content.?filter|content management policy|safety classifier`)

// classify classifies an error. status is the HTTP status, or 0.
func classify(status int, words string) class {
	if overflowWords.MatchString(words) && slices.Contains([]int{0, 400, 413, 500}, status) {
		return overflown
	}
	switch {
	case status == 400 && filterWords.MatchString(words):
		return refused
	case status == 401 || status == 403:
		return signedOut
	case status == 402 || status == 404:
		return unusable
	case status == 429:
		return limited
	case status >= 500:
		return down
	case status == 413:
		return overflown
	}
	for _, c := range classes {
		if c.text.MatchString(words) {
			return c.what
		}
	}
	return broken
}

// maxLine is the maximum size of an event in bytes: an event can contain the whole output of a tool.
const maxLine = 10 << 20

// lines is a writer that passes each line to a function. It drops and counts lines longer than maxLine, which must not
// cost the rest of a session.
type lines struct {
	each    func(line []byte)
	stop    func() // called at the end
	buf     []byte
	skip    bool // in the middle of a line that is too long
	dropped int
}

// end passes on the last line.
func (l *lines) end() {
	l.flush()
	l.stop()
}

func (l *lines) Write(p []byte) (int, error) {
	for part := range bytes.Lines(p) {
		if !l.skip {
			l.buf = append(l.buf, part...)
		}
		if len(l.buf) > maxLine {
			l.buf, l.skip = nil, true
			l.dropped++
		}
		if bytes.HasSuffix(part, []byte("\n")) {
			l.flush()
		}
	}
	return len(p), nil
}

// flush passes on the completed line.
func (l *lines) flush() {
	if line := bytes.TrimSpace(l.buf); !l.skip && len(line) > 0 {
		l.each(line)
	}
	l.buf, l.skip = l.buf[:0], false
}

// firstWords returns the beginning of a text as one line that fits a table or a comment.
func firstWords(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	const most = 400
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
