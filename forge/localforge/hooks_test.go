package localforge

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
	"testing"
)

// receiver records the web hook calls that it receives.
type receiver struct {
	mu    sync.Mutex
	calls []*http.Request
	body  [][]byte
}

func (r *receiver) ServeHTTP(_ http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls, r.body = append(r.calls, req), append(r.body, body)
}

// take waits for deliveries, and returns and forgets the calls so far, each as "event type action number".
func (r *receiver) take(w *world) []string {
	w.f.WaitIdle()
	r.mu.Lock()
	defer r.mu.Unlock()
	var said []string
	for n, req := range r.calls {
		var body struct {
			Action string
			Number int
			Ref    string
			Issue  struct{ Number int }
		}
		w.must(json.Unmarshal(r.body[n], &body))
		what := fmt.Sprint(body.Action, " ", max(body.Number, body.Issue.Number))
		if body.Ref != "" {
			what = body.Ref
		}
		said = append(said, fmt.Sprint(req.Header.Get("X-Forgejo-Event"), " ", req.Header.Get("X-Gitea-Event-Type"), " ",
			what))
	}
	r.calls, r.body = nil, nil
	return said
}

func (w *world) hook(to string, events ...string) object {
	w.t.Helper()
	return w.want(201, "johba", "POST", harb+"/hooks", object{
		"type": "forgejo", "active": true, "events": events,
		"config": object{"url": to, "content_type": "json", "secret": "s3cret"},
	}).object
}

func TestHooks(t *testing.T) {
	w := newWorld(t)
	got := &receiver{}
	server := httptest.NewServer(got)
	defer server.Close()
	w.hook(server.URL, "issues", "issue_comment", "pull_request", "push")
	w.want(201, "johba", "POST", harb+"/labels", object{"name": "backlog", "color": "#fff"})
	dir := w.clone("dev")

	for _, step := range []struct {
		what string
		do   func()
		want []string
	}{
		{"issue", func() { w.file("one", "two") }, []string{"issues issues opened 1", "issues issues opened 2"}},
		{
			"label", func() { w.want(200, "dev", "POST", harb+"/issues/1/labels", object{"labels": []string{"backlog"}}) },
			[]string{"issues issue_label label_updated 1"},
		},
		{
			"assignee", func() { w.want(201, "dev", "PATCH", harb+"/issues/1", object{"assignees": []string{"dev"}}) },
			[]string{"issues issue_assign assigned 1"},
		},
		{
			"comment", func() { w.want(201, "dev", "POST", harb+"/issues/1/comments", object{"body": "x"}) },
			[]string{"issue_comment issue_comment created 1"},
		},
		{"dependency: none", func() { w.depends(201, "dev", 2, "johba", "harb", 1) }, nil},
		{"push", func() { w.push(dir, "b", "b.txt", "b\n") }, []string{"push push refs/heads/b"}},
		{"claim: none", func() { w.git(dir, "push", "-q", "origin", "HEAD:refs/disinto/claims/1") }, nil},
		{"pull request", func() { w.open("b", "Fix", "fixes #1") }, []string{"pull_request pull_request opened 3"}},
		{
			"review", func() { w.want(200, "review", "POST", harb+"/pulls/3/reviews", object{"event": "APPROVED"}) },
			[]string{"pull_request_approved pull_request_review_approved reviewed 3"},
		},
		{"status: none", func() {
			w.want(201, "dev", "POST", harb+"/statuses/"+w.git(dir, "rev-parse", "HEAD"), object{"state": "success"})
		}, nil},
		{
			"push to it", func() { w.push(dir, "b", "b.txt", "c\n") },
			[]string{"push push refs/heads/b", "pull_request pull_request_sync synchronized 3"},
		},
		{
			"merge", func() { w.want(200, "dev", "POST", harb+"/pulls/3/merge", object{"Do": "squash"}) },
			[]string{"pull_request pull_request closed 3", "issues issues closed 1", "push push refs/heads/main"},
		},
	} {
		step.do()
		if said := got.take(w); !slices.Equal(said, step.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", step.what, said, step.want)
		}
	}
}

func TestHookSignature(t *testing.T) {
	w := newWorld(t)
	got := &receiver{}
	server := httptest.NewServer(got)
	defer server.Close()
	hook := w.hook(server.URL, "issues")
	if config := hook["config"].(object); config["secret"] != nil {
		t.Error("the answer shows the secret")
	}
	w.file("one")
	w.f.WaitIdle()
	mac := hmac.New(sha256.New, []byte("s3cret"))
	mac.Write(got.body[0])
	want := hex.EncodeToString(mac.Sum(nil))
	for header, want := range map[string]string{
		"X-Forgejo-Signature": want, "X-Gitea-Signature": want, "X-Hub-Signature-256": "sha256=" + want,
		"Content-Type": "application/json",
	} {
		if sent := got.calls[0].Header.Get(header); sent != want {
			t.Errorf("the header %s is %q, want %q", header, sent, want)
		}
	}
	w.want(204, "johba", "DELETE", fmt.Sprint(harb, "/hooks/", hook["id"]), nil)
	w.file("two")
	if said := got.take(w); len(said) != 1 {
		t.Errorf("a deleted hook was called: %q", said[1:])
	}
}

// A receiver that is down delays neither requests nor other deliveries.
func TestHookReceiverIsDown(t *testing.T) {
	w := newWorld(t)
	got := &receiver{}
	server := httptest.NewServer(got)
	defer server.Close()
	w.hook("http://127.0.0.1:1/", "issues")
	w.hook("no address", "issues")
	w.hook(server.URL, "issues")
	w.file("one")
	if said := got.take(w); !slices.Equal(said, []string{"issues issues opened 1"}) {
		t.Errorf("got %q", said)
	}
	for _, form := range []object{
		{"type": "slack", "config": object{"url": "http://x", "content_type": "json"}},
		{"type": "forgejo", "config": object{"url": "http://x"}},
		{"type": "forgejo", "config": object{"url": "http://x", "content_type": "xml"}},
		{"type": "forgejo"},
	} {
		w.want(422, "johba", "POST", harb+"/hooks", form)
	}
}
