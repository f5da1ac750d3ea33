package forgejo

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

const (
	// longBody is the length in bytes above which a text in a list is reduced to its references.
	longBody = 2 << 10
	// mostNamed bounds how many references of a long text are stored.
	mostNamed = 1000
	// mostNamedInAll bounds the references that are stored for all issues of a repository: 5 MB.
	mostNamedInAll = 200_000
	// mostUnread bounds how many answers a scan's error names.
	mostUnread = 5
)

// slimIssue keeps of a list's entry only what decisions need: a repository can have thousands of entries, and their
// authors decide how long they are. A text is needed where it may name what the issue waits for, or what it has as
// members, or what a pull request is for; whoever adds the label backlog later changes the issue, and it is read again.
func slimIssue(in *gitea.Issue) {
	slim := gitea.Issue{
		ID: in.ID, Index: in.Index, Title: in.Title, State: in.State, Labels: slimLabels(in.Labels),
		Poster: slimUser(in.Poster), PullRequest: in.PullRequest,
		Created: in.Created, Updated: in.Updated, Closed: in.Closed,
	}
	for _, u := range in.Assignees {
		slim.Assignees = append(slim.Assignees, slimUser(u))
	}
	repo := ""
	if in.Repository != nil {
		repo = in.Repository.FullName
		slim.Repository = &gitea.RepositoryMeta{FullName: repo}
	}
	if in.PullRequest != nil || hasLabel(in, forge.LabelBacklog) || hasLabel(in, forge.LabelConvoy) {
		slim.Body = gist(in.Body, forge.Ref{Repo: repo, Number: in.Index})
	}
	*in = slim
}

func slimUser(u *gitea.User) *gitea.User {
	if u == nil {
		return nil
	}
	return &gitea.User{UserName: u.UserName}
}

func slimLabels(labels []*gitea.Label) (slim []*gitea.Label) {
	for _, l := range labels {
		if l != nil {
			slim = append(slim, &gitea.Label{Name: l.Name})
		}
	}
	return slim
}

// slimPull is slimIssue for a pull request.
func slimPull(in *gitea.PullRequest) {
	if in.Base != nil && in.Base.Repository != nil {
		in.Body = gist(in.Body, forge.Ref{Repo: in.Base.Repository.FullName, Number: in.Index})
	}
	unname(in.Milestone)
}

// unname drops the texts of a milestone, because its author decides how long they are.
func unname(m *gitea.Milestone) {
	if m != nil {
		m.Title, m.Description = "", ""
	}
}

// gist returns a text with the same references, because scans need nothing else of a text. A short text stays
// unchanged. A text with more than mostNamed references counts as cut.
func gist(body string, of forge.Ref) string {
	if len(body) <= longBody || of.Repo == "" {
		return body
	}
	var short strings.Builder
	cut := wasCut(body)
	add := func(word string, refs []forge.Ref) {
		cut = cut || len(refs) > mostNamed
		for _, ref := range refs[:min(len(refs), mostNamed)] {
			fmt.Fprintf(&short, "%s %s\n\n", word, ref)
		}
	}
	add("Depends on", forge.Dependencies(body, of))
	add("Fixes", forge.Closes("", "", body, of.Repo))
	if cut {
		short.WriteString(cutMark)
	}
	return short.String()
}

// misread counts the entries of lists that could not be read, by request. The zero value has none.
type misread struct {
	mu sync.Mutex
	by map[string]int
}

// record records, for the error of the scan, a list with entries that could not be read.
func (m *misread) record(x *exchange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.by == nil {
		m.by = map[string]int{}
	}
	if _, known := m.by[x.at()]; known || len(m.by) < mostUnread {
		m.by[x.at()] = x.dropped
	}
}

// drain returns the recorded lists as an error, and forgets them.
func (m *misread) drain() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for at, n := range m.by {
		errs = append(errs, fmt.Errorf("left out %d unreadable entries of %s", n, at))
	}
	m.by = nil
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}
