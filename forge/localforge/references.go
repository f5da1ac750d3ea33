package localforge

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// reference is a mention of an issue in a text, with its effect at a merge or push: "closes", "reopens" or "none".
type reference struct {
	owner, repo string // empty: the repository of the text
	number      int64
	action      string
}

var (
	mentioned = regexp.MustCompile(`(?:([0-9A-Za-z_.-]+)/([0-9A-Za-z_.-]+))?[#!]([0-9]+)`)
	// A keyword counts if, apart from an optional colon, exactly one space separates it from the reference; "fixes #1,
	// #2" closes only #1.
	closing   = regexp.MustCompile(`(?i)(?:^|[\s(\[])(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):? $`)
	reopening = regexp.MustCompile(`(?i)(?:^|[\s(\[])reopen(?:s|ed)?:? $`)

	fenced = regexp.MustCompile("(?ms)^ {0,3}(?:```|~~~).*?(?:^ {0,3}(?:```|~~~)[ \t]*$|\\z)")
	inCode = regexp.MustCompile("`[^`\n]*`")
)

// longestWord is longer than the longest keyword. Matching the whole text before each reference took 13 s for a text
// with 1,000 references, with the race detector.
const longestWord = 16

// plain removes code from Markdown, because references in code do not count.
func plain(markdown string) string {
	markdown = strings.ReplaceAll(markdown, "\r\n", "\n")
	return inCode.ReplaceAllString(fenced.ReplaceAllString(markdown, ""), "")
}

// references finds the references in a text.
func references(text string) []reference {
	var found []reference
	for _, at := range mentioned.FindAllStringSubmatchIndex(text, -1) {
		before, after := text[:at[0]], text[at[1]:]
		if !opensReference(before) || !endsReference(after) {
			continue
		}
		ref := reference{action: "none"}
		ref.number, _ = strconv.ParseInt(text[at[6]:at[7]], 10, 64)
		if at[2] >= 0 {
			ref.owner, ref.repo = text[at[2]:at[3]], text[at[4]:at[5]]
		}
		word := before[max(0, len(before)-longestWord):]
		if closing.MatchString(word) {
			ref.action = "closes"
		} else if reopening.MatchString(word) {
			ref.action = "reopens"
		}
		found = append(found, ref)
	}
	return found
}

func opensReference(before string) bool {
	return before == "" || strings.ContainsAny(before[len(before)-1:], " \t\r\n([\"'")
}

// endsReference reports whether the text after a reference begins with a space, a bracket, a quote, or punctuation that
// ends a word.
func endsReference(after string) bool {
	if after == "" || strings.ContainsAny(after[:1], " \t\r\n)]\"'") {
		return true
	}
	return strings.ContainsAny(after[:1], ":;,.?!") && (len(after) == 1 || strings.ContainsAny(after[1:2], " \t\r\n"))
}

// resolve looks up the issues that a text of r mentions, without duplicates. If one mention of an issue has an action,
// that action is returned.
func (f *Forge) resolve(r *repo, refs []reference) (issues []*issue, actions []string) {
	for _, ref := range refs {
		in := r
		if ref.owner != "" {
			in = f.repoLocked(ref.owner, ref.repo)
		}
		if in == nil {
			continue
		}
		i := in.issue(ref.number)
		if i == nil {
			continue
		}
		at := slices.Index(issues, i)
		if at < 0 {
			issues, actions = append(issues, i), append(actions, ref.action)
		} else if ref.action != "none" {
			actions[at] = ref.action
		}
	}
	return issues, actions
}

// mention adds an entry to the timeline of each issue that i, or the comment m on it, mentions. The entry changes the
// issue's updated_at. An entry that already exists is not repeated.
func (v view) mention(i *issue, m *comment) {
	text, kind := i.title+"\n\n"+plain(i.body), "issue_ref"
	if i.pull != nil {
		kind = "pull_ref"
	}
	if m != nil {
		text, kind = plain(m.body), "comment_ref"
	}
	others, actions := v.f.resolve(i.repo, references(text))
	for at, other := range others {
		if other == i || other.repo.accessOf(v.doer) == accessNone {
			continue
		}
		action := actions[at]
		if i.pull == nil || other.pull != nil {
			action = "none"
		}
		known := slices.ContainsFunc(other.timeline, func(line *comment) bool {
			return line.other == i && line.kind == kind && line.action == action
		})
		if !known {
			v.record(other, &comment{kind: kind, other: i, action: action})
		}
	}
}

// closedByMerge closes and reopens the issues that a merged pull request names with a keyword in its title, body or
// comments. An issue with open dependencies silently stays open. To close an issue in another repository, the author of
// the text needs the right to do so.
func (v view) closedByMerge(i *issue) {
	refs := references(i.title + "\n\n" + plain(i.body))
	v.closeOrReopen(i.repo, refs, func(other *issue) bool { return other.repo == i.repo || mayClose(i.poster, other) })
	for _, m := range i.comments(time.Time{}) {
		v.closeOrReopen(i.repo, references(plain(m.body)), func(other *issue) bool { return mayClose(m.poster, other) })
	}
}

// namedByCommit adds a pushed commit to the timeline of each issue that its message mentions, unless it is there
// already. On the default branch it also closes and reopens issues by the message's keywords.
func (v view) namedByCommit(r *repo, co commit, onDefault bool) {
	refs := references(co.message)
	issues, _ := v.f.resolve(r, refs)
	for _, i := range issues {
		known := slices.ContainsFunc(i.timeline, func(m *comment) bool {
			return m.kind == "commit_ref" &&
				m.commit == co.sha
		})
		if !known && i.repo.accessOf(v.doer) > accessNone {
			v.record(i, &comment{kind: "commit_ref", commit: co.sha})
		}
	}
	if onDefault {
		v.closeOrReopen(r, refs, func(other *issue) bool { return mayClose(v.doer, other) })
	}
}

func mayClose(u *user, i *issue) bool {
	return u == i.poster || i.repo.accessOf(u) >= accessWrite
}

func (v view) closeOrReopen(r *repo, refs []reference, allowed func(*issue) bool) {
	issues, actions := v.f.resolve(r, refs)
	for at, other := range issues {
		if other.pull != nil || actions[at] == "none" || !allowed(other) {
			continue
		}
		if closed := actions[at] == "closes"; closed != other.closed {
			_ = v.setClosed(other, closed) // Forgejo ignores the error too
		}
	}
}
