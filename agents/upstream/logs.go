package upstream

import (
	"io"
	"os"
	"path/filepath"
)

// Logs copies the log files of upstream's scripts from an agent's home. The scripts print nearly nothing to stdout, so
// the session's log would otherwise be empty. A Logs is for one goroutine.
type Logs struct {
	dir  string
	read map[string]int64 // copied bytes of each file
}

// NewLogs returns the logs of a home. Their current content counts as copied.
func NewLogs(home string) *Logs {
	l := &Logs{dir: filepath.Join(home, "data", "logs"), read: map[string]int64{}}
	_ = l.Copy(io.Discard)
	return l
}

// Copy writes the text added since the last call, file by file. It skips a file that no longer exists.
func (l *Logs) Copy(w io.Writer) error {
	paths, err := filepath.Glob(filepath.Join(l.dir, "*", "*.log"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := l.copyOne(w, path); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

func (l *Logs) copyOne(w io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	from := l.read[path]
	if info.Size() < from { // rotated
		from = 0
	}
	n, err := io.Copy(w, io.NewSectionReader(file, from, info.Size()-from))
	l.read[path] = from + n
	return err
}
