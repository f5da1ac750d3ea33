// Package audit has the receipts of sessions: their content, the chain in which each has the hash of the one before,
// and the check of that chain. It reads and writes no files.
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

// Version is the version of the receipts that this program writes. New versions only add fields.
const Version = 1

// MaxReceipt bounds a receipt in bytes. A full receipt takes a quarter of it.
const MaxReceipt = 128 << 10

// Receipt records what one session did. A nil pointer means unknown.
type Receipt struct {
	Version int `json:"version"`
	// N counts the receipts of a state directory from 1. Prev is the hash of the one before; the first has a genesis
	// instead.
	N    int64  `json:"n"`
	Prev string `json:"prev"`

	Run      string      `json:"run_id"`
	Agent    string      `json:"agent"`
	Role     string      `json:"role"`
	Thread   string      `json:"thread"`
	Model    string      `json:"model,omitempty"` // empty if the agent's program chooses
	Kind     agents.Kind `json:"kind"`
	Item     string      `json:"item"`  // as owner/name#12
	Chain    string      `json:"chain"` // the issue that the session was for
	Attempt  int         `json:"attempt"`
	Executor string      `json:"executor,omitempty"` // empty on the supervisor's machine
	Place    string      `json:"place,omitempty"`    // the place where an executor elsewhere ran it
	Sandbox  string      `json:"sandbox,omitempty"`  // the sandbox that held it; empty without one

	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	Ran       *bool     `json:"ran"` // whether its program started

	Outcome agents.Result `json:"outcome"`
	Reason  string        `json:"reason,omitempty"`
	Verdict string        `json:"verdict,omitempty"` // of a review
	Exit    *string       `json:"exit"`              // exit code, or the signal that ended the program
	Result  *string       `json:"result_sha256"`     // of the program's result file, unchanged

	Steps    []agents.Step    `json:"steps,omitempty"`    // the commands that ran beside the agent
	Verified *agents.Verified `json:"verified,omitempty"` // absent if the work was not verified
	Refused  agents.Refusals  `json:"refused,omitempty"`  // the hosts that its egress did not allow

	Told []agents.Message `json:"told,omitempty"` // by people while it ran

	Usage      *agents.Usage   `json:"usage"`
	CPUSeconds *float64        `json:"cpu_seconds"`
	PeakMemory *int64          `json:"peak_memory_bytes"` // of the largest process
	Processes  agents.Sighting `json:"processes"`
	Hosts      agents.Sighting `json:"hosts"`
	Files      agents.Sighting `json:"files_outside"` // of the workspace
}

// Head is the newest receipt of a chain; the zero value is the head of an empty chain.
type Head struct {
	N    int64  `json:"n"`
	Hash string `json:"sha256"`
}

// Pruned records which receipts were removed because of their age: those up to Head. Lost counts those of them that
// were missing before that, or did not follow from the one before.
type Pruned struct {
	Head
	Lost int64 `json:"lost,omitempty"`
}

// Follows reports whether a receipt follows from a head, or from the genesis of a state directory.
func (r *Receipt) Follows(head Head, instance string) bool {
	prev := head.Hash
	if head.N == 0 {
		prev = Genesis(instance)
	}
	return r.N == head.N+1 && r.Prev == prev
}

// Text returns the receipt as it is stored and hashed.
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

// Hash returns the hash of a stored receipt.
func Hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Genesis returns the text that the first receipt of a state directory has instead of a previous hash.
func Genesis(instance string) string { return "genesis " + instance }

var namePattern = regexp.MustCompile(`^([0-9]{10})-([a-z0-9][a-z0-9-]*)\.json$`)

// Name returns the name of a receipt's file. Names sort in the order of their receipts.
func Name(n int64, run string) string { return fmt.Sprintf("%010d-%s.json", n, run) }

// ReadName undoes Name. ok is false for the name of another file.
func ReadName(name string) (n int64, run string, ok bool) {
	m := namePattern.FindStringSubmatch(name)
	if m == nil || len(name) > 255 {
		return 0, "", false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	return n, m[2], err == nil && n > 0
}
