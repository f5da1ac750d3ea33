// Package journal keeps a state directory: the file of the ledger's records, the lock that makes one supervisor its
// owner, and the identity that its runs begin with.
//
// A record is on the disk, synced, before what it says is acted on. A full disk, a torn line and a crash between any
// two system calls lose nothing that was acted on.
package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/threads/ledger"
	"golang.org/x/sys/unix"
)

// compactSize is when a growing journal is compacted while the supervisor runs, in bytes: some ten thousand sessions.
// At start it always is.
const compactSize = 4 << 20

// journalRoom is the space kept free behind the journal's last line, in bytes: some thousand ends of sessions. What
// begins needs it to be there; what ends is written into it. Without it the first line after a full disk that happens
// to be short would pass for a disk with room, and the next one would fail again.
const journalRoom = 256 << 10

// File is the journal of a state directory. Its methods may be called by any goroutine.
type File struct {
	// Synced is told how long the disk took for each write, while the journal is locked. Nil is not called; set it before
	// the first write.
	Synced func(took time.Duration)

	path    string
	corrupt []span // lines that were not understood when it was opened

	// mu keeps lines whole and in the order in which they come true, so it alone of all locks is held during I/O. The
	// supervisor's own lock is taken inside it, never the other way round.
	mu      sync.Mutex
	file    *os.File
	size    int64  // of the whole lines in the file
	torn    bool   // behind them stands a part of a line that could not be taken back
	owed    []byte // lines of what is true already and could not be written yet
	compact int64  // the size after the newest compaction
}

// Open opens the journal of a state directory, or begins one, and calls record with each of its records. corrupt is the
// number of lines that are not understood. A last line that a crash has torn is no loss, because nothing was done about
// it yet.
func Open(dir string, record func(ledger.Record)) (j *File, corrupt int, err error) {
	j = &File{path: filepath.Join(dir, "journal.jsonl")}
	j.file, err = os.OpenFile(j.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, 0, fmt.Errorf("cannot open the journal: %w", err)
	}
	if err = j.read(record); err != nil {
		j.file.Close()
		return nil, 0, err
	}
	for _, s := range j.corrupt {
		corrupt += s.lines
	}
	return j, corrupt, nil
}

// read is Open once the file is open.
func (j *File) read(record func(ledger.Record)) error {
	err := ledger.Read(j.file, record, func(from, to int64) {
		if last := len(j.corrupt) - 1; last >= 0 && j.corrupt[last].to == from {
			j.corrupt[last].to, j.corrupt[last].lines = to, j.corrupt[last].lines+1
			return
		}
		j.corrupt = append(j.corrupt, span{from, to, 1})
	})
	if err != nil {
		return err
	}
	if j.size, err = j.file.Seek(0, io.SeekEnd); err == nil && j.size > 0 {
		var last [1]byte
		_, err = j.file.ReadAt(last[:], j.size-1)
		j.torn = last[0] != '\n'
	}
	var first [1]byte
	if n, _ := j.file.ReadAt(first[:], 0); n == 1 && first[0] == 0 && len(j.corrupt) == 0 {
		j.corrupt = []span{{0, j.size, 1}} // nothing but NULs, as a power cut leaves it: no torn line, but all that was known
	}
	if err != nil {
		return fmt.Errorf("cannot read the journal: %w", err)
	}
	return nil
}

// span is a place in the file, and how many lines are there.
type span struct {
	from, to int64
	lines    int
}

// SetAside keeps the lines that were not understood for a person to look at. They stay in the journal until it is
// compacted, so a crash in between sets them aside twice and loses none.
func (j *File) SetAside() error {
	name := filepath.Join(filepath.Dir(j.path), "journal.corrupt")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		for _, s := range j.corrupt {
			_, copied := io.Copy(f, io.NewSectionReader(j.file, s.from, s.to-s.from))
			err = errors.Join(err, copied)
		}
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("cannot set corrupt lines of the journal aside: %w", err)
	}
	return nil
}

// Append writes a record, and calls apply when it is on the disk and before any later record can be. After an error
// nothing happened.
func (j *File) Append(r ledger.Record, apply func()) error {
	line, err := encode(r)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	err = j.reserve()
	if err == nil {
		err = j.write(line)
	}
	if err != nil {
		return fmt.Errorf("cannot write the journal: %w", err)
	}
	apply()
	return nil
}

