package ledger

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
)

// LineLimit bounds a line of the journal, in bytes. It is some hundred times the longest line seen, which has the
// last output of a failure. A longer line is neither read nor written.
const LineLimit = 1 << 20

// Read reads a journal line by line, with one line in memory at a time. It calls record with each valid record, and
// corrupt with the place of each other line: from the byte at from, to the byte before to. It ignores a torn last
// line, because nothing has been done about it.
func Read(journal io.Reader, record func(Record), corrupt func(from, to int64)) error {
	in := bufio.NewReaderSize(journal, 64<<10)
	var line []byte
	var from, to int64
	var r Record // one for all lines: a record each was a seventh of the garbage
	for {
		part, err := in.ReadSlice('\n')
		to += int64(len(part))
		if len(line) <= LineLimit { // of a longer line, the rest is only counted
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return fmt.Errorf("cannot read the journal: %w", err)
		}
		if r = (Record{}); parse(line, &r) {
			record(r)
		} else if err == nil && len(bytes.TrimSpace(line)) > 0 {
			corrupt(from, to)
		}
		if err != nil {
			return nil
		}
		line, from = line[:0], to
	}
}

// parse reads a line into an empty record, and reports whether it is a valid one.
func parse(line []byte, r *Record) bool {
	return len(line) <= LineLimit && json.Unmarshal(line, r) == nil && r.valid()
}

// Unknown returns the kind of a line that this version does not know, although it is a record in form: a newer version
// wrote it. It returns "" for every other line.
func Unknown(line []byte) (kind string) {
	var r struct{ At time.Time }
	fields := make(map[string]json.RawMessage)
	if json.Unmarshal(line, &r) != nil || r.At.IsZero() || json.Unmarshal(line, &fields) != nil || len(fields) != 2 {
		return ""
	}
	delete(fields, "at")
	for name := range fields {
		kind = name
	}
	of := reflect.TypeFor[Record]()
	for field := range of.Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name == kind {
			return ""
		}
	}
	return kind
}
