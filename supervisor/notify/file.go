package notify

import (
	"bytes"
	"encoding/json"
	"path/filepath"

	"codeberg.org/johba/disinto/agents/plainfile"
)

const (
	// fileName is the file in the state directory.
	fileName = "notified.json"
	// maxFile bounds the file, in bytes; maxCauses causes fit.
	maxFile = 4 << 20
)

// sentFile stores the causes sent, for the next supervisor. Without the file, active causes are sent once more. It
// belongs to one goroutine.
type sentFile struct {
	dir  string
	last []byte
}

// read returns the causes that the last supervisor sent; nil if the file cannot be read.
func (f *sentFile) read() (list []line) {
	text, err := plainfile.Read(filepath.Join(f.dir, fileName), maxFile)
	if err != nil || json.Unmarshal(text, &list) != nil {
		return nil
	}
	f.last = text
	return list
}

// write replaces the file if its content changed. A failure at worst repeats messages, and the journal reports a full
// disk.
func (f *sentFile) write(list []line) {
	text, err := json.Marshal(list)
	if err != nil || list == nil || bytes.Equal(text, f.last) {
		return
	}
	if plainfile.Replace(filepath.Join(f.dir, fileName), text) == nil {
		f.last = text
	}
}
