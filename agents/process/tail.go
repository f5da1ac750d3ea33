package process

import (
	"io"
	"os"
	"strings"
	"unicode"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/plainfile"
)

const (
	tailLines = 20
	tailBytes = 4 << 10  // of the returned text
	tailRead  = 64 << 10 // read from the end of the file: progress bars write long lines
)

// tail returns the last lines of a log, without secrets and terminal control.
func tail(path string, secrets []string) string {
	f, err := plainfile.Open(path, os.O_RDONLY)
	if err != nil {
		return ""
	}
	defer f.Close()
	size, _ := f.Seek(0, io.SeekEnd)
	from := max(0, size-tailRead)
	buf := make([]byte, size-from)
	n, _ := f.ReadAt(buf, from)
	text := string(buf[:n])
	if from > 0 { // the first line is cut, perhaps within a secret
		_, rest, ok := strings.Cut(text, "\n")
		if !ok {
			return ""
		}
		text = rest
	}
	text = plain(agents.Redact(text, secrets))
	return lastLines(agents.Redact(text, secrets)) // again: a secret may have been coloured
}

// lastLines returns the end of a redacted text: at most 20 lines and 4 KiB, cut at the front.
func lastLines(text string) string {
	text = strings.TrimRight(text, "\n")
	lines := strings.Split(text, "\n")
	text = strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
	if len(text) > tailBytes {
		text = strings.ToValidUTF8(text[len(text)-tailBytes:], "")
	}
	return text
}

// plain removes terminal control from a text. A carriage return restarts the line, as on a terminal.
func plain(text string) string {
	var b strings.Builder
	for line := range strings.Lines(stripEscapes(strings.ToValidUTF8(text, "?"))) {
		line = strings.TrimRight(line, "\r\n")
		line = line[strings.LastIndexByte(line, '\r')+1:]
		b.WriteString(strings.Map(func(r rune) rune {
			if r == '\t' || unicode.IsPrint(r) {
				return r
			}
			return -1
		}, line))
		b.WriteByte('\n')
	}
	return b.String()
}

// stripEscapes removes the escape sequences with which programs colour their output: ESC [ to the final byte, ESC ]
// to BEL or ESC \, and any other ESC with the byte after it.
func stripEscapes(s string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "\x1b")
		b.WriteString(before)
		if !found || after == "" {
			return b.String()
		}
		s = after[escapeLen(after):]
	}
}

func escapeLen(s string) int {
	switch s[0] {
	case '[':
		if i := strings.IndexFunc(s[1:], func(r rune) bool { return r >= 0x40 && r <= 0x7e }); i >= 0 {
			return i + 2
		}
		return len(s)
	case ']':
		if i := strings.IndexAny(s, "\a\x1b\n"); i >= 0 {
			return i // the terminator is itself unprintable
		}
		return len(s)
	}
	return 1
}
