package forgejo

import (
	"slices"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// issueOf converts an issue.
func issueOf(repo string, in *gitea.Issue, began time.Time) forge.Issue {
	is := forge.Issue{
		Ref:       forge.Ref{Repo: repo, Number: in.Index},
		Title:     in.Title,
		Body:      in.Body,
		Author:    loginOf(in.Poster),
		Closed:    in.State == gitea.StateClosed,
		Labels:    labelNames(in.Labels),
		Assignees: logins(in.Assignees),
		Created:   in.Created,
		Updated:   in.Updated,
		AsOf:      began,
		Cut:       wasCut(in.Body),
	}
	if is.Closed {
		is.Ended = timeOf(in.Closed)
	}
	return is
}

// pullOf converts a pull request. Reviews, checks and ConflictSince are not part of in.
func pullOf(repo string, in *gitea.PullRequest, began time.Time) forge.Pull {
	p := forge.Pull{
		Ref:       forge.Ref{Repo: repo, Number: in.Index},
		Title:     in.Title,
		Body:      in.Body,
		Author:    loginOf(in.Poster),
		Labels:    labelNames(in.Labels),
		Assignees: logins(in.Assignees),
		Closed:    in.State == gitea.StateClosed,
		Merged:    in.HasMerged,
		Draft:     forge.IsDraft(in.Title, in.Draft),
		Created:   timeOf(in.Created),
		Updated:   timeOf(in.Updated),
		AsOf:      began,
	}
	if p.Merged {
		p.Ended = timeOf(in.Merged)
	} else if p.Closed {
		p.Ended = timeOf(in.Closed)
	}
	p.MergeBase = in.MergeBase
	if in.Base != nil {
		p.Base = in.Base.Ref
	}
	if in.Head != nil {
		p.HeadSHA = in.Head.Sha
		p.Head = in.Head.Name // Ref is refs/pull/N/head once the branch is deleted
		if p.Head == "" {
			p.Head = in.Head.Ref
		}
		if in.Head.Repository != nil {
			p.HeadRepo = in.Head.Repository.FullName
		}
	}
	p.Closes = forge.Closes(p.Head, p.Title, p.Body, repo)
	return p
}

func reviewOf(in *gitea.PullReview) (forge.Review, bool) {
	r := forge.Review{
		ID:        in.ID,
		Author:    loginOf(in.Reviewer),
		CommitSHA: in.CommitID,
		Dismissed: in.Dismissed,
		Official:  in.Official,
		Submitted: in.Submitted,
		Body:      in.Body,
	}
	switch in.State {
	case gitea.ReviewStateApproved:
		r.Verdict = forge.Approved
	case gitea.ReviewStateRequestChanges:
		r.Verdict = forge.ChangesRequested
	case gitea.ReviewStateComment:
		r.Verdict = forge.Commented
	default: // not submitted, or only requested
		return r, false
	}
	return r, true
}

func reviewsOf(in []*gitea.PullReview) []forge.Review {
	reviews := make([]forge.Review, 0, len(in))
	for _, one := range in {
		if one == nil {
			continue
		}
		if r, ok := reviewOf(one); ok {
			reviews = append(reviews, r)
		}
	}
	slices.SortFunc(reviews, func(a, b forge.Review) int {
		if c := a.Submitted.Compare(b.Submitted); c != 0 {
			return c
		}
		return int(a.ID - b.ID) // the forge's times are whole seconds
	})
	return reviews
}

// statusesOf converts reports, and returns the time of the newest one.
func statusesOf(in []*gitea.Status) (all []forge.Status, newest time.Time) {
	for _, s := range in {
		if s == nil {
			continue
		}
		all = append(all, forge.Status{ID: s.ID, Context: s.Context, State: string(s.State)})
		if s.Updated.After(newest) {
			newest = s.Updated
		}
	}
	return all, newest
}

func labelNames(in []*gitea.Label) []string {
	var names []string
	for _, l := range in {
		if l != nil {
			names = append(names, l.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names) // a repository can have two labels with the same name
}

func logins(in []*gitea.User) []string {
	var names []string
	for _, u := range in {
		if u != nil {
			names = append(names, u.UserName)
		}
	}
	slices.Sort(names)
	return names
}

// loginOf returns the login, or "" for an account that the forge hides.
func loginOf(u *gitea.User) string {
	if u == nil {
		return ""
	}
	return u.UserName
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
