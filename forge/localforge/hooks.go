package localforge

import (
	"net/http"
	"slices"
	"time"
)

// hook is a web hook of a repository.
type hook struct {
	id      int64
	kind    string
	url     string
	content string
	secret  string
	auth    string
	events  []string
	active  bool
	created time.Time
	updated time.Time
}

var hookRoutes = []route{
	{"GET /repos/{owner}/{repo}/hooks", scopeRepository, repoAdmin, 200, listHooks, underLock},
	{"POST /repos/{owner}/{repo}/hooks", scopeRepository, repoAdmin, 201, createHook, underLock},
	{"PATCH /repos/{owner}/{repo}/hooks/{id}", scopeRepository, repoAdmin, 200, editHook, underLock},
	{"DELETE /repos/{owner}/{repo}/hooks/{id}", scopeRepository, repoAdmin, 204, deleteHook, underLock},
}

// hookEvents are the events of hooks, in the order in which they are shown. A hook for a broad event also gets the
// events that name it as broad.
var hookEvents = []struct{ name, broad string }{
	{"push", ""},
	{"issues", ""},
	{"issue_assign", "issues"},
	{"issue_label", "issues"},
	{"issue_milestone", "issues"},
	{"issue_comment", ""},
	{"pull_request", ""},
	{"pull_request_assign", "pull_request"},
	{"pull_request_label", "pull_request"},
	{"pull_request_milestone", "pull_request"},
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
	ID                  int64             `json:"id"`
	Type                string            `json:"type"`
	BranchFilter        string            `json:"branch_filter"`
	URL                 string            `json:"url"`
	Config              map[string]string `json:"config"`
	Events              []string          `json:"events"`
	AuthorizationHeader string            `json:"authorization_header"`
	ContentType         string            `json:"content_type"`
	Metadata            any               `json:"metadata"`
	Active              bool              `json:"active"`
	Updated             time.Time         `json:"updated_at"`
	Created             time.Time         `json:"created_at"`
}

// wire returns the hook for an answer, never with its secret.
func (h *hook) wire() wireHook {
	return wireHook{
		ID: h.id, Type: h.kind, URL: h.url, ContentType: h.content, Events: h.events, Active: h.active,
		AuthorizationHeader: h.auth, Config: map[string]string{"url": h.url, "content_type": h.content},
		Updated: h.updated, Created: h.created,
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
		Auth   string            `json:"authorization_header"`
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
	for _, key := range []string{"url", "content_type"} {
		if form.Config[key] == "" {
			return nil, fail(http.StatusUnprocessableEntity, "Missing config option: %s", key)
		}
	}
	h := &hook{
		id: c.f.nextIDLocked(), kind: form.Type, events: wantedEvents(form.Events), auth: form.Auth,
		active: form.Active, created: c.f.now(), updated: c.f.now(),
	}
	if err := h.configure(form.Config); err != nil {
		return nil, err
	}
	c.repo.hooks = append(c.repo.hooks, h)
	return h.wire(), nil
}

func (h *hook) configure(config map[string]string) error {
	if to, ok := config["url"]; ok {
		h.url = to // any text is accepted; only a delivery notices that it is not an address
	}
	if content, ok := config["content_type"]; ok {
		if content != "json" && content != "form" {
			return fail(http.StatusUnprocessableEntity, "Invalid content type")
		}
		h.content = content
	}
	if secret, ok := config["secret"]; ok {
		h.secret = secret
	}
	return nil
}

func editHook(c *call) (any, error) {
	h, err := c.pathHook()
	if err != nil {
		return nil, err
	}
	var form struct {
		Config map[string]string `json:"config"`
		Events []string          `json:"events"`
		Active *bool             `json:"active"`
	}
	if err := c.bind(&form); err != nil {
		return nil, err
	}
	delete(form.Config, "secret") // Forgejo silently keeps the secret that was set at creation
	if err := h.configure(form.Config); err != nil {
		return nil, err
	}
	h.events, h.updated = wantedEvents(form.Events), c.f.now()
	assign(&h.active, form.Active)
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
