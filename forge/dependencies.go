package forge

import (
	"regexp"
	"slices"
	"strings"
)

// Dependencies returns the issues that an issue's text says it waits for: sorted, without duplicates. self is the issue
// itself, and a bare #N refers to its repository. A reference to self is returned like any other, so that the scheduler
// can refuse the issue with a reason.
//
// Two forms count, in upper or lower case:
//
//   - A section under a heading of one to three #, headed Dependencies, Depends on or Blocked by: every reference in
//     the heading and below it counts, up to the next heading of the same or a higher level. Any # or ## ends it too.
//   - A phrase in running text: "depends on" or "blocked by", followed by references. A hyphen can replace the space,
//     and a colon can follow. Between the references only punctuation, a remark in parentheses and words such as "and"
//     or "issue" can stand. If nothing follows on the line, the list or the line below it is read. "Not blocked by" and
//     "unblocked by" do not count.
//
// A reference is #N, owner/name#N, or the address of an issue or pull request on any host (see mentions). Fenced code,
// HTML comments, struck-out text, a phrase that is quoted as code and lines with a checked box "- [x]" are ignored.
// Unclear text is read as a dependency: an issue that is held shows the reason and can be corrected in a minute; an
// issue that starts too early wastes a session.
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
	// sectionPattern allows a number, an emoji or emphasis before the keyword and, as upstream does, no space after the
	// #.
	sectionPattern = regexp.MustCompile(`(?i)^ {0,3}(#{1,3})[^\pL#]*(?:dependencies|depends[\s-]+on|blocked[\s-]+by)\b`)
	itemPattern    = regexp.MustCompile(`^[\s>]*(?:[-*+]|\d+[.)])\s`)
	checkedPattern = regexp.MustCompile(`^[\s>]*(?:[-*+]|\d+[.)])\s+\[[xX]\](?:\s|$)`)
	// unmeantPattern matches ~~text~~, and `code` that has a phrase: both `#5` and text around it still count.
	unmeantPattern = regexp.MustCompile("~~[^~]+~~|(?i)(?:^|[^`])`[^`]*\\b(?:depends[\\s-]+on|blocked[\\s-]+by)\\b[^`]*`")
	phrasePattern  = regexp.MustCompile(`(?i)\b(?:depends[\s-]+on|blocked[\s-]+by)\b`)
	// negatedPattern matches the text just before the phrase. Its matches are bounded, as lastBytes requires.
	negatedPattern = regexp.MustCompile(`(?i)(?:\bun-|(?:\bnot|n['’]t|\bnever|\bno longer)[\s*_]{1,8})$`)
	// gluePattern matches the text allowed before and between the references of a phrase: punctuation, a few words, the
	// text of a link to the issue, a remark in parentheses.
	gluePattern = longest("(?i)^(?:[\\s:,;&+/*_~|\"'`<>()\\[\\]-]|" +
		`\b(?:and|or|the|both|either|issues?|prs?|pulls?|pull requests?)\b|\[[^\[\]]*\]\(|\([^()]*\))*`)
)

// longest compiles a pattern that prefers the longest match over the leftmost alternative.
func longest(pattern string) *regexp.Regexp {
	re := regexp.MustCompile(pattern)
	re.Longest()
	return re
}

// dependencyReader reads an issue's visible lines in order.
type dependencyReader struct {
	home    string
	refs    []Ref
	section int  // level of the current section's heading; 0 outside a section
	list    bool // the last phrase ended its line without a reference: a list with references can follow
	wrapped bool // the line before ended amid the references of a phrase
}

func (r *dependencyReader) line(line string) {
	if strings.ContainsAny(line, "~`") { // few lines do
		line = unmeantPattern.ReplaceAllString(line, "")
	}
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
		r.add(mentions(line, r.home))
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
		r.add(all)
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

// follow collects consecutive references of the line, from byte at on. found reports whether there were any; open
// reports whether the row reaches the end of the line, so that it can continue on the next line.
func (r *dependencyReader) follow(line string, at int, all []mention) (found, open bool) {
	glue := at + len(gluePattern.FindString(line[at:]))
	for i, m := range all {
		if m.start < at || m.start > glue || len(gluePattern.FindString(line[at:m.start])) < m.start-at {
			continue // before at, too far away, or inside a remark
		}
		found = true
		r.add(all[i : i+1])
		at = m.end
		glue = at + len(gluePattern.FindString(line[at:]))
	}
	return found, glue == len(line)
}

func (r *dependencyReader) add(found []mention) {
	for _, m := range found {
		r.refs = append(r.refs, m.ref)
	}
}
