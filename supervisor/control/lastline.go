package control

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"unicode"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/plainfile"
)

// lineRead is how much of a log's end is searched for its last line, and lineShown the longest line that is shown.
const lineRead, lineShown = 4 << 10, 200

// escapes matches the sequences with which programs colour their output and name their window.
var escapes = regexp.MustCompile("\x1b(\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(\x07|\x1b\\\\))")

// LastLine returns the last non-empty line of a log, without secrets and terminal control. It is empty for a log that
// cannot be read.
func LastLine(path string, secrets []string) string {
	f, err := plainfile.Open(path, os.O_RDONLY)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	end := make([]byte, min(info.Size(), lineRead))
	n, _ := f.ReadAt(end, info.Size()-int64(len(end)))
	text := string(bytes.TrimSpace(end[:n]))
	if cut := strings.LastIndexByte(text, '\n'); cut >= 0 {
		text = text[cut+1:]
	} else if info.Size() > lineRead {
		return "" // the line's beginning is cut off, perhaps within a secret
	}
	text = escapes.ReplaceAllString(strings.ToValidUTF8(text, "?"), "")
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text)
	text = agents.Redact(text, secrets) // after the escapes, because a secret may have been coloured
	if runes := []rune(text); len(runes) > lineShown {
		text = string(runes[:lineShown]) + "..."
	}
	return text
}
