package localforge

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// deliveryTimeout bounds the time for a receiver's answer. It is Forgejo's default.
const deliveryTimeout = 5 * time.Second

// delivery is a web hook call that is yet to be sent. Its content is from the moment of the event.
type delivery struct {
	id        int64
	url       string
	event     string // broad name: X-Forgejo-Event
	eventType string // exact name: X-Forgejo-Event-Type
	signature string
	body      []byte
}

// The kinds of events of notifyIssue. Each has one name for issues and another for pull requests.
const (
	eventIssue  = ""
	eventLabel  = "_label"
	eventAssign = "_assign"
)

type wireIssueEvent struct {
	Action      string       `json:"action"`
	Number      int64        `json:"number,omitempty"`
	Issue       *wireIssue   `json:"issue,omitempty"`
	PullRequest *wirePull    `json:"pull_request,omitempty"`
	Comment     *wireComment `json:"comment,omitempty"`
	Repository  *wireRepo    `json:"repository"`
	Sender      *wireUser    `json:"sender"`
}

// notifyIssue calls the hooks for an event of an issue or pull request.
func (v view) notifyIssue(i *issue, event, action string) {
	if len(i.repo.hooks) == 0 {
		return
	}
	body := wireIssueEvent{Action: action, Number: i.number, Repository: v.repo(i.repo), Sender: v.user(v.doer)}
	if i.pull != nil {
		body.PullRequest = v.pull(i)
		v.send(i.repo, "pull_request", "pull_request"+event, body)
		return
	}
	body.Issue = v.issue(i)
	eventType := "issues"
	if event != eventIssue {
		eventType = "issue" + event
	}
	v.send(i.repo, "issues", eventType, body)
}

func (v view) notifyComment(i *issue, m *comment, action string) {
	if len(i.repo.hooks) == 0 {
		return
	}
	body := wireIssueEvent{
		Action: action, Issue: v.issue(i), Comment: v.comment(i, m), Repository: v.repo(i.repo),
		Sender: v.user(v.doer),
	}
	eventType := "issue_comment"
	if i.pull != nil {
		body.PullRequest = v.pull(i)
		eventType = "pull_request_comment"
	}
	v.send(i.repo, "issue_comment", eventType, body)
}

func (v view) notifyReview(i *issue, r *review) {
	word := map[string]string{reviewApproved: "approved", reviewRejected: "rejected", reviewComment: "comment"}[r.state]
	if len(i.repo.hooks) == 0 || word == "" {
		return
	}
	v.send(i.repo, "pull_request_"+word, "pull_request_review_"+word, wireIssueEvent{
		Action: "reviewed", Number: i.number, PullRequest: v.pull(i), Repository: v.repo(i.repo), Sender: v.user(v.doer),
	})
}

type wirePush struct {
	Ref        string    `json:"ref"`
	Before     string    `json:"before"`
	After      string    `json:"after"`
	Repository *wireRepo `json:"repository"`
	Sender     *wireUser `json:"sender"`
}

// notifyPush calls the hooks for a branch that moved.
func (v view) notifyPush(r *repo, branch, before, after string) {
	v.send(r, "push", "push", wirePush{
		Ref: "refs/heads/" + branch, Before: before, After: after, Repository: v.repo(r), Sender: v.user(v.doer),
	})
}

// send queues a payload for each hook with the event. Deliveries are made one by one, in the order of the events.
func (v view) send(r *repo, event, eventType string, payload any) {
	var body []byte
	for _, h := range r.hooks {
		if !h.active || !slices.Contains(h.events, eventType) {
			continue
		}
		if body == nil {
			body, _ = json.MarshalIndent(payload, "", "  ") // cannot fail: these are plain structs
		}
		d := delivery{
			id: v.f.nextIDLocked(), url: h.url, event: event, eventType: eventType, body: body,
		}
		if h.secret != "" {
			mac := hmac.New(sha256.New, []byte(h.secret))
			mac.Write(body)
			d.signature = hex.EncodeToString(mac.Sum(nil))
		}
		v.f.outbox = append(v.f.outbox, d)
	}
	if len(v.f.outbox) > 0 && !v.f.sending {
		v.f.sending = true
		v.f.beginLocked()
		go v.f.deliver()
	}
}

// deliver empties the outbox. A receiver that does not answer delays the next delivery until its timeout. As in
// Forgejo, there is no retry.
func (f *Forge) deliver() {
	defer f.end()
	for {
		f.mu.Lock()
		if len(f.outbox) == 0 || f.ctx.Err() != nil {
			f.sending = false
			f.mu.Unlock()
			return
		}
		next := f.outbox[0]
		f.outbox = f.outbox[1:]
		f.mu.Unlock()
		next.post(f.ctx)
	}
}

func (d delivery) post(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, deliveryTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, bytes.NewReader(d.body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	for _, brand := range []string{"Forgejo", "Gitea"} {
		req.Header.Set("X-"+brand+"-Delivery", fmt.Sprintf("%08d", d.id))
		req.Header.Set("X-"+brand+"-Event", d.event)
		req.Header.Set("X-"+brand+"-Event-Type", d.eventType)
		req.Header.Set("X-"+brand+"-Signature", d.signature)
	}
	req.Header.Set("X-Hub-Signature-256", "sha256="+d.signature)
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		_ = resp.Body.Close()
	}
}

// branchName returns the branch of a full ref, or "" if the ref is not a branch.
func branchName(ref string) string {
	name, ok := strings.CutPrefix(ref, "refs/heads/")
	if !ok {
		return ""
	}
	return name
}
