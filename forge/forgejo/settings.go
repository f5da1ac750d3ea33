package forgejo

import (
	"context"
	"time"

	"code.gitea.io/sdk/gitea"
)

// settings are those of the repository on the forge.
type settings struct {
	branch       string // the default one
	style        gitea.MergeStyle
	deleteBranch bool // after a merge
	dependencies bool // issues may have dependencies
	readAt       time.Time
}

// readSettings reads the repository's settings.
func (c *Client) readSettings(ctx context.Context, r *repo) (settings, error) {
	in, x, err := read[*gitea.Repository](ctx, c, at(r.name, ""))
	if err != nil {
		return settings{}, err
	}
	return settingsOf(in, x.began), nil
}

func settingsOf(in *gitea.Repository, began time.Time) settings {
	return settings{
		branch:       in.DefaultBranch,
		style:        mergeStyle(in),
		deleteBranch: in.DefaultDeleteBranchAfterMerge,
		dependencies: in.InternalTracker == nil || in.InternalTracker.EnableIssueDependencies,
		readAt:       began,
	}
}

// mergeStyle is the repository's default, or the first style that it allows.
func mergeStyle(in *gitea.Repository) gitea.MergeStyle {
	if in.DefaultMergeStyle != "" {
		return in.DefaultMergeStyle
	}
	switch {
	case in.AllowMerge:
		return gitea.MergeStyleMerge
	case in.AllowSquash:
		return gitea.MergeStyleSquash
	case in.AllowRebase:
		return gitea.MergeStyleRebase
	case in.AllowRebaseMerge:
		return gitea.MergeStyleRebaseMerge
	case in.AllowFastForwardOnlyMerge:
		return gitea.MergeStyleFastForwardOnly
	}
	return gitea.MergeStyleMerge
}

// settings returns those of the last scan, or reads them.
func (c *Client) settings(ctx context.Context, name string) (settings, error) {
	r := c.repo(name)
	if r == nil {
		r = newRepo(name)
	}
	c.mu.Lock()
	s := r.settings
	c.mu.Unlock()
	if !s.readAt.IsZero() {
		return s, nil
	}
	return c.readSettings(ctx, r)
}
