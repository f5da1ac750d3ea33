package session

import (
	"context"
	"fmt"
	"io"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// stage is how far a talk is.
type stage int

const (
	starting stage = iota // the CLI has no prompt yet
	prompted
	saidAll // nothing will be said
)

// startTime bounds the time until a CLI that talks takes its prompt: with a load of 10, opencode needs 35 s.
const startTime = 5 * time.Minute

// talk is the stdin of a CLI that talks. What is said to it waits until it is read.
type talk struct {
	cli   talker
	queue chan []byte
	rest  []byte // of what is being read
	late  *time.Timer
	over  bool
}

// talkMost bounds what may wait for a CLI that does not read it.
const talkMost = 256

// newTalk starts to talk with the run's CLI; nil if that CLI is given its prompt at once.
func (r *run) newTalk(c *call, prompt string, before agents.Usage, cancel context.CancelCauseFunc) *talk {
	cli, ok := r.cli.(talker)
	if !ok {
		return nil
	}
	t := &talk{cli: cli, queue: make(chan []byte, talkMost)}
	t.late = time.AfterFunc(startTime, func() {
		cancel(&silentError{fmt.Sprintf("it has not taken its prompt after %s", startTime)})
	})
	cli.begin(c, r.folder(), prompt, before)
	t.next(&report{})
	return t
}

// next says what follows the CLI's last line.
func (t *talk) next(said *report) {
	if t == nil || t.over {
		return
	}
	text, at := t.cli.say()
	if len(text) > 0 {
		select {
		case t.queue <- text:
		default:
			said.fail(failure{What: broken, Words: "it does not read the answers to what it asks"})
			said.Hopeless = true
		}
	}
	if at != starting {
		t.late.Stop()
	}
	if at == saidAll {
		t.end()
	}
}

// end closes the CLI's stdin.
func (t *talk) end() {
	if t != nil && !t.over {
		t.late.Stop()
		t.over = true
		close(t.queue)
	}
}

func (t *talk) Read(p []byte) (int, error) {
	for len(t.rest) == 0 {
		text, ok := <-t.queue
		if !ok {
			return 0, io.EOF
		}
		t.rest = text
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}
