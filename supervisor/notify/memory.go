package notify

import (
	"bytes"
	"encoding/json"
	"path/filepath"

	"codeberg.org/johba/disinto/agents/plainfile"
)

const (
	// fileName is in the state directory.
	fileName = "notified.json"
	// maxFile is more than maxCauses take.
	maxFile = 4 << 20
)

// memory keeps what was told from one supervisor to the next. Without it, what stands is told once more. It belongs to
// one goroutine.
type memory struct {
	dir  string
	last []byte
}

// read returns what the last supervisor told; nothing where that cannot be read.
func (f *memory) read() (list []line) {
	text, err := plainfile.Read(filepath.Join(f.dir, fileName), maxFile)
	if err != nil || json.Unmarshal(text, &list) != nil {
		return nil
	}
	f.last = text
	return list
}

// write replaces the file where it changed. A failure costs a repetition at most, and the journal tells of a full disk.
func (f *memory) write(list []line) {
	text, err := json.Marshal(list)
	if err != nil || list == nil || bytes.Equal(text, f.last) {
		return
	}
	if plainfile.Replace(filepath.Join(f.dir, fileName), text) == nil {
		f.last = text
	}
}
