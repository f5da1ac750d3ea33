package forge

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// commandPattern matches a keyword with which a forge closes or reopens an issue, and the reference after it: #N, !N,
// owner/name#N, or an address. It accepts more than Forgejo does between them (line breaks, emphasis, brackets),
// because forges differ, and it is harmless to defuse too much.
var commandPattern = regexp.MustCompile(
	`(?i)((?:^|[^0-9A-Za-z])(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?|reopen(?:s|ed)?)` +
		`(?:[*_~]{0,3}:?[*_~]{0,3}\s{1,8}[*_~]{0,3}[(\["'<]{0,2}|:))` +
		`(https?://[^\s<>()\[\]"'` + "`" + `|]+/(?:issues|pulls)/\d+|(?:[\w.-]+/[\w.-]+)?[#!]\d+)`)

// Defuse returns a text of repo in Markdown in which no keyword makes the forge close or reopen an issue at a merge,
// except those of own. A reference after a keyword becomes code, which no forge follows: "fixes #2" becomes
// "fixes `#2`".
func Defuse(markdown, repo string, own []Ref) string {
	var b strings.Builder
	for part, code := range codeBlocks(markdown) {
		if !code {
			part = DefuseMessage(part, repo, own)
		}
		b.WriteString(part)
	}
	return b.String()
}

// DefuseMessage is Defuse for a commit's message, in which code is text.
func DefuseMessage(message, repo string, own []Ref) string {
	return commandPattern.ReplaceAllStringFunc(message, func(found string) string {
		m := commandPattern.FindStringSubmatch(found)
		if m == nil || slices.Contains(own, referenced(m[2], repo)) {
			return found
		}
		return m[1] + "`" + m[2] + "`"
	})
}

// Commands returns the parts of a commit's message that Defuse would change, such as "fixes #2", in order.
func Commands(message, repo string, own []Ref) (all []string) {
	for _, m := range commandPattern.FindAllStringSubmatch(message, -1) {
		if !slices.Contains(own, referenced(m[2], repo)) {
			all = append(all, strings.TrimLeft(strings.Join(strings.Fields(m[0]), " "), "([*_\"'"))
		}
	}
	return all
}

// referenced returns the item that a reference names; the zero Ref if it names none.
func referenced(text, repo string) Ref {
	text = strings.Replace(text, "!", "#", 1)
	if m := mentions(text, repo); len(m) == 1 {
		return m[0].ref
	}
	if number, ok := strings.CutPrefix(text, "#"); ok {
		if n, err := strconv.ParseInt(number, 10, 64); err == nil {
			return Ref{Repo: repo, Number: n}
		}
	}
	return Ref{}
}

// codeBlocks splits Markdown into text and fenced blocks of code, at most three spaces from the margin.
func codeBlocks(markdown string) func(yield func(part string, code bool) bool) {
	return func(yield func(string, bool) bool) {
		begin, offset, fence := 0, 0, ""
		for line := range strings.SplitAfterSeq(markdown, "\n") {
			bare := strings.TrimRight(line, " \t\r\n")
			indented := strings.HasPrefix(bare, "    ") || strings.HasPrefix(bare, "\t")
			switch opens := opensFence(bare); {
			case fence == "" && opens != "" && !indented && strings.HasPrefix(strings.TrimLeft(bare, " "), opens):
				if begin < offset && !yield(markdown[begin:offset], false) {
					return
				}
				begin, fence = offset, opens
			case fence != "" && !indented && closesFence(bare, fence):
				if !yield(markdown[begin:offset+len(line)], true) {
					return
				}
				begin, fence = offset+len(line), ""
			}
			offset += len(line)
		}
		if begin < len(markdown) {
			yield(markdown[begin:], fence != "")
		}
	}
}
