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
	// longBody is how long a text in a list may be, in bytes, before only its references are kept.
	longBody = 2 << 10
	// mostNamed bounds the references that are kept of a long text.
	mostNamed = 1000
	// mostUnread bounds the answers that an error of a scan names.
	mostUnread = 5
)

// slim drops of an entry of a list what nothing is decided on: a repository may have thousands, and their authors
// decide how long they are.
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
		in.Milestone = nil
	case *gitea.PullRequest:
		if in == nil {
			return
		}
		if in.Base != nil && in.Base.Repository != nil {
			in.Body = gist(in.Body, forge.Ref{Repo: in.Base.Repository.FullName, Number: in.Index})
		}
		in.Milestone = nil
	}
}

// gist is a text with the same references, which are all that scans read of it. A short one stays as it is, and one
// with more than mostNamed counts as cut.
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

// idOf is the number of an entry of a list; 0 without one.
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
	case event:
		return in.ID
	}
	return 0
}

// noteUnread remembers, for the error of the scan, a list with entries that could not be read.
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

// takeUnread returns the notes as an error, and forgets them.
func (c *Client) takeUnread() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for at, n := range c.misread {
		errs = append(errs, fmt.Errorf("%d entries of %s cannot be read and are left out", n, at))
	}
	c.misread = nil
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}
