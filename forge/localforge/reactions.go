package localforge

import (
	"net/http"
	"slices"
	"time"
)

// reaction is an account's reaction to a comment.
type reaction struct {
	by      *user
	content string
	at      time.Time
}

var reactionRoutes = []route{
	{"GET /repos/{owner}/{repo}/issues/comments/{id}/reactions", scopeIssue, anyone, 200, listReactions, underLock},
	{"POST /repos/{owner}/{repo}/issues/comments/{id}/reactions", scopeIssue, signedIn, 201, react, underLock},
}

// allowedReactions are Forgejo's default reactions.
var allowedReactions = []string{"+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes"}

type wireReaction struct {
	User    *wireUser `json:"user"`
	Content string    `json:"content"`
	Created time.Time `json:"created_at"`
}

func (v view) reaction(r reaction) *wireReaction { return &wireReaction{v.user(r.by), r.content, r.at} }

func listReactions(c *call) (any, error) {
	p, err := c.pathComment()
	if err != nil {
		return nil, err
	}
	list := make([]*wireReaction, 0, len(p.reactions))
	for _, r := range p.reactions {
		list = append(list, c.view.reaction(r))
	}
	return list, nil
}

// react does not change the issue's updated_at. An account can give each reaction once; a repeated request changes
// nothing.
func react(c *call) (any, error) {
	p, content, err := c.changeReaction()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(p.reactions, func(r reaction) bool { return r.by == c.doer && r.content == content })
	if i < 0 {
		i = len(p.reactions)
		p.comment.reactions = append(p.comment.reactions, reaction{c.doer, content, c.f.now()})
	}
	return c.view.reaction(p.reactions[i]), nil
}

func (c *call) changeReaction() (p placed, content string, err error) {
	if p, err = c.pathComment(); err != nil {
		return p, "", err
	}
	var form struct {
		Content string `json:"content"`
	}
	if err = c.bind(&form); err == nil && !slices.Contains(allowedReactions, form.Content) {
		err = fail(http.StatusForbidden, "'%s' is not an allowed reaction", form.Content)
	}
	return p, form.Content, err
}
