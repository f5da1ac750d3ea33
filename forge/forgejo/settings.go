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

// settings are those of the repository on the forge.
type settings struct {
	branch       string // the default one
	style        gitea.MergeStyle
	deleteBranch bool   // after a merge
	dependencies bool   // issues may have dependencies
	off          string // why nothing can be done in it
	readAt       time.Time
}

// readSettings reads the repository's settings.
func (c *Client) readSettings(ctx context.Context, r *repo) (settings, error) {
	in, x, err := read[*gitea.Repository](ctx, c, at(r.name, ""))
	if err != nil {
		return settings{}, err
	}
	return settingsOf(in, r.name, x.began), nil
}

// settingsOf are the settings of a repository that was asked for by a name. Another name in the answer is its new one:
// the forge leads on from the old, for as long as no other repository has that.
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

func offOf(in *gitea.Repository, name string) string {
	switch {
	case in.FullName != "" && !strings.EqualFold(in.FullName, name):
		return fmt.Sprintf("%s is now %s: change [forge] repos", name, oneLine(in.FullName))
	case in.Archived:
		return name + " is archived: unarchive it, or take it out of [forge] repos"
	}
	return ""
}

// noteOff remembers why nothing can be done in a repository, until its settings say otherwise.
func (c *Client) noteOff(name, why string) error {
	if r := c.repo(name); r != nil {
		c.mu.Lock()
		r.settings.off = why
		c.mu.Unlock()
	}
	return offError(why)
}

// offError is a forge.ErrOff with nothing but the reason, which people read.
type offError string

func (e offError) Error() string { return string(e) }

// Unwrap makes it a forge.ErrOff.
func (e offError) Unwrap() error { return forge.ErrOff }

// explain looks for the reason of a refusal in the repository: one that is archived refuses every account.
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

// isOff reads the settings of a repository in which nothing could be done. When that is over, all of it is read anew.
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
