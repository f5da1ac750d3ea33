package forgetest

import (
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
)

func (m *model) Like(login string, ref forge.Ref, comment int64) {
	it := m.at(ref)
	for i := range it.comments {
		if it.comments[i].id == comment {
			it.comments[i].likes = append(it.comments[i].likes, login)
		}
	}
}

func (m *model) Tag(login string, ref forge.Ref, label string) {
	it := m.at(ref)
	it.label([]string{label}, nil)
	it.approvedBy = login
}

// say adds a comment.
func (m *model) say(it *modelItem, login, body, key string) {
	it.comments = append(it.comments, modelComment{login: login, body: body, key: key, id: m.number(), at: time.Now()})
	it.touch()
}

// talk returns the comments of an item as a scan shows them.
func (c *modelClient) talk(r *modelRepo, it *modelItem) (t forge.Talk) {
	is := &it.issue
	if !is.Has(forge.LabelNeedsAnswer) && !is.Has(forge.LabelPlanFirst) && c.m.flaw != "all comments are read" {
		return t
	}
	for _, said := range it.comments {
		m := forge.Remark{ID: said.id, Author: said.login, Key: said.key, Writer: slices.Contains(r.writers, said.login)}
		for _, login := range said.likes {
			if slices.Contains(r.writers, login) && c.m.flaw != "no plan is liked" || c.m.flaw == "strangers like plans" {
				m.Likes = append(m.Likes, login)
			}
		}
		counts := m.Writer && !slices.Contains(c.s.Agents, m.Author) || m.Author == is.Author ||
			c.m.flaw == "agents answer" && m.Writer || c.m.flaw == "strangers answer" && !m.Writer
		command := forge.IsCommand(said.body) && c.m.flaw != "commands are answers"
		if m.Key != "" || counts && !command {
			t.Remarks = append(t.Remarks, m)
		}
	}
	if c.m.flaw != "old answers are shown" {
		t.Remarks = forge.Relevant(t.Remarks)
	}
	t.Known = true
	if is.Has(forge.LabelPlanApproved) && c.m.flaw != "labels have no account" {
		t.ApprovedBy = it.approvedBy
	}
	return t
}

// keyIn returns the key in a comment's hidden mark.
func keyIn(mark string) string { return strings.TrimSuffix(strings.TrimPrefix(mark, "<!-- "), " -->") }
