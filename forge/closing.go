package forge

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	// branchPattern matches the branch of an issue. The second number, as in upstream's names, counts the retries.
	branchPattern = regexp.MustCompile(`^fix/issue-(\d+)(?:-\d+)?$`)
	// closingPattern matches Forgejo's default closing keywords, up to the reference. Forgejo wants exactly one space
	// after the keyword. We also accept emphasis: an issue whose pull request we fail to recognise would start a second
	// time.
	closingPattern = regexp.MustCompile(
		`(?i)(?:^|[\s(\[*_])(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)[*_]{0,3}:?[*_]{0,3}[ \t]{1,8}$`)
)

// Closes returns the issues that a pull request of repo closes: sorted, without duplicates. The branch name and the
// closing keywords in title and body name them, and the keywords are read as Forgejo reads them at a merge: each one
// counts for the single reference after it, so "fixes #1, #2" closes only #1. Fenced code and HTML comments are
// ignored.
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

// draftPrefixes are Forgejo's default prefixes for work in progress, plus DRAFT:, which other forges use.
var draftPrefixes = []string{"WIP:", "[WIP]", "DRAFT:"}

// IsDraft reports whether a pull request is not ready for review or merge: draft is the forge's own flag, and a title
// that begins with WIP:, [WIP] or Draft:, in upper or lower case, has the same effect.
func IsDraft(title string, draft bool) bool {
	title = strings.ToUpper(strings.TrimSpace(title))
	return draft || slices.ContainsFunc(draftPrefixes, func(p string) bool { return strings.HasPrefix(title, p) })
}
