// Package logtime keeps when the lines of a log were written, in a file beside the log, so that the log stays exactly
// what a program printed. The file is a list of stamps: the offset of a piece of the log, and the time when it came. It
// has at most one stamp a second, and at most 1 MiB.
package logtime

import (
	"cmp"
	"encoding/binary"
	"io"
	"os"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents/plainfile"
)

// Suffix ends the name of the file beside a log.
const Suffix = ".times"

const (
	stampSize = 16      // bytes: the offset and the time in milliseconds since 1970, both big-endian
	mostBytes = 1 << 20 // of the file; then every other stamp goes, and new ones come half as often
	atLeast   = time.Second
)

// Stamp says when the part of a log that begins at an offset was written.
type Stamp struct {
	Offset int64
	At     time.Time
}

// Writer adds stamps. A nil Writer adds none. It never fails: on a full disk lines are without times.
type Writer struct {
	path  string
	file  *os.File
	last  Stamp
	size  int64 // of the file
	every time.Duration
}

// Open continues the stamps of a log that has size bytes by now. Stamps behind its end are of another file that had
// this name.
func Open(log string, size int64) *Writer {
	file, err := plainfile.Open(log+Suffix, os.O_CREATE|os.O_RDWR|os.O_APPEND)
	if err != nil {
		return nil
	}
	w := &Writer{path: log, file: file, every: atLeast}
	stamps := decode(file)
	w.size = int64(len(stamps)) * stampSize
	if n := len(stamps); n > 0 {
		w.last = stamps[n-1]
	}
	if info, err := file.Stat(); err != nil || w.last.Offset > size || info.Size() != w.size {
		w.write(nil)
	}
	return w
}

// Due reports whether what is written now gets a stamp of its own.
func (w *Writer) Due(now time.Time) bool {
	return w != nil && (now.Sub(w.last.At) >= w.every || now.Before(w.last.At))
}

// Add stamps what is written from an offset on. Call it before the write, if Due: then whoever reads a line and the
// stamps after it finds the line's.
func (w *Writer) Add(offset int64, now time.Time) {
	if w == nil {
		return
	}
	if offset < w.last.Offset { // somebody has cut the log
		w.write(nil)
	}
	if w.size >= mostBytes {
		w.thin()
	}
	w.last = Stamp{offset, now}
	n, _ := w.file.Write(encode(w.last))
	w.size += int64(n)
}

// Cut says that the log has lost what was between two offsets.
func (w *Writer) Cut(from, to int64) {
	if w == nil {
		return
	}
	var kept []Stamp
	for _, s := range decode(w.file) {
		switch {
		case s.Offset >= to:
			s.Offset -= to - from
		case s.Offset > from: // the newest of them is that of what follows
			s.Offset = from
			if n := len(kept); n > 0 && kept[n-1].Offset == from {
				kept = kept[:n-1]
			}
		}
		kept = append(kept, s)
	}
	w.write(kept)
}

// Restart begins anew, for a log that was made anew. The file itself may be gone too.
func (w *Writer) Restart() {
	if w == nil {
		return
	}
	if file, err := plainfile.Open(w.path+Suffix, os.O_CREATE|os.O_RDWR|os.O_APPEND); err == nil {
		w.file.Close()
		w.file = file
	}
	w.write(nil)
}

// Close closes the file.
func (w *Writer) Close() {
	if w != nil {
		w.file.Close()
	}
}

// thin takes away every other stamp.
func (w *Writer) thin() {
	var kept []Stamp
	for i, s := range decode(w.file) {
		if i%2 == 0 {
			kept = append(kept, s)
		}
	}
	w.every *= 2
	w.write(kept)
}

// write replaces all stamps.
func (w *Writer) write(stamps []Stamp) {
	w.last, w.size = Stamp{}, 0
	if w.file.Truncate(0) != nil || len(stamps) == 0 {
		return
	}
	var text []byte
	for _, s := range stamps {
		text = append(text, encode(s)...)
	}
	n, _ := w.file.Write(text)
	w.size, w.last = int64(n), stamps[len(stamps)-1]
}

func encode(s Stamp) []byte {
	text := binary.BigEndian.AppendUint64(nil, uint64(s.Offset))
	return binary.BigEndian.AppendUint64(text, uint64(s.At.UnixMilli()))
}

// decode reads all stamps of a file, by offset.
func decode(file *os.File) (stamps []Stamp) {
	text, _ := io.ReadAll(io.NewSectionReader(file, 0, 2*mostBytes))
	for ; len(text) >= stampSize; text = text[stampSize:] {
		at := time.UnixMilli(int64(binary.BigEndian.Uint64(text[8:])))
		stamps = append(stamps, Stamp{int64(binary.BigEndian.Uint64(text)), at})
	}
	slices.SortStableFunc(stamps, func(a, b Stamp) int { return cmp.Compare(a.Offset, b.Offset) })
	return stamps
}

// Times are the stamps of a log, by offset.
type Times []Stamp

// Read returns the stamps of a log; none if it has no file with stamps.
func Read(log string) Times {
	file, err := plainfile.Open(log+Suffix, os.O_RDONLY)
	if err != nil {
		return nil
	}
	defer file.Close()
	return decode(file)
}

// At returns when the byte at an offset was written; zero if unknown.
func (t Times) At(offset int64) time.Time {
	i, _ := slices.BinarySearchFunc(t, offset+1, func(s Stamp, at int64) int { return cmp.Compare(s.Offset, at) })
	if i == 0 {
		return time.Time{}
	}
	return t[i-1].At
}
