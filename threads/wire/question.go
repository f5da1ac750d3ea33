package wire

import (
	"bytes"
	"encoding/json"
	"fmt"

	"codeberg.org/johba/disinto/threads"
)

// Format is the version of questions and answers. It increases only for a change that an older build cannot ignore,
// such as a new meaning of a field.
const Format = 1

// Command is the command with which every build answers a question in a file.
const Command = "decide-run"

// question asks another build for its plan.
type question struct {
	Format   int             `json:"format"`
	Snapshot json.RawMessage `json:"snapshot"`
}

// answer has either a plan or an error.
type answer struct {
	Format  int             `json:"format"`
	Program string          `json:"program"`
	Plan    json.RawMessage `json:"plan,omitempty"`
	Error   string          `json:"error,omitempty"`
}

// Ask writes the question for another build's plan, as one line.
func Ask(s *threads.Snapshot) ([]byte, error) {
	text, err := EncodeSnapshot(s)
	if err != nil {
		return nil, err
	}
	return json.Marshal(question{Format, text})
}

// Answer decides on the snapshot of a question, and writes the plan as one line. program is this build's version. If
// it cannot decide, the answer has the error.
func Answer(text []byte, program string) []byte {
	a := answer{Format: Format, Program: program}
	plan, err := decide(text)
	if err != nil {
		a.Error = err.Error()
	}
	a.Plan = plan
	line, err := json.Marshal(a)
	if err != nil { // no field of it can fail
		return fmt.Appendf(nil, `{"format":%d,"error":"cannot encode the answer"}`, Format)
	}
	return line
}

func decide(text []byte) (plan json.RawMessage, err error) {
	defer func() {
		if v := recover(); v != nil {
			plan, err = nil, fmt.Errorf("it panicked: %v", v)
		}
	}()
	var q question
	if err := json.Unmarshal(text, &q); err != nil {
		return nil, fmt.Errorf("cannot decode a question: %w", err)
	}
	if q.Format < 1 || q.Format > Format {
		return nil, fmt.Errorf("it reads questions of format %d, and was asked in format %d", Format, q.Format)
	}
	s, err := DecodeSnapshot(q.Snapshot)
	if err != nil {
		return nil, err
	}
	p := threads.Decide(*s)
	if s.Config != nil {
		threads.Enforce(s, &p)
	}
	return EncodePlan(&p)
}

// ReadAnswer reads the last line that another build wrote. program is that build's version, if it reported one.
func ReadAnswer(text []byte) (program string, plan *threads.Plan, err error) {
	text = bytes.TrimSpace(text)
	text = text[bytes.LastIndexByte(text, '\n')+1:]
	var a answer
	if err := json.Unmarshal(text, &a); err != nil || a.Format == 0 {
		return "", nil, fmt.Errorf("cannot decode the answer: it is %q", Words(string(text[:min(len(text), maxWords)])))
	}
	program = Words(a.Program)
	switch {
	case a.Error != "":
		return program, nil, fmt.Errorf("it does not decide: %s", Words(a.Error))
	case a.Format > Format:
		return program, nil, fmt.Errorf("it answers in format %d, and this build reads format %d", a.Format, Format)
	}
	plan, err = DecodePlan(a.Plan)
	return program, plan, err
}
