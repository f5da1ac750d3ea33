package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/plainfile"
)

// answer is the file in which a CLI describes its work.
type answer struct {
	Title, Summary, Refused string
	Question, Plan          string // for people
	left                    string // a sentence about files that stay out of the pull request
}

// parseAnswer decodes an answer.
func parseAnswer(text []byte) (answer, error) {
	d, err := readFields("answer.json", text)
	if err != nil {
		return answer{}, err
	}
	a := answer{
		Title: firstWords(d.text("title")), Summary: d.text("summary"), Refused: d.text("refused"),
		Question: d.text("question"), Plan: d.text("plan"),
	}
	if d.err == nil && a == (answer{}) && len(d.values) > 0 {
		d.err = errors.New("answer.json has none of title, summary, refused, question and plan")
	}
	if d.err != nil {
		return answer{}, d.err
	}
	return a, nil
}

// stops returns the end of a session whose CLI asks a question or refuses, and nil otherwise.
func (a *answer) stops() error {
	switch {
	case a.Question != "":
		return endWithText(agents.Question, a.Question)
	case a.Refused != "":
		return end(agents.Refused, a.Refused)
	}
	return nil
}

// answer reads the answer file. The file is optional: a missing one is empty.
func (r *run) answer() (answer, error) {
	text, err := plainfile.Read(r.answerPath(), maxLeft)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 {
		return answer{}, nil
	}
	if err != nil {
		return answer{}, err
	}
	return parseAnswer([]byte(r.post.hide(string(text)))) // before a long text is cut
}

// readAnswer reads the answer file, and asks the CLI once to write an unreadable one again: it may contain a question.
// If that does not help, the answer is empty.
func (r *run) readAnswer(ctx context.Context) (answer, error) {
	said, err := r.answer()
	if err == nil || r.corrected {
		return said, nil
	}
	r.corrected = true
	_, asked := r.followUp(ctx, fmt.Sprintf("Your answer cannot be read: %v\nWrite the file %s again, with the JSON that "+
		"was asked for, and nothing else in it.", err, r.answerPath()))
	if asked != nil {
		return said, asked
	}
	if said, err = r.answer(); err != nil {
		r.logf("the answer stays unread: %v", err)
	}
	return said, nil
}
