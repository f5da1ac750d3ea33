package pid1

import (
	"strconv"
	"strings"
	"syscall"
	"time"
)

// LineForm is the form of the lines that a factory prints on stderr. The init and the supervisor print the same form.
// The zero value is text with a time.
type LineForm struct {
	JSON bool
	// Journal says that stderr is systemd's journal. It has a time of its own, and takes a priority in front of each line.
	Journal bool
}

// LogFormat is the name of the flag that chooses the form. LogText, the default, and LogJSON are its values.
const (
	LogFormat = "log-format"
	LogText   = "text"
	LogJSON   = "json"
)

// Priority is the priority of a line, with syslog's numbers.
type Priority int

// Error and Warning mean that a person must act.
const (
	Error   Priority = 3
	Warning Priority = 4
	Info    Priority = 6
	Debug   Priority = 7
)

// FormOf returns the form that a factory's arguments and environment ask for. Systemd names the journal's socket by
// device and inode, which tell whether stderr is still that socket.
func FormOf(args, environ []string) (f LineForm) {
	for i, arg := range args {
		value, ok := strings.CutPrefix(arg, "--"+LogFormat+"=")
		if arg == "--"+LogFormat && i+1 < len(args) {
			value, ok = args[i+1], true
		}
		if ok {
			f.JSON = value == LogJSON
		}
	}
	for _, kv := range environ {
		var stat syscall.Stat_t
		if stream, ok := strings.CutPrefix(kv, "JOURNAL_STREAM="); ok && syscall.Fstat(2, &stat) == nil {
			f.Journal = stream == strconv.FormatUint(uint64(stat.Dev), 10)+":"+strconv.FormatUint(stat.Ino, 10)
		}
	}
	return f
}

// Line returns one line of text in this form, with its end.
func (f LineForm) Line(at time.Time, p Priority, words string) string {
	level := map[Priority]string{Error: "error", Warning: "warn", Info: "info", Debug: "debug"}[p]
	text := (strings.ToUpper("["+level+"] ") + " ")[:8] + words
	switch {
	case f.JSON:
		text = `{"@level":"` + level + `","@message":` + quote(words) + `,"@timestamp":"` + at.Format(time.RFC3339) + `"}`
	case !f.Journal:
		text = at.Format(time.RFC3339) + " " + text
	}
	return f.Mark(p, text+"\n")
}

// Mark puts the priority in front of each line, if stderr is the journal. A line without one would be information.
func (f LineForm) Mark(p Priority, text string) string {
	if !f.Journal || text == "" {
		return text
	}
	mark := "<" + strconv.Itoa(int(p)) + ">"
	return mark + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+mark) + "\n"
}

// quote returns a string of JSON. Package encoding/json would delay the start: see the package's documentation.
func quote(s string) string {
	b := []byte{'"'}
	for _, c := range []byte(strings.ToValidUTF8(s, "\uFFFD")) {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, `\u00`...)
			b = append(b, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}
