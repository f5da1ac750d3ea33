package agents

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
)

const (
	// MostMessages is how many messages people may tell one session, and MaxMessage the longest one in bytes.
	MostMessages = 5
	MaxMessage   = forge.MaxText
	// InboxVar names the file with the messages that people tell the session while it runs.
	InboxVar = "DISINTO_INBOX"
)

// Message is what a person told a running session.
type Message struct {
	At    time.Time `json:"at"`
	By    string    `json:"by,omitempty"` // a login on the forge; empty for whoever steers the factory itself
	Text  string    `json:"text"`
	Heard time.Time `json:"heard,omitzero"` // zero if the session has not heard it so far
}

// Author names the author of a message.
func (m *Message) Author() string {
	if m.By == "" {
		return "the operator"
	}
	return m.By
}

// InboxPath returns the path of a session's inbox, which is beside its result.
func InboxPath(result string) string { return strings.TrimSuffix(result, ".json") + ".inbox" }

// FormatInbox returns the text of an inbox, and ParseInbox decodes it: all messages to a session, oldest first.
func FormatInbox(list []Message) ([]byte, error) { return json.Marshal(list) }

// ParseInbox is the opposite of FormatInbox.
func ParseInbox(text []byte) (list []Message, err error) {
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("cannot read an inbox: %w", err)
	}
	return list, nil
}
