package forge

import (
	"regexp"
	"slices"
	"strings"
)

// Dependencies reads from an issue's text what the issue waits for: sorted, each once. self is the issue itself; its
// repository is where a bare #N points, and a reference to itself is returned like any other, for the scheduler to
// refuse with a reason.
//
// Two forms count, in any case of letters:
//
//   - A section under a heading of one to three #, headed Dependencies, Depends on or Blocked by: every reference in
//     the heading and below it, up to the next heading of its own or a higher level (or any of one or two #).
//   - In running text "depends on" or "blocked by" (a hyphen for the space and a colon are fine), followed by
//     references. Between these only punctuation, a remark in parentheses and words such as "and", "issue" may stand.
//     When nothing follows on the line, the list or the line below is read. "Not blocked by" and "unblocked by" do not count.
//
// A reference is #N, owner/name#N, or the address of an issue or pull request (see mentions for whose). Fenced code,
// HTML comments and the lines of checked boxes "- [x]" are set aside. Where the text is unclear it is read as a
// dependency: an item that is held says why and is mended in a minute, one that started too early has spent a session.
func Dependencies(body string, self Ref) []Ref {
	r := dependencyReader{home: self.Repo}
	for _, line := range visibleLines(body) {
		r.line(line)
	}
	slices.SortFunc(r.refs, Ref.Compare)
	return slices.Compact(r.refs)
}

var (
	headingPattern = regexp.MustCompile(`^ {0,3}(#{1,6})(?:[ \t]+|$)`)
	// sectionPattern lets a number, an emoji or emphasis stand before the word, and, as upstream does, the space after
	// the # be missing.
	sectionPattern = regexp.MustCompile(`(?i)^ {0,3}(#{1,3})[^\pL#]*(?:dependencies|depends[\s-]+on|blocked[\s-]+by)\b`)
	itemPattern    = regexp.MustCompile(`^[\s>]*(?:[-*+]|\d+[.)])\s`)
	checkedPattern = regexp.MustCompile(`^[\s>]*(?:[-*+]|\d+[.)])\s+\[[xX]\](?:\s|$)`)
	phrasePattern  = regexp.MustCompile(`(?i)\b(?:depends[\s-]+on|blocked[\s-]+by)\b`)
	// negatedPattern ends just before the phrase. Like closingPattern it has a longest match, for lastBytes.
	negatedPattern = regexp.MustCompile(`(?i)(?:\bun-|(?:\bnot|n['’]t|\bnever|\bno longer)[\s*_]{1,8})$`)
	// gluePattern is what may stand before and between the references of a phrase: punctuation, a few words, the text
	// of a link to the issue, a remark in parentheses.
	gluePattern = longest("(?i)^(?:[\\s:,;&+/*_~|\"'`<>()\\[\\]-]|" +
		`\b(?:and|or|the|both|either|issues?|prs?|pulls?|pull requests?)\b|\[[^\[\]]*\]\(|\([^()]*\))*`)
)

// longest compiles a pattern that prefers the longest match, not the first.
func longest(pattern string) *regexp.Regexp {
	re := regexp.MustCompile(pattern)
	re.Longest()
	return re
}

// dependencyReader takes an issue's visible lines in order.
type dependencyReader struct {
	home    string
	refs    []Ref
	section int  // level of the heading whose section we are in; 0 is none
	list    bool // a phrase ended its line with nothing said yet: what follows it is below
	wrapped bool // the line before ended among the references of a phrase
}

func (r *dependencyReader) line(line string) {
	heading := headingPattern.FindStringSubmatch(line)
	if m := sectionPattern.FindStringSubmatch(line); m != nil {
		r.section = len(m[1])
	} else if heading != nil && len(heading[1]) <= max(2, r.section) {
		r.section = 0
	}
	if checkedPattern.MatchString(line) {
		return
	}
	if r.section > 0 {
		r.take(mentions(line, r.home))
		return
	}
	if strings.TrimSpace(line) == "" {
		r.wrapped = false
		return
	}
	item := itemPattern.MatchString(line)
	all := mentions(line, r.home)
	switch {
	case r.list && item:
		r.take(all)
		return
	case (r.list || r.wrapped) && !item:
		said, open := r.follow(line, 0, all)
		r.list, r.wrapped = r.list && open && !said, open && said
	default:
		r.list, r.wrapped = false, false
	}
	for _, m := range phrasePattern.FindAllStringIndex(line, -1) {
		if !negatedPattern.MatchString(lastBytes(line[:m[0]])) {
			said, open := r.follow(line, m[1], all)
			r.list, r.wrapped = open && !said, open && said && heading == nil
		}
	}
}

// follow takes those of the line's references that stand in a row from at on. said reports whether there were any, open
// whether the row reaches the end of the line, so that it may go on below.
func (r *dependencyReader) follow(line string, at int, all []mention) (said, open bool) {
	glue := at + len(gluePattern.FindString(line[at:]))
	for i, m := range all {
		if m.start < at || m.start > glue || len(gluePattern.FindString(line[at:m.start])) < m.start-at {
			continue // behind us, too far, or inside a remark
		}
		said = true
		r.take(all[i : i+1])
		at = m.end
		glue = at + len(gluePattern.FindString(line[at:]))
	}
	return said, glue == len(line)
}

func (r *dependencyReader) take(found []mention) {
	for _, m := range found {
		r.refs = append(r.refs, m.ref)
	}
}
