package rules

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
)

var hookRules = []rule{
	{
		"changes are announced, with a signature",
		"supervisor's hook listener, which checks the HMAC of the body before it reads it, and then scans",
		signedHooks,
	},
	{
		"dependencies and claims are not announced",
		"supervisor, which polls in spite of hooks",
		silentChanges,
	},
	{
		"pull requests are announced too",
		"supervisor's hook listener: a push, a review and a merge each cause a scan",
		pullHooks,
	},
	{
		"hooks require an administrator, and a second hook to one address is no error",
		"disinto check --fix, which looks for an existing hook before it creates one",
		hookRights,
	},
}

// delivery is one call of a web hook.
type delivery struct {
	event  string // with the action: "issues opened"
	number int64
	repo   string
	signed bool
}

// receiver receives the web hook calls of a test.
type receiver struct {
	url, secret string

	mu  sync.Mutex // guards the fields below
	got []delivery
}

// receive starts a server on loopback and registers a hook to it.
func (r *repo) receive(events ...string) *receiver {
	r.w.Helper()
	if !r.w.server.Hooks {
		r.w.Skip("this server cannot reach the test on loopback")
	}
	in := &receiver{secret: "of " + r.w.suffix}
	server := httptest.NewServer(in)
	r.w.Cleanup(func() {
		server.Close()
		if r.w.Failed() {
			r.w.Logf("delivered: %+v", in.all())
		}
	})
	in.url = server.URL
	r.owner.post(r.at("/hooks"), in.form(events...)).want(http.StatusCreated)
	return in
}

func (in *receiver) form(events ...string) fields {
	return fields{
		"type": "gitea", "active": true, "events": events,
		"config": fields{"url": in.url + "/v1/hook", "content_type": "json", "secret": in.secret},
	}
}

// ServeHTTP records a delivery. d.signed is true if the two signature headers that every forge sends are correct.
func (in *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var told struct {
		Action string `json:"action"`
		Number int64  `json:"number"`
		Issue  *struct {
			Number int64 `json:"number"`
		} `json:"issue"`
		Repository struct {
			FullName string `json:"full_name"`
		} `json:"repository"`
	}
	readable := json.Unmarshal(body, &told) == nil
	mac := hmac.New(sha256.New, []byte(in.secret))
	mac.Write(body)
	want := hex.EncodeToString(mac.Sum(nil))
	d := delivery{event: r.Header.Get("X-Gitea-Event"), number: told.Number, repo: told.Repository.FullName}
	if told.Action != "" {
		d.event += " " + told.Action
	}
	if told.Issue != nil {
		d.number = told.Issue.Number
	}
	d.signed = readable && r.Header.Get("X-Gitea-Signature") == want &&
		r.Header.Get("X-Hub-Signature-256") == "sha256="+want
	in.mu.Lock()
	defer in.mu.Unlock()
	in.got = append(in.got, d)
}

func (in *receiver) all() []delivery {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.got)
}

// await waits for an event about a number; 0 stands for any number.
func (in *receiver) await(r *repo, event string, number int64) {
	r.w.Helper()
	var all []delivery
	found := func() bool {
		all = in.all()
		return slices.ContainsFunc(all, func(d delivery) bool {
			return d.event == event &&
				(number == 0 || d.number == number)
		})
	}
	r.w.eventually(fmt.Sprintf("%s of #%d was delivered", event, number), found)
	for _, d := range all {
		if !d.signed || d.repo != r.fullName() {
			r.w.Errorf("delivery %+v: want it signed, and about %s", d, r.fullName())
		}
	}
}

func signedHooks(w *world) {
	r := w.repo()
	in := r.receive("issues", "issue_label", "issue_assign", "issue_comment")
	id := r.label("backlog")
	n := r.open("first")
	in.await(r, "issues opened", n)
	r.addLabels(n, "backlog")
	in.await(r, "issues label_updated", n)
	r.assign(r.owner, n, r.owner.name)
	in.await(r, "issues assigned", n)
	r.comment(n, "hello")
	in.await(r, "issue_comment created", n)
	r.edit(n, fields{"state": "closed"})
	in.await(r, "issues closed", n)
	r.owner.remove(r.at("/issues/%d/labels/%d", n, id)).want(http.StatusNoContent)
	r.edit(n, fields{"state": "open"})
	in.await(r, "issues reopened", n)
}

// silentChanges ends with a change that is announced, so a delivery for an earlier change would already have arrived.
func silentChanges(w *world) {
	r := w.repo()
	blocker, blocked := r.open("blocker"), r.open("blocked")
	in := r.receive("issues", "issue_label", "issue_assign", "issue_comment", "push", "create", "delete", "pull_request")
	r.dependsOn(blocked, blocker)
	c := r.claimant(r.owner)
	commit := c.commit()
	same(w, "claimed", c.push(blocked, commit), true)
	same(w, "released", c.release(blocked, commit), true)
	r.independent(blocked, blocker)
	r.comment(blocked, "the end")
	in.await(r, "issue_comment created", blocked)
	same(w, "deliveries", len(in.all()), 1)
}

func pullHooks(w *world) {
	r := w.code("one")
	reviewer := r.writer("review")
	in := r.receive("pull_request", "pull_request_review", "push")
	p := r.ready("one")
	in.await(r, "pull_request opened", p)
	r.review(reviewer, p, "APPROVED", "")
	in.await(r, "pull_request_approved reviewed", p)
	r.commit("one", "b.txt", "b")
	in.await(r, "push", 0)
	in.await(r, "pull_request synchronized", p)
	r.merge(p)
	in.await(r, "pull_request closed", p)
}

func hookRights(w *world) {
	r := w.repo()
	dev := r.writer("dev")
	in := &receiver{url: "http://127.0.0.1:1", secret: "secret"}
	dev.post(r.at("/hooks"), in.form("issues")).want(http.StatusForbidden)
	dev.get(r.at("/hooks")).want(http.StatusForbidden)
	for range 2 {
		r.owner.post(r.at("/hooks"), in.form("issues")).want(http.StatusCreated)
	}
	hooks := read[[]struct {
		ID     int64             `json:"id"`
		Active bool              `json:"active"`
		Config map[string]string `json:"config"`
	}](r.owner, r.at("/hooks"))
	same(w, "hooks", len(hooks), 2)
	for _, h := range hooks {
		same(w, "url", h.Config["url"], in.url+"/v1/hook")
		same(w, "secret", h.Config["secret"], "")
		same(w, "active", h.Active, true)
		r.owner.remove(r.at("/hooks/%d", h.ID)).want(http.StatusNoContent)
	}
}
