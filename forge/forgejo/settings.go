package forgejo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// settings are the repository's settings on the forge.
type settings struct {
	branch       string // the default branch
	style        gitea.MergeStyle
	deleteBranch bool   // delete the branch after a merge
	dependencies bool   // issues can have dependencies
	off          string // why no account can work in the repository; "" if one can
	readAt       time.Time
}

// readSettings reads the repository's settings.
func (c *Client) readSettings(ctx context.Context, r *repo) (settings, error) {
	in, x, err := c.repository(ctx, r.name)
	if err != nil {
		return settings{}, err
	}
	return settingsOf(in, r.name, x.began), nil
}

// settingsOf converts the settings of a repository that was requested as name. If the answer has another name, the
// repository was renamed: the forge redirects from the old name until another repository takes it.
func settingsOf(in *gitea.Repository, name string, began time.Time) settings {
	return settings{
		off:          offOf(in, name),
		branch:       in.DefaultBranch,
		style:        mergeStyle(in),
		deleteBranch: in.DefaultDeleteBranchAfterMerge,
		dependencies: in.InternalTracker == nil || in.InternalTracker.EnableIssueDependencies,
		readAt:       began,
	}
}

// mergeStyle returns the repository's default merge style, or else the first style that it allows.
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

// settings returns the settings from the last scan, or reads them.
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

func offOf(in *gitea.Repository, name string) string {
	switch {
	case in.FullName != "" && !strings.EqualFold(in.FullName, name):
		return fmt.Sprintf("%s is now %s: change [forge] repos", name, oneLine(in.FullName))
	case in.Archived:
		return name + " is archived: unarchive it, or take it out of [forge] repos"
	}
	return ""
}

// noteOff records why no account can work in a repository, until its settings say otherwise.
func (c *Client) noteOff(name, why string) error {
	if r := c.repo(name); r != nil {
		c.mu.Lock()
		r.settings.off = why
		c.mu.Unlock()
	}
	return offError(why)
}

// offError is a forge.ErrOff whose text is only the reason, for people.
type offError string

func (e offError) Error() string { return string(e) }

// Unwrap returns forge.ErrOff.
func (e offError) Unwrap() error { return forge.ErrOff }

// explain checks whether the repository itself explains a refusal: an archived repository refuses every account.
func (c *Client) explain(ctx context.Context, name string, err error) error {
	r := c.repo(name)
	if r == nil || !errors.Is(err, forge.ErrForbidden) && !errors.Is(err, forge.ErrNotFound) {
		return err
	}
	if s, unread := c.readSettings(ctx, r); unread == nil && s.off != "" {
		return c.noteOff(name, s.off)
	}
	return err
}

// isOff re-reads the settings of a repository in which no account could work. Once one can, the next scan lists all of
// it.
func (c *Client) isOff(ctx context.Context, r *repo) (bool, error) {
	c.mu.Lock()
	off := r.settings.off != ""
	c.mu.Unlock()
	if !off {
		return false, nil
	}
	s, err := c.readSettings(ctx, r)
	if err != nil {
		return true, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.settings, r.fullAt = s, time.Time{}
	return s.off != "", nil
}
