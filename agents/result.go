package agents

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxResult is the largest size of a result in bytes. A program that writes more has mistaken it for a log.
const MaxResult = 64 << 10

// MaxWords bounds a question or a plan, in bytes, because it is posted as a comment and journalled.
const MaxWords = 16 << 10

// maxReason bounds the reason, in runes, because it appears in comments, tables and the journal.
const maxReason = 500

// resultDocument is the document that a program may write to $DISINTO_RESULT (section 8 of the design).
type resultDocument struct {
	Outcome   Result `json:"outcome"`
	Reason    string `json:"reason,omitempty"`
	Words     string `json:"words,omitempty"`
	RetryAt   string `json:"retry_at,omitempty"`
	SessionID string `json:"session_id,omitempty"`
	Usage     *Usage `json:"usage"`
	// Resumed is missing if the program does not continue conversations.
	Resumed  *Resumption `json:"resumed,omitempty"`
	Steps    []Step      `json:"steps,omitempty"`
	Verified *Verified   `json:"verified,omitempty"`
	Doing    Doing       `json:"doing,omitzero"` // without a phase in a finished result
}

// FormatResult returns the text of a result with the fields of o that a program can know.
func FormatResult(o *Outcome) ([]byte, error) {
	d := resultDocument{
		Outcome: o.Result, Reason: o.Reason, Words: o.Words, SessionID: o.SessionID, Usage: &o.Usage, Resumed: o.Resumed,
		Steps: o.Steps, Verified: o.Verified, Doing: Doing{Heard: o.Heard},
	}
	if !o.RetryAt.IsZero() {
		d.RetryAt = o.RetryAt.UTC().Format(time.RFC3339)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // escaping would make words full of < six times as long
	err := e.Encode(d)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// FormatProgress returns the text of an unfinished result, which holds the usage of a session so far, and its phase.
func FormatProgress(u Usage, d Doing) ([]byte, error) {
	return json.Marshal(struct {
		Usage Usage `json:"usage"`
		Doing Doing `json:"doing,omitzero"`
	}{u, d})
}

// ErrUnfinished is the error of a result with a usage and no outcome: its program still runs, or ended before it knew
// the outcome.
var ErrUnfinished = errors.New("result has a usage and no outcome")

// ParseProgress decodes the usage of a result, finished or not, what it says of the inbox, and the phase of an
// unfinished one.
func ParseProgress(text []byte) (u Usage, doing Doing, err error) {
	var d resultDocument
	if err := d.read(text); err != nil {
		return u, doing, err
	}
	if doing = d.Doing.Known(); d.Outcome != "" {
		doing = Doing{Heard: doing.Heard}
	}
	if d.Usage == nil {
		return u, doing, nil
	}
	return *d.Usage, doing, d.Usage.check()
}

// read decodes a text of at most MaxResult bytes.
func (d *resultDocument) read(text []byte) error {
	if len(text) > MaxResult {
		return fmt.Errorf("result is longer than %d bytes", MaxResult)
	}
	if err := json.Unmarshal(text, d); err != nil {
		return fmt.Errorf("result is not the JSON it should be: %w", err)
	}
	var told struct {
		Usage struct {
			Cached *int64 `json:"cached_tokens"`
		}
	}
	if d.Usage != nil && json.Unmarshal(text, &told) == nil && told.Usage.Cached == nil && d.Usage.InputTokens > 0 {
		d.Usage.CacheUntold = true
	}
	return nil
}

// ParseResult decodes the result that an agent's program left. It ignores unknown fields, because the program may be
// newer than the supervisor. The outcome must be one that a program can know: only the supervisor knows that it ended
// or lost a session. The returned Outcome has Claimed set and no facts about the process. With ErrUnfinished it has
// only a usage.
//
// The text comes from an agent and is not trusted. The reason becomes one line, and words are bounded. The session id,
// which becomes a command-line argument, must look like an id. Usage, which counts against a budget, cannot be negative
// or exceed what a session can use.
func ParseResult(text []byte) (Outcome, error) {
	var d resultDocument
	if err := d.read(text); err != nil {
		return Outcome{}, err
	}
	told := d.Usage != nil
	if !told {
		d.Usage = new(Usage)
	}
	if err := d.Usage.check(); err != nil {
		return Outcome{}, err
	}
	if d.Outcome == "" && told {
		return Outcome{Usage: *d.Usage}, ErrUnfinished
	}
	if err := d.check(); err != nil {
		return Outcome{}, err
	}
	o := Outcome{Result: d.Outcome, Reason: oneLine(d.Reason), SessionID: d.SessionID, Claimed: true}
	o.Usage = *d.Usage
	if d.Resumed != nil {
		o.Resumed = d.Resumed.Bounded()
	}
	o.Heard = d.Doing.Known().Heard
	o.Steps, o.Verified = BoundedSteps(d.Steps), d.Verified.Bounded()
	if o.Result == Question || o.Result == Planned {
		o.Words, o.Reason = ManyLines(d.Words), cmp.Or(o.Reason, oneLine(d.Words))
	}
	if d.RetryAt != "" {
		at, err := time.Parse(time.RFC3339, d.RetryAt)
		if err != nil {
			return Outcome{}, fmt.Errorf("result has the retry_at %q, want a time such as 2026-01-02T15:04:05Z", d.RetryAt)
		}
		o.RetryAt = at
	}
	if o.Reason == "" && o.Result != Done {
		o.Reason = "the program gave no reason"
	}
	return o, nil
}

func (d *resultDocument) check() error {
	switch {
	case d.Outcome == "":
		return errors.New("result has no outcome")
	case !d.Outcome.Claimable():
		return fmt.Errorf("result has the unknown outcome %q", d.Outcome)
	case (d.Outcome == Question || d.Outcome == Planned) && ManyLines(d.Words) == "":
		return fmt.Errorf("result has the outcome %q and no words", d.Outcome)
	}
	if d.SessionID != "" && !ValidSessionID(d.SessionID) {
		return fmt.Errorf("result has the session_id %q, want up to 200 letters, digits, and any of ._:-", d.SessionID)
	}
	return nil
}

// check rejects a usage that no session can have, because usage is budgeted and summed.
func (u Usage) check() error {
	if u.InputTokens < 0 || u.CachedTokens < 0 || u.OutputTokens < 0 || u.CostUSD < 0 {
		return errors.New("result has negative usage")
	}
	if u != u.Bounded() {
		return fmt.Errorf("result has a usage of more than %d tokens or $%d", MaxTokens, MaxUSD)
	}
	return nil
}

// sessionID matches ids that no program mistakes for an option or a path.
var sessionID = regexp.MustCompile(`^[A-Za-z0-9_:][A-Za-z0-9._:-]*$`)

const maxSessionID = 200

// ValidSessionID reports whether id can be the SessionID of an outcome.
func ValidSessionID(id string) bool { return len(id) <= maxSessionID && sessionID.MatchString(id) }

// ManyLines makes a text printable, preserves its lines, and limits it to MaxWords bytes.
func ManyLines(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r == utf8.RuneError || !unicode.IsPrint(r) && !unicode.IsSpace(r):
			return -1
		case !unicode.IsPrint(r):
			return ' '
		}
		return r
	}, strings.ReplaceAll(s, "\r\n", "\n"))
	const mark = "\n\n[cut here]"
	if s = strings.TrimSpace(s); len(s) > MaxWords {
		s = strings.ToValidUTF8(s[:MaxWords-len(mark)], "") + mark
	}
	return s
}

// oneLine makes a text printable, short and a single line. Control characters could rewrite the terminal that shows it.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) > maxReason {
		s = string([]rune(s)[:maxReason-1]) + "…"
	}
	return s
}
