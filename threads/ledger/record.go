package ledger

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
)

// Record is one line of the journal: a time, and exactly one event or, in a compacted journal, one fact. Field names
// and their order are a contract with older and newer versions: fields are added, never renamed or removed.
type Record struct {
	At time.Time `json:"at"`

	// Events.
	Start    *Start    `json:"start,omitempty"`
	End      *End      `json:"end,omitempty"`
	Released *Released `json:"released,omitempty"`
	Blocked  *Blocked  `json:"blocked,omitempty"`
	Handed   *Handed   `json:"handed,omitempty"`
	Told     *Told     `json:"told,omitempty"`
	Asked    *Asked    `json:"asked,omitempty"`
	Answered *Answered `json:"answered,omitempty"`
	Forget   *Forget   `json:"forget,omitempty"`
	Steal    *Steal    `json:"steal,omitempty"`
	Merged   *Merged   `json:"merged,omitempty"`
	Free     *Free     `json:"free,omitempty"`
	Listen   *Listen   `json:"listen,omitempty"`
	Heard    *Heard    `json:"heard,omitempty"`
	Tell     *Tell     `json:"tell,omitempty"`
	Used     *Used     `json:"used,omitempty"`
	Sent     *Sent     `json:"sent,omitempty"`
	Placed   *Placed   `json:"placed,omitempty"`
	Stop     *Stop     `json:"stop,omitempty"`
	Service  *Service  `json:"service,omitempty"`
	Receipt  *Receipt  `json:"receipt,omitempty"`
	NoMerge  *NoMerge  `json:"no_merge,omitempty"`
	Carried  *Carried  `json:"carried,omitempty"`

	// Commands of people. A pause is also a fact.
	Pause  *Pause  `json:"pause,omitempty"`
	Cancel *Cancel `json:"cancel,omitempty"`
	Retry  *Retry  `json:"retry,omitempty"`

	Renamed *Renamed `json:"renamed,omitempty"` // by a new configuration

	// Facts, which only compaction writes.
	Open   *Reopened `json:"open,omitempty"`
	Chain  *Chain    `json:"chain,omitempty"`
	Item   *Item     `json:"item,omitempty"`
	Agent  *Agent    `json:"agent,omitempty"`
	Thread *Thread   `json:"thread,omitempty"`
	Slot   *Slot     `json:"slot,omitempty"`
	Author *Author   `json:"author,omitempty"`
	Toll   *Toll     `json:"toll,omitempty"`
	Opened *Opened   `json:"opened,omitempty"`
	Repo   *Repo     `json:"repo,omitempty"`
	Recent *Recent   `json:"recent,omitempty"`
	Past   *Past     `json:"past,omitempty"`
	Day    *Day      `json:"day,omitempty"`
	Parked *Parked   `json:"parked,omitempty"`

	Failing *Failing `json:"failing,omitempty"`
}

// Ref is a forge.Ref in a journal line, written as people write it. It is a type of its own because forge.Issue and
// forge.Pull embed a forge.Ref: its MarshalText would be promoted, and encode them as their reference only.
type Ref forge.Ref

// MarshalText writes owner/name#12.
func (r Ref) MarshalText() ([]byte, error) { return []byte(forge.Ref(r).String()), nil }

// UnmarshalText reads owner/name#12, and owner/name for the repository itself.
func (r *Ref) UnmarshalText(text []byte) error {
	repo, number, numbered := strings.Cut(string(text), "#")
	*r = Ref{Repo: repo}
	if !numbered {
		return nil
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 {
		return fmt.Errorf("cannot read %q as an issue", text)
	}
	r.Number = n
	return nil
}

// Key is a threads.Key in a journal line, with a Ref.
type Key struct {
	Kind agents.Kind `json:"kind"`
	Ref  Ref         `json:"ref"`
	Role string      `json:"role,omitempty"`
}

// KeyOf returns the journal's form of a key.
func KeyOf(k threads.Key) Key { return Key{k.Kind, Ref(k.Ref), k.Role} }

// Of returns the scheduler's form of a key.
func (k Key) Of() threads.Key { return threads.Key{Kind: k.Kind, Ref: forge.Ref(k.Ref), Role: k.Role} }

// content is the one event or fact of a record.
type content interface {
	valid() bool // whether it is complete
	apply(s *State, at time.Time)
}

// content returns the event or fact of a record, which is the first field that is set; nil if this version does not
// know it. It uses reflection, so that no new field can be forgotten.
func (r *Record) content() content {
	fields := reflect.ValueOf(r).Elem()
	for i := 1; i < fields.NumField(); i++ {
		if f := fields.Field(i); !f.IsNil() {
			return f.Interface().(content)
		}
	}
	return nil
}

// valid reports whether a record is complete and this version knows its content.
func (r *Record) valid() bool {
	c := r.content()
	return !r.At.IsZero() && c != nil && c.valid()
}
