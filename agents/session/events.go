package session

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// report sums up the event stream of a run. Adapters fill it event by event. The zero value is a run without an event.
type report struct {
	Session string // the CLI's id of the conversation
	Words   string // the model's last text
	Turns   int    // answers of the model
	Usage   agents.Usage
	// TotalTokens and TotalCost say that these parts of Usage count the whole conversation and not this run alone.
	TotalTokens, TotalCost bool
	Ended                  bool // the last event of a complete run was read
	trouble
	Hopeless  bool   // the CLI keeps trying what cannot succeed and has to be ended
	Unread    int    // lines that are no event
	Note      string // one line for the log about the last event; may be empty
	overflows int    // how often the conversation was too long
}

// trouble is the reason why a run did not do its work.
type trouble struct {
	What  class
	Words string
	Until time.Time     // when a usage limit is lifted; zero where the CLI does not tell
	After time.Duration // the same, counted from the event
}

// class is the kind of a trouble.
type class string

const (
	noTrouble class = ""
	limited   class = "limited"   // a usage limit, or too many requests
	signedOut class = "auth"      // the backend does not accept the credentials
	overflown class = "overflow"  // the conversation does not fit the context window
	refused   class = "refused"   // the model refuses
	down      class = "down"      // the backend does not answer, or only with errors
	forgotten class = "forgotten" // the conversation to resume is not there
	broken    class = "broken"    // anything else
)

// fail notes a failure. A usage limit stays: CLIs report it again as another error.
func (r *report) fail(t trouble) {
	if r.What == limited && t.What != limited {
		return
	}
	if t.What == limited && t.Until.IsZero() {
		t.Until = r.Until
	}
	t.Words = firstWords(t.Words)
	r.trouble = t
}

// add reads one line of a CLI's stdout.
func (r *report) add(a adapter, line []byte) {
	r.Note = ""
	if !a.read(line, r) {
		r.Unread++
	}
}

// classes tell what an error means by its words, for errors without a status. The first match counts.
var classes = []struct {
	what class
	text *regexp.Regexp
}{
	{forgotten, regexp.MustCompile(`(?i)no (conversation|(saved )?session|rollout) found|(session|thread.*) not found`)},
	{overflown, overflowWords},
	{limited, regexp.MustCompile(`(?i)usage.?limit|rate.?limit|hit your .{0,20}limit|quota|too many requests|\b429\b`)},
	{signedOut, regexp.MustCompile(`(?i)\b40[13]\b|unauthori[sz]ed|invalid.{0,10}api.?key|not logged in|` +
		`please run /login|authentication|credential|missing api key|api key.{0,20}(missing|required|not)`)},
	{down, regexp.MustCompile(`(?i)\b5\d\d\b|overloaded|econnre|high demand|root/sudo privileges|unable to connect|` +
		`connection (refused|reset|error|closed)|fetch failed|timed? ?out|network|socket|eai_again|enotfound|` +
		`stream disconnected|internal server error|service unavailable|error sending request`)},
}

var overflowWords = regexp.MustCompile(`(?i)prompt is too long|context.{0,20}(length|window|size|overflow|limit)|` +
	`exceeds? .{0,40}context|maximum context|too many tokens|input is too long|ran out of room`)

// classify tells what an error means. status is that of HTTP, 0 without one.
func classify(status int, words string) class {
	if overflowWords.MatchString(words) && slices.Contains([]int{0, 400, 413, 500}, status) {
		return overflown
	}
	switch {
	case status == 401 || status == 403:
		return signedOut
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

// maxLine is the largest event in bytes: one event has the whole output of a tool.
const maxLine = 10 << 20

// lines is a writer that hands each line to a function. It drops and counts lines longer than maxLine, which are no
// reason to lose the rest of a session.
type lines struct {
	each    func(line []byte)
	stop    func() bool // called at the end
	buf     []byte
	skip    bool // in the middle of a line that is too long
	dropped int
}

// end hands over the last line.
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

// flush hands over the line that is complete now.
func (l *lines) flush() {
	if line := bytes.TrimSpace(l.buf); !l.skip && len(line) > 0 {
		l.each(line)
	}
	l.buf, l.skip = l.buf[:0], false
}

// firstWords returns the beginning of a text as one line that fits a table and a comment.
func firstWords(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	const most = 400
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
