package forge

import (
	"regexp"
	"strconv"
	"strings"
)

// This file reads the parts of Markdown that the scheduler needs: which text is code or a comment, and where a text
// names other issues.

// visibleLines splits text into lines and blanks what the rendered page does not show as prose: fenced code (``` and
// ~~~, at any indentation, in quotes and list items) and HTML comments. An unclosed fence runs to the end, as on the
// page. An unclosed comment does not count as a comment: a stray "<!--" would otherwise hide the rest of an issue, and
// work would start before its blockers were closed.
func visibleLines(text string) []string {
	var (
		lines     []string
		fence     string // the run of ` or ~ that opened the current fence; empty outside a fence
		comment   bool
		lastClose = strings.LastIndex(text, "-->")
		offset    int
	)
	for line := range strings.SplitAfterSeq(text, "\n") {
		start := offset
		offset += len(line)
		line = strings.TrimRight(line, "\r\n")
		if fence != "" {
			if closesFence(line, fence) {
				fence = ""
			}
			lines = append(lines, "")
			continue
		}
		line, comment = dropComments(line, comment, lastClose-start)
		if fence = opensFence(line); fence != "" {
			line = ""
		}
		lines = append(lines, line)
	}
	return lines
}

// dropComments replaces HTML comments with a space. inside says whether the line begins inside a comment; the second
// result says whether it ends inside one. lastClose is the position of the text's last "-->", relative to the start of
// the line.
func dropComments(line string, inside bool, lastClose int) (string, bool) {
	var kept strings.Builder
	for at := 0; ; {
		if inside {
			i := strings.Index(line[at:], "-->")
			if i < 0 {
				return kept.String(), true
			}
			at += i + len("-->")
			kept.WriteByte(' ')
			inside = false
		}
		i := strings.Index(line[at:], "<!--")
		if i < 0 {
			kept.WriteString(line[at:])
			return kept.String(), false
		}
		kept.WriteString(line[at : at+i])
		at += i + len("<!--")
		inCode := strings.Count(line[:at], "`")%2 == 1 // prose about comments: `<!--`
		inside = !inCode && lastClose >= at
		if !inside {
			kept.WriteString("<!--")
		}
	}
}

// fencePattern allows block quotes and one list marker before the fence. If more backticks follow on the line, the
// first run opens a code span and no fence.
var fencePattern = regexp.MustCompile("^[\\s>]*(?:(?:[-*+]|\\d+[.)])\\s+)?(`{3,}[^`]*|~{3,}.*)$")

// opensFence returns the run of backticks or tildes in a line that opens a fence, or "".
func opensFence(line string) string {
	m := fencePattern.FindStringSubmatch(line)
	if m == nil {
		return ""
	}
	return m[1][:len(m[1])-len(strings.TrimLeft(m[1], m[1][:1]))]
}

func closesFence(line, fence string) bool {
	line = strings.Trim(line, " \t>")
	return len(line) >= len(fence) && strings.Trim(line, fence[:1]) == ""
}

// mention is a reference to an issue at line[start:end].
type mention struct {
	ref        Ref
	start, end int
}

var (
	// mentionPattern matches whole addresses first, so that a fragment such as page#5 is not read as a reference.
	mentionPattern = regexp.MustCompile("https?://[^\\s<>()\\[\\]\"'`|]+|([\\w.-]+/[\\w.-]+)?#(\\d+)\\b")
	// addressPattern matches the address of an issue or pull request; the forge can be served under any path.
	addressPattern = regexp.MustCompile(`^https?://[^/]+(?:/.*)?/([\w.-]+/[\w.-]+)/(?:issues|pulls)/(\d+)\b`)
)

// mentions finds #N, owner/name#N and the addresses of issues and pull requests. A bare #N refers to the repository
// home.
//
// Only the path of an address is read. A Ref has no host, so that text never chooses which server we query. The host
// is not compared with the configured one either: people paste the address from their browser
// (http://localhost:3000), and inside a container the forge has another name (http://forgejo:3000). An address on
// another forge therefore reads as a missing issue of our forge, and the item is held with that reason. If such an
// address were ignored, the item would start too early.
func mentions(line, home string) []mention {
	var found []mention
	for _, m := range mentionPattern.FindAllStringSubmatchIndex(line, -1) {
		at := mention{start: m[0], end: m[1]}
		var repo, number string
		switch {
		case m[4] < 0: // an address
			a := addressPattern.FindStringSubmatch(line[m[0]:m[1]])
			if a == nil {
				continue
			}
			repo, number = a[1], a[2]
		case m[2] >= 0: // owner/name#N
			if m[0] > 0 && line[m[0]-1] == '/' {
				continue // part of a longer path
			}
			repo, number = line[m[2]:m[3]], line[m[4]:m[5]]
		default: // #N
			if m[0] > 0 && (isWord(line[m[0]-1]) || strings.IndexByte("&#", line[m[0]-1]) >= 0) {
				continue // an entity such as &#39;, a name such as C#5
			}
			repo, number = home, line[m[4]:m[5]]
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n == 0 || !ValidRepo(repo) {
			continue
		}
		if strings.EqualFold(repo, home) {
			repo = home // the forge ignores case in names, but Refs are compared with it
		}
		at.ref = Ref{Repo: repo, Number: n}
		found = append(found, at)
	}
	return found
}

// lastBytes returns the end of s, for patterns that look back. Matching a whole line of 64 kB, which any account can
// write, took 30 s.
func lastBytes(s string) string { return s[max(0, len(s)-64):] }

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
