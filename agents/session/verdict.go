package session

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/forge"
)

// verdict is the review that the CLI wrote.
type verdict struct {
	Approve  bool
	Summary  string
	Comments []forge.LineComment
}

const (
	maxAnswerFile = 256 << 10 // bytes; a longer file is a log, not an answer
	maxInline     = 40        // maximum number of line comments in a review
)

// parseVerdict decodes the verdict file. Only a clear approval counts: an unreadable file and a verdict without a
// reason are errors.
func parseVerdict(text []byte) (*verdict, error) {
	d, err := readFields("verdict.json", text)
	if err != nil {
		return nil, err
	}
	word, v := d.text("verdict"), &verdict{Summary: d.text("summary")}
	switch strings.Map(letters, strings.ToLower(word)) {
	case "approve", "approved":
		v.Approve = true
	case "requestchanges", "changesrequested":
	default:
		return nil, fmt.Errorf(`the verdict is %q, want "approve" or "request_changes"`, firstWords(word))
	}
	for _, c := range d.list("comments") {
		one := forge.LineComment{Path: c.text("path"), Line: c.number("line"), Body: c.text("body")}
		if d.err = cmp.Or(d.err, c.err); one.Body != "" && len(v.Comments) < maxInline {
			v.Comments = append(v.Comments, one)
		}
	}
	switch {
	case d.err != nil:
		return nil, d.err
	case v.Summary == "" && len(v.Comments) == 0:
		return nil, errors.New("the verdict has no summary")
	}
	return v, nil
}

// letters drops what separates the words of a verdict.
func letters(r rune) rune {
	if r == ' ' || r == '_' || r == '-' {
		return -1
	}
	return r
}

// place separates the comments on lines that the diff shows from all others. The forge refuses the others, so they
// become part of the summary.
func (v *verdict) place(lines map[string][]span) (on []forge.LineComment, summary string) {
	var b strings.Builder
	b.WriteString(v.Summary)
	for _, c := range v.Comments {
		if slices.ContainsFunc(lines[c.Path], func(s span) bool { return s.from <= c.Line && c.Line <= s.to }) {
			on = append(on, c)
			continue
		}
		b.WriteString("\n\n")
		if c.Path != "" {
			fmt.Fprintf(&b, "`%s`", strings.ReplaceAll(firstWords(c.Path), "`", "'"))
			if c.Line > 0 {
				fmt.Fprintf(&b, ", line %d", c.Line)
			}
			b.WriteString(": ")
		}
		b.WriteString(c.Body)
	}
	return on, strings.TrimSpace(b.String())
}

// span is a range of lines in the new version of a file, inclusive.
type span struct{ from, to int64 }

var hunk = regexp.MustCompile(`^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@`)

// diffLines returns the lines of each file's new version that a git diff shows.
func diffLines(diff string) map[string][]span {
	shown := make(map[string][]span)
	path, left := "", int64(0) // left counts the remaining lines of the new version in the hunk
	for line := range strings.Lines(diff) {
		line = strings.TrimRight(line, "\r\n")
		switch m := hunk.FindStringSubmatch(line); {
		case left > 0 && m == nil:
			if line == "" || line[0] == ' ' || line[0] == '+' {
				left--
			}
		case m != nil:
			from, _ := strconv.ParseInt(m[1], 10, 64)
			count := int64(1)
			if m[2] != "" {
				count, _ = strconv.ParseInt(m[2], 10, 64)
			}
			if left = count; path != "" && count > 0 {
				shown[path] = append(shown[path], span{from, from + count - 1})
			}
		case strings.HasPrefix(line, "+++ "):
			path = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(line, "+++ "), "b/"), "\t") // after a blank
			if path == "/dev/null" {
				path = ""
			}
		}
	}
	return shown
}
