// Package journal keeps a state directory: the file of the ledger's records, the lock that gives one supervisor the
// directory, and the instance id with which its run ids start.
//
// The supervisor acts on a record only after the record is on the disk, synced. A full disk, a torn line and a crash
// between any two system calls lose nothing that the supervisor acted on.
package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"time"

	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/threads/ledger"
	"golang.org/x/sys/unix"
)

// FileName is the name of the journal in its directory.
const FileName = "journal.jsonl"

// compactSize is the size at which a growing journal is compacted while the supervisor runs, in bytes: some ten
// thousand sessions. At the supervisor's start it is always compacted.
const compactSize = 4 << 20

// journalRoom is the space kept free after the journal's last line, in bytes: enough for some thousand ends of
// sessions. A start requires that space, and an end may use it. Otherwise, on a full disk, a short line that happens
// to fit would look like free space, and the next line would fail again.
const journalRoom = 256 << 10

// File is the journal of a state directory. Its methods may be called by any goroutine.
type File struct {
	// Synced receives how long the disk took for each sync, while the journal is locked. It may be nil; set it before
	// the first write.
	Synced func(took time.Duration)

	path    string
	corrupt []span // lines that could not be parsed when the file was opened
	newer   string // a kind of record among them that only a newer version knows; empty without one

	queue queue

	// mu keeps lines whole and in the order of their events, so it is the only lock held during I/O. The supervisor's
	// own lock is taken inside mu, never the other way round.
	mu      sync.Mutex
	file    *os.File
	size    int64  // of the whole lines in the file
	torn    bool   // after them is a partial line that could not be removed
	owed    []byte // lines of past events that could not be written yet
	compact int64  // the size after the newest compaction
}

// Open opens or creates the journal of a state directory, and calls record with each of its records. corrupt is the
// number of lines that cannot be parsed. A last line that a crash has torn is not a loss, because nothing acted on it.
func Open(dir string, record func(ledger.Record)) (j *File, corrupt int, err error) {
	j = &File{path: filepath.Join(dir, FileName)}
	j.file, err = plainfile.Open(j.path, os.O_RDWR|os.O_CREATE|os.O_APPEND)
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

// ReadOnly opens the journal of a state directory for reading. A link is refused like everything else that is not a
// plain file.
func ReadOnly(dir string) (*os.File, error) {
	return plainfile.Open(filepath.Join(dir, FileName), os.O_RDONLY)
}

// read reads the records of the open file, as Open documents.
func (j *File) read(record func(ledger.Record)) error {
	err := ledger.Read(&patient{f: j.file}, record, func(from, to int64) {
		if j.newer == "" {
			j.newer = UnknownAt(j.file, from, to)
		}
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
		j.corrupt = []span{{0, j.size, 1}} // only NULs, after a power cut: not one torn line, but the whole journal
	}
	if err != nil {
		return fmt.Errorf("cannot read the journal: %w", err)
	}
	return nil
}

// Newer returns a kind of record that only a newer version of the program knows, if the journal has one.
func (j *File) Newer() (kind string) { return j.newer }

// UnknownAt is ledger.Unknown for a line of a file, of which from and to are the ends.
func UnknownAt(file io.ReaderAt, from, to int64) (kind string) {
	if to-from > ledger.LineLimit {
		return ""
	}
	line := make([]byte, to-from)
	if _, err := file.ReadAt(line, from); err != nil {
		return ""
	}
	return ledger.Unknown(line)
}

// Exists reports whether a state directory has a journal.
func Exists(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, FileName))
	return !errors.Is(err, fs.ErrNotExist)
}

// span is a range of the file, and its number of lines.
type span struct {
	from, to int64
	lines    int
}

// maxAside bounds the file of corrupt lines, in bytes: four times the size at which a journal is compacted.
const maxAside = 4 * compactSize

// SetAside keeps the corrupt lines for a person, as far as maxAside allows: 8 GB of NULs would fill the disk. They stay
// in the journal until its compaction, so a crash before that sets them aside twice and loses none.
func (j *File) SetAside() error {
	name := filepath.Join(filepath.Dir(j.path), "journal.corrupt")
	f, err := plainfile.Open(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE)
	if err == nil {
		end, failed := f.Seek(0, io.SeekEnd)
		err = failed
		for _, s := range j.corrupt {
			n, copied := io.Copy(f, io.NewSectionReader(j.file, s.from, min(s.to-s.from, max(0, maxAside-end))))
			end, err = end+n, errors.Join(err, copied)
		}
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("cannot set corrupt lines of the journal aside: %w", err)
	}
	return nil
}

