package main

import (
	"encoding/json"
	"slices"
	"testing"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/supervisor"
)

// Another version may have written the document. An accepted document has a known version and is consistent.
func FuzzReadLegacy(f *testing.F) {
	for _, text := range []string{
		`{}`, `null`, `[]`, `{"supervisor":{"version":1}}`, `{"supervisor":{"version":99}}`,
		`{"supervisor":{"version":1,"sessions":[{"run":"a"}]},"process":{},"lock":-1,"plugs":{"x":-3},"bell":-1}`,
		`{"supervisor":{"version":1,"sessions":null},"process":{"sessions":[{"run":"a"},{"run":"a"}]},"lock":3,"plugs":null}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) {
			t.Skip("not JSON")
		}
		letter, err := process.SealState(json.RawMessage(text))
		if err != nil {
			t.Fatal(err)
		}
		defer letter.Close()
		l, err := readImageState(letter)
		if err != nil {
			return
		}
		if v := l.Supervisor.Version; v < 1 || v > supervisor.HandoverVersion ||
			!slices.Equal(l.Process.Runs(), l.Supervisor.Runs()) {
			t.Errorf("readLegacy accepted %s", text)
		}
	})
}
