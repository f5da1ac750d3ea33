package forgejo

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

const (
	// longBody is the length in bytes above which a text in a list is reduced to its references.
	longBody = 2 << 10
	// mostNamed bounds how many references of a long text are stored.
	mostNamed = 1000
	// mostUnread bounds how many answers a scan's error names.
	mostUnread = 5
)

// slim drops the parts of a list's entry that no decision needs: a repository can have thousands of entries, and their
// authors decide how long they are.
func slim(entry any) {
	switch in := entry.(type) {
	case *gitea.Issue:
		if in == nil {
			return
		}
		repo := ""
		if in.Repository != nil {
			repo = in.Repository.FullName
		}
		in.Body = gist(in.Body, forge.Ref{Repo: repo, Number: in.Index})
		unname(in.Milestone)
	case *gitea.PullRequest:
		if in == nil {
			return
		}
		if in.Base != nil && in.Base.Repository != nil {
			in.Body = gist(in.Body, forge.Ref{Repo: in.Base.Repository.FullName, Number: in.Index})
		}
		unname(in.Milestone)
	}
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

// idOf returns the id of a list's entry; 0 if it has none.
func idOf(entry any) int64 {
	switch in := entry.(type) {
	case *gitea.Issue:
		if in != nil {
			return in.ID
		}
	case *gitea.PullRequest:
		if in != nil {
			return in.ID
		}
	case *gitea.Comment:
		if in != nil {
			return in.ID
		}
	case *gitea.PullReview:
		if in != nil {
			return in.ID
		}
	case *gitea.Status:
		if in != nil {
			return in.ID
		}
	case *gitea.User:
		if in != nil {
			return in.ID
		}
	case forge.Token:
		return in.ID
	case event:
		return in.ID
	}
	return 0
}

// noteUnread records, for the error of the scan, a list with entries that could not be read.
func (c *Client) noteUnread(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.misread == nil {
		c.misread = map[string]int{}
	}
	if _, known := c.misread[x.at]; known || len(c.misread) < mostUnread {
		c.misread[x.at] = x.dropped
	}
}

// takeUnread returns the recorded lists as an error, and forgets them.
func (c *Client) takeUnread() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for at, n := range c.misread {
		errs = append(errs, fmt.Errorf("left out %d unreadable entries of %s", n, at))
	}
	c.misread = nil
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}
