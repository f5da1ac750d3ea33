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
	noPush       string // why no agent can push the branch of an issue; "" if one can
	lfs          bool   // the repository uses Git LFS
	readAt       time.Time
}

// settingsEvery is how often the settings are read: no list of changes shows that the repository was archived, that its
// default branch has another name, or that it was emptied.
const settingsEvery = 5 * time.Minute

// readSettings reads the repository's settings; obstacles that they do not show are those of the last reading.
func (c *Client) readSettings(ctx context.Context, r *repo) (settings, error) {
	s, _, err := c.readRepo(ctx, r)
	return s, err
}

func (c *Client) readRepo(ctx context.Context, r *repo) (s settings, in *gitea.Repository, err error) {
	in, x, err := c.repository(ctx, r.name)
	if err != nil {
		return settings{}, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s = settingsOf(in, r.name, x.began)
	s.noPush, s.lfs = r.settings.noPush, r.settings.lfs
	return s, in, nil
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
	case in.Empty:
		return name + " is empty: push a first commit to it"
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

// isOff reports whether no account can work in a repository. It re-reads the settings where they name an obstacle, and
// where they may have changed. Once an account can work again, the next scan lists all of the repository.
func (c *Client) isOff(ctx context.Context, r *repo) (bool, error) {
	c.mu.Lock()
	old, due := r.settings, r.settingsDue(time.Now())
	c.mu.Unlock()
	if !due {
		return false, nil
	}
	s, in, err := c.readRepo(ctx, r)
	if err != nil {
		return old.off != "", err
	}
	if old.noPush != "" {
		c.readObstacles(ctx, in, &s)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.settings, r.moved = s, false; old.off != "" {
		r.fullAt = time.Time{}
	}
	return s.off != "", nil
}

// settingsDue reports whether the settings have to be read before the next list of changes. The first scan and those
// that list everything read them anyway.
func (r *repo) settingsDue(now time.Time) bool {
	if r.settings.readAt.IsZero() {
		return false
	}
	return r.settings.off != "" || r.settings.noPush != "" || r.moved || now.Sub(r.settings.readAt) >= settingsEvery ||
		r.elsewhere()
}

// elsewhere reports whether a pull request that was read after the settings goes to another branch than the default
// branch, which may have another name by now.
func (r *repo) elsewhere() bool {
	for _, p := range r.pulls {
		if !p.Closed && p.Base != "" && p.Base != r.settings.branch && p.detailsAt.After(r.settings.readAt) {
			return true
		}
	}
	return false
}

// usable re-reads the settings of a repository before work in it begins, unless they were read within freshFor. It
// returns an error if no account can work there.
func (c *Client) usable(ctx context.Context, name string) error {
	r := c.repo(name)
	if r == nil {
		return nil
	}
	c.mu.Lock()
	s := r.settings
	c.mu.Unlock()
	if time.Since(s.readAt) >= freshFor {
		var err error
		if s, err = c.readSettings(ctx, r); err != nil {
			return err
		}
		c.mu.Lock()
		r.settings = s
		c.mu.Unlock()
	}
	if s.off != "" {
		return offError(s.off)
	}
	return nil
}

// freshFor is how long settings count as read just now.
const freshFor = 30 * time.Second
