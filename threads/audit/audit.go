// Package audit has the receipts of sessions: what one says, how each holds the hash of the one before, and where a
// chain of them is broken. It reads and writes no files.
package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// Version is that of the receipts that this program writes. They only grow.
const Version = 1

// MaxReceipt bounds a receipt in bytes. A full one takes a quarter of it.
const MaxReceipt = 128 << 10

// Receipt tells what one session did. A nil pointer means that it is not known.
type Receipt struct {
	Version int `json:"version"`
	// N counts the receipts of a state directory from 1. Prev is the hash of the one before, of the first its genesis.
	N    int64  `json:"n"`
	Prev string `json:"prev"`

	Run      string      `json:"run_id"`
	Agent    string      `json:"agent"`
	Role     string      `json:"role"`
	Thread   string      `json:"thread"`
	Model    string      `json:"model,omitempty"` // empty where the agent's program chooses
	Kind     agents.Kind `json:"kind"`
	Item     string      `json:"item"`  // as owner/name#12
	Chain    string      `json:"chain"` // the issue that it is about
	Attempt  int         `json:"attempt"`
	Executor string      `json:"executor,omitempty"` // empty on the supervisor's machine
	Place    string      `json:"place,omitempty"`    // where an executor elsewhere ran it
	Sandbox  string      `json:"sandbox,omitempty"`  // what held it; empty without one

	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	Ran       *bool     `json:"ran"` // whether its program began

	Outcome agents.Result `json:"outcome"`
	Reason  string        `json:"reason,omitempty"`
	Verdict string        `json:"verdict,omitempty"` // of a review
	Exit    *string       `json:"exit"`              // an exit code, or the signal that ended it
	Result  *string       `json:"result_sha256"`     // of the result that the program left, as it was

	Usage      *agents.Usage   `json:"usage"`
	CPUSeconds *float64        `json:"cpu_seconds"`
	PeakMemory *int64          `json:"peak_memory_bytes"` // of the largest process
	Processes  agents.Sighting `json:"processes"`
	Hosts      agents.Sighting `json:"hosts"`
	Files      agents.Sighting `json:"files_outside"` // of the workspace
}

// Head is the newest receipt of a chain; the zero value that of a chain without one.
type Head struct {
	N    int64  `json:"n"`
	Hash string `json:"sha256"`
}

// Pruned tells which receipts were removed for their age: those up to Head. Lost counts the receipts among them that
// were already missing then, or did not follow from the one before.
type Pruned struct {
	Head
	Lost int64 `json:"lost,omitempty"`
}

// Follows reports whether a receipt follows from another one, or from the genesis of a state directory.
func (r *Receipt) Follows(head Head, instance string) bool {
	prev := head.Hash
	if head.N == 0 {
		prev = Genesis(instance)
	}
	return r.N == head.N+1 && r.Prev == prev
}

// Text is the receipt as it is stored and hashed.
func (r *Receipt) Text() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(r)
	return b.Bytes(), err
}

// Read reads the text of a receipt.
func Read(text []byte) (*Receipt, error) {
	r := new(Receipt)
	if len(text) > MaxReceipt {
		return nil, fmt.Errorf("it is longer than %d bytes", MaxReceipt)
	}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("it is not the JSON of a receipt: %w", err)
	}
	if r.Version < 1 || r.N < 1 || r.Run == "" || r.Prev == "" {
		return nil, errors.New("it is not a whole receipt")
	}
	return r, nil
}

// Hash is that of a stored receipt.
func Hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Genesis stands in the first receipt of a state directory for the hash of the one before.
func Genesis(instance string) string { return "genesis " + instance }

var namePattern = regexp.MustCompile(`^([0-9]{10})-([a-z0-9][a-z0-9-]*)\.json$`)

// Name is the name of a receipt's file. Files sort as their receipts follow each other.
func Name(n int64, run string) string { return fmt.Sprintf("%010d-%s.json", n, run) }

// ReadName undoes Name; ok is false for a file that is no receipt.
func ReadName(name string) (n int64, run string, ok bool) {
	m := namePattern.FindStringSubmatch(name)
	if m == nil || len(name) > 255 {
		return 0, "", false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	return n, m[2], err == nil && n > 0
}