// Append writes a record. It calls apply once the record is on the disk, in the order of the lines. After an error
// nothing has changed.
func (j *File) Append(r ledger.Record, apply func()) error {
	line, err := encode(r)
	if err != nil {
		return err
	}
	return j.commit(&entry{line: line, apply: apply})
}

// encode returns a record as a line, unless Read would refuse the line.
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

// HasRoom returns why nothing may start: the disk has no room for the lines that would follow.
func (j *File) HasRoom() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.reserve(); err != nil {
		return fmt.Errorf("cannot write the journal: %w", err)
	}
	return nil
}

// reserve makes the disk keep room after the last line. A filesystem that cannot reserve room is trusted until a
// write fails. mu must be held.
func (j *File) reserve() error {
	err := unix.Fallocate(int(j.file.Fd()), unix.FALLOC_FL_KEEP_SIZE, j.size, journalRoom)
	if err == unix.ENOSPC || err == unix.EDQUOT {
		return err
	}
	return nil
}

// AppendPast writes the record of a past event, such as the end of a session. It calls apply even if the write fails:
// then the line is kept, and is written before the next one. The error is for people only.
func (j *File) AppendPast(r ledger.Record, apply func()) error {
	line, err := encode(r)
	return errors.Join(err, j.commit(&entry{line: line, past: true, apply: apply}))
}

// WriteOwed writes the lines that are owed. It returns why no more can be written.
func (j *File) WriteOwed() error {
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

// sync waits until the written lines are on the disk. mu must be held.
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
		text = append([]byte("\n"), text...) // ends the torn line, which becomes a corrupt one
	}
	_, err := j.file.Write(text)
	if err == nil {
		err = j.sync()
	}
	if err != nil {
		// A failed write or sync leaves an unknown part behind. Remove it; if even that fails, fence it off.
		j.torn = j.file.Truncate(j.size) != nil || j.torn
		return err
	}
	if j.torn {
		// The file now has the torn line and the fence after it; only its end is known.
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

// Rewrite replaces the journal by the records that dump returns, which have the same meaning. No other write can
// happen during dump. A crash leaves either the old file or the new one.
func (j *File) Rewrite(dump func() iter.Seq[ledger.Record]) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.replace(dump()); err != nil {
		return fmt.Errorf("cannot compact the journal: %w", err)
	}
	return nil
}

// replace replaces the journal by records, as Rewrite documents. mu must be held.
func (j *File) replace(records iter.Seq[ledger.Record]) error {
	f, err := plainfile.Create(j.path + ".new")
	if err != nil {
		return err
	}
	return j.become(f, records)
}

// become writes records to a new file and makes it the journal. mu must be held.
func (j *File) become(f *os.File, records iter.Seq[ledger.Record]) error {
	size, skipped, err := fill(f, records)
	if err = errors.Join(err, f.Sync()); err == nil {
		err = os.Rename(f.Name(), j.path)
	}
	if err != nil {
		f.Close()
		return err
	}
	// From here on the new file is the journal, even after an error: no line may go to the old file.
	j.file.Close()
	j.file, j.size, j.compact = f, size, size
	j.torn, j.owed = false, nil
	return errors.Join(skipped, plainfile.SyncFolder(filepath.Dir(j.path)))
}

// fill writes records to a file, and returns their size. It skips records that cannot be encoded: one of them must
// not block compaction for ever.
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

// Oversize reports whether the journal has grown enough for a compaction: beyond twice its compacted size, and beyond
// compactSize.
func (j *File) Oversize() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.size > max(compactSize, 2*j.compact)
}

// Pause blocks every other method until resume is called, so that no event can be recorded meanwhile. owed reports
// whether lines of past events could not be written yet.
func (j *File) Pause() (owed bool, resume func()) {
	j.mu.Lock()
	return len(j.owed) > 0, j.mu.Unlock
}

// Close closes the file. Nothing may be written afterwards.
func (j *File) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file.Close()
}
