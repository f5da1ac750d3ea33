package localforge

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var labelColor = regexp.MustCompile(`^#?(?:[0-9a-fA-F]{3}){1,2}$`)

type label struct {
	id   int64
	name string // not unique: Forgejo allows two labels with the same name
}

var labelRoutes = []route{
	{"GET /repos/{owner}/{repo}/labels", scopeIssue, anyone, 200, listLabels, underLock},
	{"POST /repos/{owner}/{repo}/labels", scopeIssue, repoWriter, 201, createLabel, underLock},
	{"GET /repos/{owner}/{repo}/labels/{id}", scopeIssue, anyone, 200, getLabel, underLock},
	{"PATCH /repos/{owner}/{repo}/labels/{id}", scopeIssue, repoWriter, 200, editLabel, underLock},
	{"DELETE /repos/{owner}/{repo}/labels/{id}", scopeIssue, repoWriter, 204, deleteLabel, underLock},
	{"GET /repos/{owner}/{repo}/issues/{number}/labels", scopeIssue, anyone, 200, listIssueLabels, underLock},
	{"POST /repos/{owner}/{repo}/issues/{number}/labels", scopeIssue, signedIn, 200, addIssueLabels, underLock},
	{"DELETE /repos/{owner}/{repo}/issues/{number}/labels/{id}", scopeIssue, signedIn, 204, removeIssueLabel, underLock},
}

type wireLabel struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
}

func (l *label) wire() *wireLabel { return &wireLabel{l.id, l.name} }

func wireLabels(labels []*label) []*wireLabel {
	list := make([]*wireLabel, 0, len(labels))
	for _, l := range labels {
		list = append(list, l.wire())
	}
	return list
}

func byName(a, b *label) int {
	if by := strings.Compare(a.name, b.name); by != 0 {
		return by
	}
	return int(a.id - b.id)
}

func listLabels(c *call) (any, error) {
	return paged(c, c.repo.labels, (*label).wire), nil
}

// getLabel reads a label by its id or, if that is no number, by its name.
func getLabel(c *call) (any, error) {
	l, err := c.pathLabel()
	if _, digits := strconv.ParseInt(c.r.PathValue("id"), 10, 64); digits != nil {
		i := slices.IndexFunc(c.repo.labels, func(l *label) bool { return l.name == c.r.PathValue("id") })
		if i < 0 {
			return nil, notFound()
		}
		l, err = c.repo.labels[i], nil
	}
	if err != nil {
		return nil, err
	}
	return l.wire(), nil
}

func (c *call) pathLabel() (*label, error) {
	id := c.number("id")
	for _, l := range c.repo.labels {
		if l.id == id {
			return l, nil
		}
	}
	return nil, notFound()
}

type labelForm struct {
	Name  *string `json:"name"`
	Color *string `json:"color"`
}

func (form labelForm) apply(l *label) error {
	if form.Color != nil && !labelColor.MatchString(strings.TrimSpace(*form.Color)) {
		return fail(http.StatusUnprocessableEntity, "bad color code: %s", *form.Color)
	}
	assign(&l.name, form.Name)
	return nil
}

func createLabel(c *call) (any, error) {
	var form labelForm
	if err := c.bind(&form); err != nil {
		return nil, err
	}
	if form.Name == nil || *form.Name == "" {
		return nil, missing("Name")
	}
	if form.Color == nil || *form.Color == "" {
		return nil, missing("Color")
	}
	l := &label{id: c.f.nextIDLocked()}
	if err := form.apply(l); err != nil {
		return nil, err
	}
	c.repo.labels = append(slices.Clone(c.repo.labels), l)
	slices.SortFunc(c.repo.labels, byName)
	return l.wire(), nil
}

func editLabel(c *call) (any, error) {
	l, err := c.pathLabel()
	if err != nil {
		return nil, err
	}
	var form labelForm
	if err := c.bind(&form); err != nil {
		return nil, err
	}
	if err := form.apply(l); err != nil {
		return nil, err
	}
	slices.SortFunc(c.repo.labels, byName)
	return l.wire(), nil
}

func deleteLabel(c *call) (any, error) {
	l, err := c.pathLabel()
	if err != nil {
		return nil, nil // Forgejo answers 204 for an unknown label too
	}
	c.repo.labels = remove(c.repo.labels, l)
	for _, i := range c.repo.issues {
		i.labels = remove(i.labels, l)
	}
	return nil, nil
}

// labelsNamed looks up labels by name. It silently ignores unknown names, so a filter by only an unknown label matches
// all issues.
func (r *repo) labelsNamed(names []string) []*label {
	var found []*label
	for _, l := range r.labels {
		if slices.Contains(names, l.name) {
			found = append(found, l)
		}
	}
	return found
}

func (r *repo) labelsByID(ids []int64) []*label {
	var found []*label
	for _, l := range r.labels {
		if slices.Contains(ids, l.id) {
			found = append(found, l)
		}
	}
	return found
}

func listIssueLabels(c *call) (any, error) {
	i, err := c.pathIssue()
	if err != nil {
		return nil, err
	}
	return wireLabels(i.labels), nil
}

// requestedLabels returns the issue of a request and the labels that its body lists, by name or by id.
func (c *call) requestedLabels() (*issue, []*label, error) {
	i, err := c.pathIssue()
	if err != nil {
		return nil, nil, err
	}
	var form struct {
		Labels []json.RawMessage `json:"labels"`
	}
	if err := c.bind(&form); err != nil {
		return nil, nil, err
	}
	var names []string
	var ids []int64
	for _, item := range form.Labels {
		var name string
		var id int64
		if json.Unmarshal(item, &name) == nil {
			names = append(names, name)
		} else if json.Unmarshal(item, &id) == nil {
			ids = append(ids, id)
		}
	}
	if len(names) > 0 && len(ids) > 0 {
		return nil, nil, fail(http.StatusBadRequest, "labels should be an array of strings or integers")
	}
	if c.access < accessWrite {
		return nil, nil, forbidden()
	}
	return i, append(c.repo.labelsNamed(names), c.repo.labelsByID(ids)...), nil
}

func addIssueLabels(c *call) (any, error) {
	i, asked, err := c.requestedLabels()
	if err != nil {
		return nil, err
	}
	c.addLabels(i, asked)
	return wireLabels(i.labels), nil
}

// removeIssueLabel answers 204 even if the issue does not have the label.
func removeIssueLabel(c *call) (any, error) {
	i, err := c.pathIssue()
	if err != nil {
		return nil, err
	}
	if c.access < accessWrite {
		return nil, forbidden()
	}
	l, err := c.pathLabel()
	if err != nil {
		return nil, fail(http.StatusUnprocessableEntity, "label does not exist [label_id: %d]", c.number("id"))
	}
	c.removeLabel(i, l)
	return nil, nil
}

// addLabels adds labels to an issue, each with an entry in the timeline. A label that the issue already has changes
// nothing, not even updated_at.
func (c *call) addLabels(i *issue, labels []*label) {
	changed := false
	for _, l := range labels {
		if slices.Contains(i.labels, l) {
			continue
		}
		i.labels = append(slices.Clone(i.labels), l)
		slices.SortFunc(i.labels, byName)
		c.record(i, &comment{kind: "label", label: l, body: "1"})
		changed = true
	}
	if changed {
		c.notifyIssue(i, eventLabel, "label_updated")
	}
}

func (c *call) removeLabel(i *issue, l *label) {
	if !slices.Contains(i.labels, l) {
		return
	}
	i.labels = remove(i.labels, l)
	c.record(i, &comment{kind: "label", label: l})
	c.notifyIssue(i, eventLabel, "label_updated")
}