// encode returns a record as a line, unless it would be one that Read does not read.
func encode(r ledger.Record) ([]byte, error) {
	line, err := json.Marshal(r)
	if err == nil && len(line) >= ledger.LineLimit {
		err = fmt.Errorf("it has %d bytes, and a line may have %d", len(line), ledger.LineLimit)
	}
	if err != nil {
		return nil, fmt.Errorf("internal error: cannot encode a journal record: %w", err)
	}
	return append(line, '\n'), nil
}

// HasRoom returns why nothing may begin: the disk has no room for the lines that would follow.
func (j *File) HasRoom() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.reserve(); err != nil {
		return fmt.Errorf("cannot write the journal: %w", err)
	}
	return nil
}

// reserve has the disk keep room behind the last line. A filesystem that cannot promise any is taken at its word when a
// line is written. mu must be held.
func (j *File) reserve() error {
	err := unix.Fallocate(int(j.file.Fd()), unix.FALLOC_FL_KEEP_SIZE, j.size, journalRoom)
	if err == unix.ENOSPC || err == unix.EDQUOT {
		return err
	}
	return nil
}

// Note is Append for an event that has happened already, such as the end of a session: it calls apply in any case. A
// line that could not be written is owed, and goes before the next one. The error is for people only.
func (j *File) Note(r ledger.Record, apply func()) error {
	line, err := encode(r)
	j.mu.Lock()
	defer j.mu.Unlock()
	defer apply()
	if err != nil {
		return err
	}
	if err := j.write(line); err != nil {
		j.owed = append(j.owed, line...)
		return fmt.Errorf("cannot write the journal: %w", err)
	}
	return nil
}

// Settle writes the lines that are owed, and returns why nothing more can be written.
func (j *File) Settle() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	err := j.reserve()
	if err == nil {
		err = j.write(nil)
	}
	if err != nil {
		return fmt.Errorf("cannot write the journal: %w", err)
	}
	return nil
}

// sync waits until what was written is on the disk. mu must be held.
func (j *File) sync() error {
	began := time.Now()
	err := j.file.Sync()
	if j.Synced != nil {
		j.Synced(time.Since(began))
	}
	return err
}

// write appends whole lines, those that are owed first. mu must be held.
func (j *File) write(lines []byte) error {
	text := append(bytes.Clone(j.owed), lines...)
	if j.torn {
		text = append([]byte("\n"), text...) // closes the torn line, which becomes a corrupt one
	}
	_, err := j.file.Write(text)
	if err == nil {
		err = j.sync()
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

// Rewrite replaces the journal by the records that dump returns, which have the same meaning. dump is called while
// nothing else can be written. A crash leaves the old file or the new.
func (j *File) Rewrite(dump func() iter.Seq[ledger.Record]) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.replace(dump()); err != nil {
		return fmt.Errorf("cannot compact the journal: %w", err)
	}
	return nil
}

// replace is Rewrite with mu held.
func (j *File) replace(records iter.Seq[ledger.Record]) error {
	f, err := os.OpenFile(j.path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	size, skipped, err := fill(f, records)
	if err = errors.Join(err, f.Sync()); err == nil {
		err = os.Rename(f.Name(), j.path)
	}
	if err != nil {
		f.Close()
		return err
	}
	// From here on the new file is the journal, whatever happens: lines must not go to the old one.
	j.file.Close()
	j.file, j.size, j.compact = f, size, size
	j.torn, j.owed = false, nil
	return errors.Join(skipped, plainfile.SyncFolder(filepath.Dir(j.path)))
}

// fill writes records to a file, and returns their size. It skips those that cannot be encoded: one must not keep the
// journal growing for ever.
func fill(f *os.File, records iter.Seq[ledger.Record]) (size int64, skipped, err error) {
	out := bufio.NewWriterSize(f, 64<<10)
	for r := range records {
		line, bad := encode(r)
		if bad != nil {
			skipped = errors.Join(skipped, bad)
			continue
		}
		size += int64(len(line))
		if _, err := out.Write(line); err != nil {
			return 0, nil, err
		}
	}
	return size, skipped, out.Flush()
}

// Oversize reports whether the journal has grown enough to be worth a compaction: it is at most twice as long as what
// it says, or compactSize.
func (j *File) Oversize() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size > max(compactSize, 2*j.compact)
}

// Still keeps every other method waiting until resume is called, so that nothing that counts can happen meanwhile. owed
// reports whether lines of the past could not be written yet.
func (j *File) Still() (owed bool, resume func()) {
	j.mu.Lock()
	return len(j.owed) > 0, j.mu.Unlock
}

// Close closes the file. Nothing may be written after it.
func (j *File) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file.Close()
}
