package supervisor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// compactSize is when a growing journal is compacted while the supervisor runs: some ten thousand sessions. At start it
// always is.
const compactSize = 4 << 20

// journalRoom is what is kept free behind the journal's last line, in bytes: some thousand ends of sessions. What begins
// needs it to be there; what ends is written into it. Without it the first line after a full disk that happens to be short
// would pass for a disk with room, and the next one would fail again.
const journalRoom = 256 << 10

// journal is the file that remembers what the forge cannot. A line is on the disk before what it says is acted on. Its
// methods may be called by any goroutine.
type journal struct {
	path string

	// mu keeps lines whole and in the order in which they come true, so it is held while the file is written. It is taken
	// before the supervisor's, never after.
	mu      sync.Mutex
	file    *os.File
	size    int64  // of the whole lines in the file
	torn    bool   // behind them stands a part of a line that could not be taken back
	owed    []byte // lines of what is true already and could not be written yet
	compact int64  // the size after the newest compaction
}

// openJournal opens the journal of a state directory and reads it. Lines that cannot be understood are returned; the
// last line may be torn by a crash and is then no loss, for nothing was done about it yet.
func openJournal(dir string) (j *journal, records []record, corrupt [][]byte, err error) {
	j = &journal{path: filepath.Join(dir, "journal.jsonl")}
	j.file, err = os.OpenFile(j.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("cannot open the journal: %w", err)
	}
	text, err := io.ReadAll(j.file)
	if err != nil {
		j.file.Close()
		return nil, nil, nil, fmt.Errorf("cannot read the journal: %w", err)
	}
	j.size = int64(len(text))
	j.torn = len(text) > 0 && text[len(text)-1] != '\n'
	records, corrupt = parseJournal(text)
	return j, records, corrupt, nil
}

// parseJournal reads the lines of a journal, and returns those that it does not understand.
func parseJournal(text []byte) (records []record, corrupt [][]byte) {
	for len(text) > 0 {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		text = rest
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var r record
		switch err := json.Unmarshal(line, &r); {
		case err == nil && r.valid():
			records = append(records, r)
		case whole:
			corrupt = append(corrupt, line)
		}
	}
	return records, corrupt
}

// setAside keeps lines that were not understood for a person to look at. They stay in the journal until it is compacted,
// so a crash in between sets them aside twice and loses none.
func (j *journal) setAside(lines [][]byte) error {
	f, err := os.OpenFile(filepath.Join(filepath.Dir(j.path), "journal.corrupt"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, err = f.Write(append(bytes.Join(lines, []byte("\n")), '\n'))
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("cannot set corrupt lines of the journal aside: %w", err)
	}
	return nil
}

// append writes a record, and calls apply when it is on the disk and before any later record can be. After an error
// nothing happened.
func (j *journal) append(r record, apply func()) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("internal error: cannot encode a journal record: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	err = j.reserve()
	if err == nil {
		err = j.write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("cannot write the journal: %w", err)
	}
	apply()
	return nil
}

// hasRoom says why nothing can begin: there is no room for what would follow. Nil means that there is.
func (j *journal) hasRoom() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.reserve(); err != nil {
		return fmt.Errorf("cannot write the journal: %w", err)
	}
	return nil
}

// reserve has the disk keep room behind the last line. A filesystem that cannot promise any is taken at its word when a
// line is written. mu must be held.
func (j *journal) reserve() error {
	err := unix.Fallocate(int(j.file.Fd()), unix.FALLOC_FL_KEEP_SIZE, j.size, journalRoom)
	if err == unix.ENOSPC || err == unix.EDQUOT {
		return err
	}
	return nil
}

// note is append for what is true already, such as the end of a session: it applies in any case. A line that could not
// be written is owed, and goes before the next one.
func (j *journal) note(r record, apply func()) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("internal error: cannot encode a journal record: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	defer apply()
	if err := j.write(append(line, '\n')); err != nil {
		j.owed = append(append(j.owed, line...), '\n')
		return fmt.Errorf("cannot write the journal: %w", err)
	}
	return nil
}

// write appends whole lines, those that are owed first. mu must be held.
func (j *journal) write(lines []byte) error {
	text := append(bytes.Clone(j.owed), lines...)
	if j.torn {
		text = append([]byte("\n"), text...) // closes the torn line, which becomes a corrupt one
	}
	_, err := j.file.Write(text)
	if err == nil {
		err = j.file.Sync()
	}
	if err != nil {
		// What a failed write or sync left behind is not known. Take it back; where even that fails, fence it off.
		j.torn = j.file.Truncate(j.size) != nil || j.torn
		return err
	}
	if j.torn {
		// The fence and the torn line before it are in the file now; only the end is known.
		end, err := j.file.Seek(0, io.SeekEnd)
		if err != nil {
			return err
		}
		j.torn, j.size, j.owed = false, end, nil
		return nil
	}
	j.size += int64(len(text))
	j.owed = nil
	return nil
}

// rewrite replaces the journal by the shortest one with the same meaning, which dump returns. A crash leaves the old
// file or the new.
func (j *journal) rewrite(dump func() []record) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.replace(dump()); err != nil {
		return fmt.Errorf("cannot compact the journal: %w", err)
	}
	return nil
}

// replace is rewrite with mu held.
func (j *journal) replace(records []record) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	for _, r := range records {
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("internal error: %w", err)
		}
	}
	f, err := os.OpenFile(j.path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text.Bytes())
	if err = errors.Join(err, f.Sync()); err == nil {
		err = os.Rename(f.Name(), j.path)
	}
	if err != nil {
		f.Close()
		return err
	}
	// From here on the new file is the journal, whatever happens: lines must not go to the old one.
	j.file.Close()
	j.file, j.size, j.compact = f, int64(text.Len()), int64(text.Len())
	j.torn, j.owed = false, nil
	return syncDir(filepath.Dir(j.path))
}

// oversize reports whether the journal has grown enough to be worth a compaction.
func (j *journal) oversize() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size > compactSize && j.size > 4*j.compact
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file.Close()
}
