package notify

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
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
	in, err := os.Open(filepath.Join(f.dir, fileName))
	if err != nil {
		return nil
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, maxFile))
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
	path := filepath.Join(f.dir, fileName)
	if err = os.WriteFile(path+".new", text, 0o600); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil {
		f.last = text
	}
}
