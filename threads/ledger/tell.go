package ledger

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// Tell records what a person tells a running session, once when it is said and again when it is heard. A session that
// ends before leaves it to the next one of the chain that writes.
type Tell struct {
	ID    int64     `json:"id"`  // the comment's, or when it was said, in Unix nanoseconds
	Ref   Ref       `json:"ref"` // where it was said
	Chain Ref       `json:"chain"`
	By    string    `json:"by,omitempty"` // see agents.Message
	Text  string    `json:"text"`
	Run   string    `json:"run,omitempty"` // the session that is told; empty while there is none
	Agent string    `json:"agent"`         // of that session, or of the last one
	Heard time.Time `json:"heard,omitzero"`
	// Inbox says that the session runs a program of the operator's, which may read its inbox or not.
	Inbox bool `json:"inbox,omitempty"`
}

// SaidTell is a Tell with the time at which it was said.
type SaidTell struct {
	Tell
	At time.Time
}

// Message returns what a session is told.
func (t *SaidTell) Message() agents.Message {
	return agents.Message{At: t.At, By: t.By, Text: t.Text, Heard: t.Heard}
}

// Words say how far the message has come: the answer to its author.
func (t *Tell) Words() string {
	switch at := t.Heard.Local().Format("15:04"); {
	case t.Inbox && !t.Heard.IsZero():
		return fmt.Sprintf("in the inbox of %s, %s", t.Agent, at)
	case !t.Heard.IsZero():
		return fmt.Sprintf("heard by %s, %s", t.Agent, at)
	case t.Run != "" && t.Inbox:
		return fmt.Sprintf("it is in the inbox of %s, and only its program knows whether it reads that", t.Agent)
	case t.Run != "":
		return fmt.Sprintf("told %s, which hears it after its next finished tool call", t.Agent)
	}
	return fmt.Sprintf("%s ended before it heard this: the next session on it does", t.Agent)
}

func (r *Tell) valid() bool {
	return r.ID > 0 && r.Ref.Repo != "" && r.Chain.Repo != "" && r.Agent != "" && r.Text != ""
}

// apply ignores a new message to a session that has been told as many as it may.
func (r *Tell) apply(s *State, at time.Time) {
	i := slices.IndexFunc(s.Tells, func(t SaidTell) bool { return t.ID == r.ID })
	if i < 0 {
		if r.Run != "" && len(s.ToldTo(r.Run)) >= agents.MostMessages {
			return
		}
		s.Tells = append(s.Tells, SaidTell{At: at})
		i = len(s.Tells) - 1
	}
	s.Tells[i].Tell = *r
	s.answerTell(r)
	if _, open := s.Open[r.Run]; r.Run != "" && !open { // it has ended meanwhile
		s.leaveTells(r.Run)
	}
}

// answerTell makes the state of a message the answer to the comment that said it.
func (s *State) answerTell(t *Tell) {
	if h, known := s.Heard[t.ID]; known {
		h.Answer, h.Done = t.Words(), false
		s.Heard[t.ID] = h
	}
}

// ToldTo returns the messages to a session, oldest first.
func (s *State) ToldTo(run string) (list []SaidTell) {
	for _, t := range s.Tells {
		if t.Run == run {
			list = append(list, t)
		}
	}
	return list
}

// heardBy counts the messages that a session has heard.
func (s *State) heardBy(run string) (n int) {
	for _, t := range s.ToldTo(run) {
		if !t.Heard.IsZero() {
			n++
		}
	}
	return n
}

// leaveTells forgets the messages that a session has heard, and leaves the others to the next one.
func (s *State) leaveTells(run string) {
	s.Tells = slices.DeleteFunc(s.Tells, func(t SaidTell) bool { return t.Run == run && !t.Heard.IsZero() })
	for i := range s.Tells {
		if t := &s.Tells[i].Tell; t.Run == run {
			t.Run = ""
			s.answerTell(t)
		}
	}
}

// takeTells gives a session the messages that are left on its chain.
func (s *State) takeTells(r *Start) {
	if !r.Item.Kind.Writes() || r.Item.Kind == agents.KindSchedule {
		return
	}
	for i := range s.Tells {
		t := &s.Tells[i].Tell
		if t.Run == "" && t.Chain == r.Chain && len(s.ToldTo(r.Run)) < agents.MostMessages {
			t.Run, t.Agent = r.Run, r.Agent
		}
	}
}

// compactTells is Compact for messages. One that no session has heard in three days is forgotten.
func (s *State) compactTells(now time.Time) (list []Record) {
	for _, t := range s.Tells {
		if t.Run != "" || now.Sub(t.At) < heardFor {
			list = append(list, Record{At: t.At, Tell: &t.Tell})
		}
	}
	return list
}
