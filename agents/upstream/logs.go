package upstream

import (
	"io"
	"os"
	"path/filepath"
)

// Logs are the log files of upstream's scripts in an agent's home. They print next to nothing elsewhere, and who asks for an
// agent's log wants to see them.
type Logs struct {
	dir  string
	read map[string]int64 // how much of each file is known, in bytes
}

// NewLogs knows what is in the files by now.
func NewLogs(home string) *Logs {
	l := &Logs{dir: filepath.Join(home, "data", "logs"), read: map[string]int64{}}
	_ = l.Copy(io.Discard)
	return l
}

// Copy writes what has come since, file by file.
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
	if info.Size() < from { // moved away, and begun anew
		from = 0
	}
	n, err := io.Copy(w, io.NewSectionReader(file, from, info.Size()-from))
	l.read[path] = from + n
	return err
}
