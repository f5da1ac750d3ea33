package session

import (
	"bytes"
	"regexp"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// report is what a CLI's event stream says about its run. Adapters fill it event by event. The zero value is that of a
// run which has said nothing yet.
type report struct {
	Session string // the CLI's id of the conversation
	Words   string // what the model said last
	Turns   int    // answers of the model
	Usage   agents.Usage
	// TotalTokens and TotalCost say that these parts of Usage are of the whole conversation and not of this run.
	TotalTokens, TotalCost bool
	Ended                  bool // the event that stands at the end of a complete run was there
	Trouble
	// Hopeless says that the CLI will go on trying what cannot succeed: it is better ended.
	Hopeless bool
	Unread   int // lines that are no event
	// overflows counts how often the conversation was too long.
	overflows int
	// Note is one line for the log about the event that was read last; empty if it says nothing to people.
	Note string
}

// Trouble is what kept a run from its work.
type Trouble struct {
	What  trouble
	Words string
	// Until is when a usage limit is lifted; zero where the CLI does not say.
	Until time.Time
	// After is the same, counted from the event.
	After time.Duration
}

type trouble string

const (
	noTrouble trouble = ""
	limited   trouble = "limited"   // a usage limit, or too many requests
	signedOut trouble = "auth"      // the backend does not know us
	overflown trouble = "overflow"  // the conversation does not fit the context window
	refused   trouble = "refused"   // the model will not do it
	down      trouble = "down"      // the backend does not answer, or only with errors
	forgotten trouble = "forgotten" // the conversation that was to go on is not there
	broken    trouble = "broken"    // anything else
)

// trouble notes what went wrong. A usage limit stands above what the CLI makes of it later.
func (r *report) trouble(t Trouble) {
	if r.What == limited && t.What != limited {
		return
	}
	if t.What == limited && t.Until.IsZero() {
		t.Until = r.Until
	}
	t.Words = firstWords(t.Words)
	r.Trouble = t
}

// classes says what an error means by its words, where there is no status. The first that fits counts.
var classes = []struct {
	what trouble
	text *regexp.Regexp
}{
	{forgotten, regexp.MustCompile(`(?i)no conversation found|no saved session found|session not found|no rollout found|no session found|thread.* not found`)},
	{overflown, regexp.MustCompile(`(?i)prompt is too long|context.{0,20}(length|window|size|overflow|limit)|exceeds? .{0,40}context|maximum context|too many tokens|input is too long|ran out of room`)},
	{limited, regexp.MustCompile(`(?i)usage.?limit|rate.?limit|hit your .{0,20}limit|quota|too many requests|\b429\b`)},
	{signedOut, regexp.MustCompile(`(?i)\b401\b|\b403\b|unauthori[sz]ed|invalid.{0,10}api.?key|not logged in|please run /login|authentication|credential|missing api key|api key.{0,20}(missing|required|not)`)},
	{down, regexp.MustCompile(`(?i)\b5\d\d\b|overloaded|econnre|high demand|root/sudo privileges|connection (refused|reset|error|closed)|unable to connect|fetch failed|timed? ?out|network|socket|eai_again|enotfound|stream disconnected|internal server error|service unavailable|error sending request`)},
}

// classify says what an error means. The status of HTTP is 0 where there was none.
func classify(status int, words string) trouble {
	if classes[1].text.MatchString(words) && (status == 0 || status == 400 || status == 413 || status == 500) {
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

// maxLine is how long one event may be, in bytes: a tool's whole output is in one.
const maxLine = 10 << 20

// lines cuts a stream into lines, and hands each to a function. A line longer than maxLine is dropped and counted: it
// is no reason to lose the rest of a session.
type lines struct {
	each    func(line []byte)
	buf     []byte
	skip    bool // in the middle of a line that is too long
	dropped int
}

func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		part := p
		if i >= 0 {
			part = p[:i]
		}
		if !l.skip {
			l.buf = append(l.buf, part...)
		}
		if len(l.buf) > maxLine {
			l.buf, l.skip = nil, true
			l.dropped++
		}
		if i < 0 {
			break
		}
		l.flush()
		p = p[i+1:]
	}
	return n, nil
}

// flush hands over what is there: at the end of a line, or of the stream.
func (l *lines) flush() {
	if line := bytes.TrimSpace(l.buf); !l.skip && len(line) > 0 {
		l.each(line)
	}
	l.buf, l.skip = l.buf[:0], false
}

// firstWords is a text in one line that fits a table and a comment.
func firstWords(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	const most = 400
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
