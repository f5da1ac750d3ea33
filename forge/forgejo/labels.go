package forgejo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// plainColor is the color of labels that are not in forge.RequiredLabels.
const plainColor = "c5def5"

// Label adds and removes labels by name and can be repeated. It creates a label that the repository lacks, because the
// forge would silently ignore the name. It refuses to remove backlog, because only people withdraw work.
func (c *Client) Label(ctx context.Context, ref forge.Ref, add, remove []string) (err error) {
	ref = c.canonical(ref)
	defer wrap(&err, "label %s", ref)
	if slices.Contains(remove, forge.LabelBacklog) {
		return errors.New("the label backlog is not ours to remove")
	}
	in, err := c.getIssue(ctx, ref)
	if err != nil {
		return err
	}
	if err := c.addLabels(ctx, ref, in, add); err != nil {
		return err
	}
	return c.removeLabels(ctx, ref, in, remove)
}

// addLabels adds those of the named labels that the issue lacks.
func (c *Client) addLabels(ctx context.Context, ref forge.Ref, in *gitea.Issue, names []string) error {
	has := labelNames(in.Labels)
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(has, name) })
	if len(missing) == 0 {
		return nil
	}
	owner, name := owner(ref.Repo)
	for attempt := 0; ; attempt++ {
		ids, err := c.labelIDs(ctx, ref.Repo, missing)
		if err != nil {
			return err
		}
		form := gitea.IssueLabelsOption{Labels: ids}
		g, x := c.sdk(ctx)
		now, _, err := g.AddIssueLabels(owner, name, ref.Number, form)
		if now, err = entries(x, now, err); errors.Is(err, errTooLong) {
			if in, err = c.getIssue(ctx, ref); err == nil {
				now = in.Labels
			}
		}
		if err != nil {
			return err
		}
		got := labelNames(now)
		lost := slices.IndexFunc(missing, func(name string) bool { return !slices.Contains(got, name) })
		if lost < 0 {
			return nil
		}
		if attempt > 0 {
			return fmt.Errorf("the forge dropped the label %s", missing[lost])
		}
		c.forgetLabels(ref.Repo) // a label that we created was deleted
	}
}

// removeLabels removes those of the named labels that the issue has. It uses the ids in the issue, which can have two
// labels with the same name.
func (c *Client) removeLabels(ctx context.Context, ref forge.Ref, in *gitea.Issue, names []string) error {
	for _, label := range in.Labels {
		if label == nil || !slices.Contains(names, label.Name) {
			continue
		}
		err := c.removeLabel(ctx, ref, label.ID)
		if err != nil && statusOf(err) != http.StatusUnprocessableEntity { // 422: the label itself was deleted
			return err
		}
	}
	return nil
}

// labelIDs returns the ids of the named labels, and creates the missing ones.
func (c *Client) labelIDs(ctx context.Context, repo string, names []string) ([]int64, error) {
	known, err := c.repoLabels(ctx, repo)
	if err != nil {
		return nil, err
	}
	var ids []int64
	for _, name := range names {
		id, err := c.labelID(ctx, repo, known, name)
		if err != nil {
			return nil, err
		}
		if id == 0 {
			if id, err = c.createLabel(ctx, repo, describe(name)); err != nil {
				return nil, fmt.Errorf("cannot create the label %s: %w", name, err)
			}
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func describe(name string) forge.Label {
	for _, l := range forge.RequiredLabels() {
		if l.Name == name {
			return l
		}
	}
	return forge.Label{Name: name, Color: plainColor}
}

// mostListed bounds the labels of a repository that are listed. Agents can create labels without end, and a list of
// 50,000 takes a thousand requests.
const mostListed = 1000

// labels are the ids of the labels of a repository and its organisation, by name. They are not modified.
type labels struct {
	ids map[string]int64
	cut bool // the repository has more, which labelID looks up by their name
}

func (c *Client) repoLabels(ctx context.Context, repo string) (labels, error) {
	c.mu.Lock()
	known := c.labels[repo]
	c.mu.Unlock()
	if known.ids != nil {
		return known, nil
	}
	owner, name := owner(repo)
	own, err := newList(c.connection, nil, func(
		g *gitea.Client, page gitea.ListOptions,
	) ([]*gitea.Label, *gitea.Response, error) {
		return g.ListRepoLabels(owner, name, gitea.ListLabelsOptions{ListOptions: page})
	}).upTo(ctx, mostListed)
	if err != nil {
		return labels{}, err
	}
	shared, _, err := newList(c.connection, nil, func(
		g *gitea.Client, page gitea.ListOptions,
	) ([]*gitea.Label, *gitea.Response, error) {
		return g.ListOrgLabels(owner, gitea.ListOrgLabelsOptions{ListOptions: page})
	}).all(ctx)
	if isOutage(err) {
		return labels{}, err // other refusals are not errors: the owner is not an organisation, or hides its labels
	}
	known = labels{map[string]int64{}, len(own) >= mostListed}
	for _, l := range slices.Concat(own, shared) {
		if l != nil && known.ids[l.Name] == 0 {
			known.ids[l.Name] = l.ID
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.labels[repo] = known
	return known, nil
}

// labelID returns the id of a label; 0 if the repository lacks it.
func (c *Client) labelID(ctx context.Context, repo string, known labels, name string) (int64, error) {
	if id := known.ids[name]; id != 0 || !known.cut {
		return id, nil
	}
	l, err := c.label(ctx, repo, name)
	if errors.Is(err, forge.ErrNotFound) || err == nil && l.Name != name { // the forge takes digits for an id
		return 0, nil
	}
	return l.ID, err
}

func (c *Client) createLabel(ctx context.Context, repo string, l forge.Label) (int64, error) {
	owner, name := owner(repo)
	g, x := c.sdk(ctx)
	made, _, err := g.CreateLabel(owner, name,
		gitea.CreateLabelOption{Name: l.Name, Color: "#" + l.Color, Description: l.Description})
	if err = x.end(err); err != nil {
		return 0, err
	}
	c.forgetLabels(repo)
	return made.ID, nil
}

func (c *Client) forgetLabels(repo string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.labels, repo)
}
