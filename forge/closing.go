package forge

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	// branchPattern is the branch of an issue; the second number counts new tries, as upstream names them.
	branchPattern = regexp.MustCompile(`^fix/issue-(\d+)(?:-\d+)?$`)
	// closingPattern is Forgejo's default list of closing keywords, up to the reference. Forgejo wants exactly one space.
	// We also accept emphasis: a pull request that we do not recognise would let its issue start a second time.
	closingPattern = regexp.MustCompile(
		`(?i)(?:^|[\s(\[*_])(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)[*_]{0,3}:?[*_]{0,3}[ \t]{1,8}$`)
)

// Closes returns the issues that a pull request of repo is for: sorted, each once. They are named by the branch and by
// closing keywords in title and text, as Forgejo reads them at a merge: each keyword counts for the one reference after
// it, so "fixes #1, #2" is for #1. Fenced code and comments are ignored.
func Closes(head, title, body, repo string) []Ref {
	var refs []Ref
	if m := branchPattern.FindStringSubmatch(head); m != nil {
		if n, err := strconv.ParseInt(m[1], 10, 64); err == nil && n > 0 {
			refs = append(refs, Ref{Repo: repo, Number: n})
		}
	}
	for _, line := range append(visibleLines(body), title) {
		for _, m := range mentions(line, repo) {
			if closingPattern.MatchString(lastBytes(line[:m.start])) {
				refs = append(refs, m.ref)
			}
		}
	}
	slices.SortFunc(refs, Ref.Compare)
	return slices.Compact(refs)
}

// draftPrefixes are Forgejo's defaults for work in progress, and Draft:, which other forges use.
var draftPrefixes = []string{"WIP:", "[WIP]", "DRAFT:"}

// IsDraft reports whether a pull request is not to be reviewed or merged yet: by the forge's own flag, or by a title
// that begins with WIP:, [WIP] or Draft:, in upper or lower case.
func IsDraft(title string, draft bool) bool {
	title = strings.ToUpper(strings.TrimSpace(title))
	return draft || slices.ContainsFunc(draftPrefixes, func(p string) bool { return strings.HasPrefix(title, p) })
}
