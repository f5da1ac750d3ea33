package localforge

import (
	"net/http"
	"slices"
)

// hook is a web hook of a repository.
type hook struct {
	id     int64
	url    string
	secret string
	events []string
	active bool
}

var hookRoutes = []route{
	{"GET /repos/{owner}/{repo}/hooks", scopeRepository, repoAdmin, 200, listHooks, underLock},
	{"POST /repos/{owner}/{repo}/hooks", scopeRepository, repoAdmin, 201, createHook, underLock},
	{"DELETE /repos/{owner}/{repo}/hooks/{id}", scopeRepository, repoAdmin, 204, deleteHook, underLock},
}

// hookEvents are the events of hooks, in the order in which they are shown. A hook for a broad event also gets the
// events that name it as broad.
var hookEvents = []struct{ name, broad string }{
	{"push", ""},
	{"issues", ""},
	{"issue_assign", "issues"},
	{"issue_label", "issues"},
	{"issue_comment", ""},
	{"pull_request", ""},
	{"pull_request_assign", "pull_request"},
	{"pull_request_label", "pull_request"},
	{"pull_request_comment", "pull_request"},
	{"pull_request_review_approved", "pull_request"},
	{"pull_request_review_rejected", "pull_request"},
	{"pull_request_review_comment", "pull_request"},
	{"pull_request_sync", "pull_request"},
	{"pull_request_review_request", "pull_request"},
}

// wantedEvents expands the requested events. An empty list means push. As in Forgejo, unknown events are silently
// ignored.
func wantedEvents(asked []string) []string {
	if len(asked) == 0 {
		return []string{"push"}
	}
	reviews := slices.Contains(asked, "pull_request_review")
	wanted := []string{}
	for _, e := range hookEvents {
		isReview := e.name == "pull_request_review_approved" || e.name == "pull_request_review_rejected"
		if slices.Contains(asked, e.name) || (e.broad != "" && slices.Contains(asked, e.broad)) || (reviews && isReview) {
			wanted = append(wanted, e.name)
		}
	}
	return wanted
}

type wireHook struct {
	ID     int64             `json:"id"`
	Config map[string]string `json:"config"`
	Events []string          `json:"events"`
	Active bool              `json:"active"`
}

// wire returns the hook for an answer, never with its secret.
func (h *hook) wire() wireHook {
	return wireHook{
		ID: h.id, Events: h.events, Active: h.active,
		Config: map[string]string{"url": h.url, "content_type": "json"},
	}
}

func (c *call) pathHook() (*hook, error) {
	for _, h := range c.repo.hooks {
		if h.id == c.number("id") {
			return h, nil
		}
	}
	return nil, notFound()
}

func listHooks(c *call) (any, error) {
	return paged(c, c.repo.hooks, (*hook).wire), nil
}

func createHook(c *call) (any, error) {
	var form struct {
		Type   string            `json:"type"`
		Config map[string]string `json:"config"`
		Events []string          `json:"events"`
		Active bool              `json:"active"`
	}
	if err := c.bind(&form); err != nil {
		return nil, err
	}
	switch {
	case form.Type == "":
		return nil, missing("Type")
	case form.Config == nil:
		return nil, missing("Config")
	case form.Type != "forgejo" && form.Type != "gitea":
		return nil, fail(http.StatusUnprocessableEntity, "Invalid hook type: %s", form.Type)
	}
	if form.Config["url"] == "" || form.Config["content_type"] != "json" {
		return nil, fail(http.StatusUnprocessableEntity, "the local forge has hooks with a url and JSON only")
	}
	h := &hook{
		id: c.f.nextIDLocked(), events: wantedEvents(form.Events), active: form.Active,
		url: form.Config["url"], secret: form.Config["secret"], // only a delivery notices that it is not an address
	}
	c.repo.hooks = append(c.repo.hooks, h)
	return h.wire(), nil
}

func deleteHook(c *call) (any, error) {
	h, err := c.pathHook()
	if err != nil {
		return nil, err
	}
	c.repo.hooks = remove(c.repo.hooks, h)
	return nil, nil
}
