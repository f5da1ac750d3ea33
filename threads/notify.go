package threads

import (
	"fmt"
	"slices"

	"codeberg.org/johba/disinto/agents"
)

// Notify is the [notify] table: the recipients and the topics of messages.
type Notify struct {
	To []Recipient // in the order of the file
	On []Topic     // sorted
}

// Topic is the subject of messages.
type Topic string

// The topics of messages.
const (
	NotifyNeedsHuman Topic = "needs-human" // an item, an agent or the factory itself waits for a person
	NotifyMerged     Topic = "merged"      // the supervisor merged a pull request
	NotifyParked     Topic = "parked"      // a thread starts nothing until a time
	NotifyBudget     Topic = "budget"      // the day's budget of an agent or a thread is used up
	NotifyDown       Topic = "down"        // the forge does not answer
)

// Topics are all topics, in the order in which factory.toml lists them.
var Topics = []Topic{NotifyNeedsHuman, NotifyMerged, NotifyParked, NotifyBudget, NotifyDown}

// Recipient is one of the urls of [notify], taken apart.
type Recipient struct {
	Number   int           // its place among urls, from 1
	Kind     RecipientKind // the protocol
	Host     string        // with its port where the url has one; not secret
	URL      agents.Secret // as configured; two recipients with the same url are the same
	Endpoint agents.Secret // the http address of requests; for mail, host:port of the server
	User     string
	Password agents.Secret // a token if User is empty
	From     string        // the sender of mail
	To       []string      // addresses of mail, rooms of Matrix, the topic of ntfy; empty for others
}

// RecipientKind is a way to send messages.
type RecipientKind string

// The kinds of recipients. Generic receives JSON.
const (
	Ntfy    RecipientKind = "ntfy"
	Matrix  RecipientKind = "matrix"
	Mail    RecipientKind = "smtp"
	Generic RecipientKind = "generic"
)

// String names a recipient without its secrets.
func (r *Recipient) String() string {
	return fmt.Sprintf("url %d of [notify] (%s %s)", r.Number, r.Kind, r.Host)
}

// Has reports whether messages about a topic are wanted.
func (n *Notify) Has(t Topic) bool { return slices.Contains(n.On, t) }
