// Package wire writes a snapshot and its plan as JSON for another build of the program. A snapshot that was read back
// gives the same plan.
//
// The documents have the fields of threads.Snapshot and threads.Plan under their Go names, or the names of their JSON
// tags. A map whose keys are not strings is a list of Key and Value. Both sides ignore unknown fields, and new
// versions only add fields: testdata/format.txt has every field. Two things are left out: the bodies of issues, pull
// requests and reviews, which are long and decide nothing, and secrets. A token is "(secret)" or empty.
package wire

import (
	"bytes"
	"encoding/json"
	"fmt"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// EncodeSnapshot writes a snapshot as one line. The snapshot must not change during the call.
func EncodeSnapshot(s *threads.Snapshot) ([]byte, error) {
	config, err := encodeConfig(s.Config)
	if err != nil {
		return nil, fmt.Errorf("cannot encode a snapshot's configuration: %w", err)
	}
	line, err := json.Marshal(fromSnapshot(s, config))
	if err != nil {
		return nil, fmt.Errorf("cannot encode a snapshot: %w", err)
	}
	return line, nil
}

// DecodeSnapshot reads a snapshot.
func DecodeSnapshot(text []byte) (*threads.Snapshot, error) {
	var w snapshot
	if err := json.Unmarshal(text, &w); err != nil {
		return nil, fmt.Errorf("cannot decode a snapshot: %w", err)
	}
	s, err := w.threads()
	if err != nil {
		return nil, fmt.Errorf("cannot decode a snapshot's configuration: %w", err)
	}
	return s, nil
}

// EncodePlan writes a plan as one line.
func EncodePlan(p *threads.Plan) ([]byte, error) {
	line, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("cannot encode a plan: %w", err)
	}
	return line, nil
}

// MaxItems bounds each list of a plan that is read: a few bytes of text take hundreds in memory.
const MaxItems = 100_000

// DecodePlan reads a plan. Every hold in it has a reason.
func DecodePlan(text []byte) (*threads.Plan, error) {
	var lists struct{ Starts, Stops, Merges, Marks, Holds, Unqueued []json.RawMessage }
	if err := json.Unmarshal(text, &lists); err != nil {
		return nil, fmt.Errorf("cannot decode a plan: %w", err)
	}
	longest := max(len(lists.Starts), len(lists.Stops), len(lists.Merges), len(lists.Marks), len(lists.Holds),
		len(lists.Unqueued))
	if longest > MaxItems {
		return nil, fmt.Errorf("cannot decode a plan: a list has %d items, want at most %d", longest, MaxItems)
	}
	var p threads.Plan
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("cannot decode a plan: %w", err)
	}
	for _, list := range [][]*threads.Hold{p.Holds, p.Unqueued} {
		for i, h := range list {
			if h == nil || h.Reason == nil {
				return nil, fmt.Errorf("cannot decode a plan: hold %d has no reason", i)
			}
		}
	}
	return &p, nil
}

// encodeConfig leaves out secrets: recipients of messages, values of secrets, and every place where such a value is
// part of another text, such as a key in an address or a command.
func encodeConfig(c *threads.Config) (json.RawMessage, error) {
	if c == nil {
		return json.RawMessage("null"), nil
	}
	secrets := make([]string, 0, len(c.Secrets))
	for _, s := range c.Secrets {
		secrets = append(secrets, s.Value.Reveal())
	}
	bare := *c
	bare.Secrets, bare.Notify = nil, threads.Notify{}
	text, err := json.Marshal(&bare)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // else a 64-bit number loses digits
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	return json.Marshal(redact(tree, secrets))
}

// redact hides secrets in every text below a value.
func redact(v any, secrets []string) any {
	switch v := v.(type) {
	case string:
		return agents.Redact(v, secrets)
	case []any:
		for i := range v {
			v[i] = redact(v[i], secrets)
		}
	case map[string]any:
		for name := range v {
			v[name] = redact(v[name], secrets)
		}
	}
	return v
}
