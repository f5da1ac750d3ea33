// Package decisions keeps the supervisor's decisions and their inputs for a week, so that `why --at` can answer by
// the same rules as `why`, with or without a supervisor.
//
// The folder decisions of a state directory has segments. Each is a gzip file of lines: a heading, a whole snapshot,
// and then for each decision the changes (package delta). A decision that differs from the last only in the clock is
// not written. Each line is flushed and not synced: a kill loses none, a power cut the last seconds. Where decisions
// are missing, because the supervisor did not run, the disk was full or the writer was behind, a reader gets an
// error, and no older decision in their place.
//
//	decisions.go   the lines of a segment
//	recorder.go    the queue from the supervisor's decisions to the writer; adding does not wait
//	writer.go      the newest segment, and which others are kept
//	read.go        the decisions of a moment
//	why.go         the explanation of one
package decisions

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads/delta"
)

// Folder is the folder of the segments in a state directory.
const Folder = "decisions"

// Bounds of the folder.
const (
	KeepTime = 7 * 24 * time.Hour
	keepSize = 20 << 20
	// A segment ends at a size, or after a time, so that old segments can be deleted.
	segmentSize = 512 << 10
	segmentTime = 12 * time.Hour
	// lineLimit bounds a line, in bytes: a snapshot of 100,000 issues takes half of that.
	lineLimit = 64 << 20
)

// format is the version of the lines. Segments with a newer format are not read.
const format = 1

// line is one line of a segment. Each has one of the fields Heading, Base, Delta and End.
type line struct {
	At      time.Time       // time of the decision, or of the one before if that is later
	Heading *heading        `json:",omitempty"`
	Base    json.RawMessage `json:",omitempty"` // a whole snapshot, by package wire
	Delta   *delta.Delta    `json:",omitempty"` // changes since the decision before
	End     ending          `json:",omitempty"`
	Sum     string          `json:",omitempty"` // of the plan; see delta.Sum
	Starts  []forge.Ref     `json:",omitempty"` // items that the plan starts
	Lost    *lost           `json:",omitempty"` // decisions before this one that were not written
}

// heading is the first line of a segment.
type heading struct {
	Format  int
	Program string // version of disinto
	After   ending // ending of the segment before
}

// lost counts decisions that were not written although the supervisor ran.
type lost struct {
	N    int
	From time.Time // time of the first
}

// ending says why a segment ended.
type ending string

// The endings. A segment that a kill cut off has none.
const (
	full    ending = "full"    // the next segment continues
	became  ending = "upgrade" // another image of the program continues
	stopped ending = "stopped" // the supervisor stopped
	failed  ending = "failed"  // a write failed
	started ending = "start"   // a supervisor started; earlier segments belong to another one
)

// goesOn reports whether the last decision before this ending was in force until the next segment.
func (e ending) goesOn() bool { return e == full || e == became }

// encode returns a line of a segment: a checksum, and the record. The checksum exposes a damaged line.
func encode(l *line) ([]byte, error) {
	text, err := json.Marshal(l)
	if err == nil && len(text) > lineLimit {
		err = fmt.Errorf("it has %d bytes, and may have %d", len(text), lineLimit)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot encode a decision: %w", err)
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(text), text), nil
}

// decode reads a line, and reports whether it is undamaged.
func decode(text []byte) (l line, ok bool) {
	sum, rest, found := strings.Cut(strings.TrimSuffix(string(text), "\n"), " ")
	want, err := strconv.ParseUint(sum, 16, 32)
	if !found || err != nil || crc32.ChecksumIEEE([]byte(rest)) != uint32(want) {
		return l, false
	}
	return l, json.Unmarshal([]byte(rest), &l) == nil
}

// segment is one segment's name: its start, and its number, which is never reused. Segments are ordered by number,
// because a clock may be set back.
type segment struct {
	number int64
	began  time.Time
	size   int64
}

// nameForm is the format of the start in a segment's name.
const nameForm = "20060102T150405.000000000Z"

func (s *segment) name() string {
	return fmt.Sprintf("%010d-%s.gz", s.number, s.began.UTC().Format(nameForm))
}

func (s *segment) path(dir string) string { return filepath.Join(dir, s.name()) }

// parseName reads the name of a segment; false for any other file.
func parseName(name string) (s segment, ok bool) {
	number, began, found := strings.Cut(strings.TrimSuffix(name, ".gz"), "-")
	n, err := strconv.ParseInt(number, 10, 64)
	at, bad := time.Parse(nameForm, began)
	s = segment{number: n, began: at}
	return s, found && err == nil && bad == nil && s.name() == name
}

// list returns the segments of a folder by number; none if the folder does not exist.
func list(dir string) (segments []segment, err error) {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil, nil
	}
	for _, entry := range entries { // sorted by name, which begins with the number
		s, ok := parseName(entry.Name())
		info, gone := entry.Info()
		if ok && gone == nil && info.Mode().IsRegular() {
			s.size = info.Size()
			segments = append(segments, s)
		}
	}
	return segments, err
}
