package control

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"codeberg.org/johba/disinto/agents/plainfile"
)

// statusName is the name of the status file in the state directory.
const statusName = "status.json"

// StatusFile is the status document on disk, for clients while no supervisor runs. It belongs to one goroutine.
type StatusFile struct {
	path    string
	written *Document // without the fields that every scan changes; nil before the first write
}

// NewStatusFile returns the status file of a state directory. It writes nothing yet.
func NewStatusFile(state string) *StatusFile {
	return &StatusFile{path: filepath.Join(state, statusName)}
}

// Write replaces the file, unless only the time of the scan and the count of requests differ. It keeps the document,
// which must not change any more. It returns only the error of a document that cannot be encoded: on a full disk the
// journal warns people. Unlike the journal the file need not survive a power cut, so it is not synced.
func (f *StatusFile) Write(d *Document) error {
	steady := *d
	steady.Forge.LastScan, steady.Forge.NextScan, steady.Forge.Requests = time.Time{}, time.Time{}, 0
	if reflect.DeepEqual(&steady, f.written) {
		return nil
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	if plainfile.Replace(f.path, append(text, '\n')) == nil {
		f.written = &steady
	}
	return nil
}

// ReadStatusFile returns the document that a state directory's last supervisor wrote, and the time; nil if there is
// none.
func ReadStatusFile(state string) (document json.RawMessage, at time.Time) {
	f, err := plainfile.Open(filepath.Join(state, statusName), os.O_RDONLY)
	if err != nil {
		return nil, time.Time{}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, time.Time{}
	}
	text, err := plainfile.Text(f, maxAnswer)
	if err != nil || !json.Valid(text) {
		return nil, time.Time{}
	}
	return text, info.ModTime()
}
