package agents

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxResult is the size in bytes from which a result is refused. A program that writes more has mistaken it for a log.
const MaxResult = 64 << 10

// maxReason bounds the reason in runes: it goes into comments, tables and the journal.
const maxReason = 500

// resultDocument is what a program may write to $DISINTO_RESULT (section 8 of the design).
type resultDocument struct {
	Outcome   Result `json:"outcome"`
	Reason    string `json:"reason"`
	RetryAt   string `json:"retry_at"`
	SessionID string `json:"session_id"`
	Usage     Usage  `json:"usage"`
}

// ParseResult reads what an agent's program left as its result. Fields it does not know are ignored, so that a program
// may be newer than we are. The outcome must be one that a program can know: that it was ended, or lost, is for us to
// say. The answer has Claimed set and nothing about the process.
//
// The text comes from an agent and is not trusted: the reason is made one line, the session id (which is later put on
// a command line) must look like one, and usage cannot be negative (it counts against a budget).
func ParseResult(text []byte) (Outcome, error) {
	if len(text) > MaxResult {
		return Outcome{}, fmt.Errorf("result is longer than %d bytes", MaxResult)
	}
	var d resultDocument
	if err := json.Unmarshal(text, &d); err != nil {
		return Outcome{}, fmt.Errorf("result is not the JSON it should be: %w", err)
	}
	o := Outcome{
		Result:    d.Outcome,
		Reason:    oneLine(d.Reason),
		SessionID: d.SessionID,
		Usage:     d.Usage,
		Claimed:   true,
	}
	if err := d.check(); err != nil {
		return Outcome{}, err
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
	switch d.Outcome {
	case Done, Refused, Failed, NoProgress, Limited, BackendDown:
	case "":
		return errors.New("result has no outcome")
	default:
		return fmt.Errorf("result has the unknown outcome %q", d.Outcome)
	}
	if !sessionIDLike(d.SessionID) {
		return fmt.Errorf("result has the session_id %q, want up to 200 letters, digits, and any of ._:-", d.SessionID)
	}
	u := d.Usage
	if u.InputTokens < 0 || u.CachedTokens < 0 || u.OutputTokens < 0 || u.CostUSD < 0 {
		return errors.New("result has negative usage")
	}
	return nil
}

// sessionIDLike accepts the empty id, and what cannot be taken for an option or a path when it becomes an argument.
func sessionIDLike(id string) bool {
	odd := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._:-", r))
	}
	return len(id) <= 200 && !strings.HasPrefix(id, "-") && !strings.HasPrefix(id, ".") && !strings.ContainsFunc(id, odd)
}

// oneLine makes a text printable and short. Control characters could rewrite a terminal that shows the reason.
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
