package session

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
	"time"
)

const (
	// repeatsMost is how often a CLI may repeat a call with the same result and nothing new in between. A model that
	// has repeated itself so often continues until its context is full.
	repeatsMost = 8
	// waiting is the minimum duration of a call that waits for something, such as a check. Such a call may be repeated,
	// because its next result may differ.
	waiting = 10 * time.Second
	// knownMost, openMost and filesMost bound the memory: results, calls without a result, and files.
	knownMost, openMost, filesMost = 16, 32, 64
)

// repeats detects whether a CLI repeats itself: the same call with the same result, or a file that is written back and
// forth. It stores only hashes. The zero value is ready to use.
type repeats struct {
	open  []openCall
	known []known // results of calls
	files []fileHistory
	words string // describes the repetition; empty if there is none
}

// openCall is a tool call without a result so far.
type openCall struct {
	id    string
	call  uint64
	words string
	began time.Time
}

// known is an earlier result, and how often it occurred since anything new happened.
type known struct {
	hash  uint64
	count int
}

// fileHistory is a file with the hashes of what was last written to it.
type fileHistory struct {
	path    uint64
	written []uint64
	back    int // consecutive writes of earlier content
}

var seed = maphash.MakeSeed()

func hashOf(parts ...[]byte) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, p := range parts {
		_, _ = h.Write(p)
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

// begin records the call of a tool with its input. Some agents repeat a call, with more of its input.
func (s *repeats) begin(id, tool string, input []byte, now time.Time) {
	c := openCall{id, hashOf([]byte(tool), input), toolSummary(tool, input), now}
	i := slices.IndexFunc(s.open, func(o openCall) bool { return o.id == id })
	switch {
	case i < 0:
		s.open = append(last(s.open, openMost-1), c)
	case s.open[i].call == c.call:
		return
	default:
		s.open[i].call, s.open[i].words = c.call, c.words
	}
	if path, ok := writtenFile(input); ok {
		s.wrote(path, hashOf(input))
	}
}

// end records the result of a call. It ignores a result without a call.
func (s *repeats) end(id string, result []byte, now time.Time) {
	i := slices.IndexFunc(s.open, func(c openCall) bool { return c.id == id })
	if i < 0 {
		return
	}
	c := s.open[i]
	s.open = slices.Delete(s.open, i, i+1)
	if now.Sub(c.began) >= waiting {
		s.known = s.known[:0]
		return
	}
	pair := hashOf(binary.LittleEndian.AppendUint64(nil, c.call), result)
	at := slices.IndexFunc(s.known, func(k known) bool { return k.hash == pair })
	if at < 0 { // a new result: the earlier calls led somewhere
		for i := range s.known {
			s.known[i].count = 0
		}
		s.known = append(last(s.known, knownMost-1), known{pair, 1})
		return
	}
	if s.known[at].count++; s.known[at].count >= repeatsMost && s.words == "" {
		s.words = fmt.Sprintf("it repeats itself: %s, %d times with the same result and nothing new between",
			c.words, repeatsMost)
	}
}

// wrote records a write to a file: its new content, or the change to it.
func (s *repeats) wrote(path string, content uint64) {
	name := hashOf([]byte(path))
	i := slices.IndexFunc(s.files, func(f fileHistory) bool { return f.path == name })
	if i < 0 {
		s.files = append(last(s.files, filesMost-1), fileHistory{path: name})
		i = len(s.files) - 1
	}
	f := &s.files[i]
	if !slices.Contains(f.written, content) {
		f.written, f.back = append(last(f.written, knownMost-1), content), 0
		return
	}
	// The first write of each content was new, so A, B, A, B, A, B, A, B is reached at the eighth write.
	if f.back++; f.back >= repeatsMost-2 && s.words == "" {
		s.words = fmt.Sprintf("it repeats itself: %s is written back and forth, %d times with its earlier content",
			firstWords(path), f.back)
	}
}

// writtenFile returns the file that a tool call with this input writes.
func writtenFile(input []byte) (path string, ok bool) {
	var args map[string]json.RawMessage
	if json.Unmarshal(input, &args) != nil {
		return "", false
	}
	for _, key := range []string{"content", "new_string", "newString", "edits", "new_source"} {
		ok = ok || args[key] != nil
	}
	for _, key := range []string{"file_path", "filePath", "absolute_path", "notebook_path", "path"} {
		if ok && json.Unmarshal(args[key], &path) == nil && path != "" {
			return path, true
		}
	}
	return "", false
}

// last returns the last elements of a list, at most n.
func last[T any](list []T, n int) []T {
	if len(list) > n {
		return slices.Delete(list, 0, len(list)-n)
	}
	return list
}
