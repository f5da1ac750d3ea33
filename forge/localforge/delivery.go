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
	"net/url"
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
	form      bool
	auth      string
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
	Review      *wireVerdict `json:"review,omitempty"`
	Repository  *wireRepo    `json:"repository"`
	Sender      *wireUser    `json:"sender"`
	CommitID    string       `json:"commit_id"`
	IsPull      bool         `json:"is_pull"`
}

type wireVerdict struct {
	Type    string `json:"type"`
	Content string `json:"content"`
}

// notifyIssue calls the hooks for an event of an issue or pull request.
func (v view) notifyIssue(i *issue, event, action string) {
	if len(i.repo.hooks) == 0 {
		return
	}
	body := wireIssueEvent{Action: action, Number: i.number, Repository: v.repo(i.repo), Sender: v.user(v.doer)}
	if i.pull != nil {
		body.PullRequest, body.IsPull = v.pull(i), true
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
		body.PullRequest, body.IsPull = v.pull(i), true
		eventType = "pull_request_comment"
	}
	v.send(i.repo, "issue_comment", eventType, body)
}

func (v view) notifyReview(i *issue, r *review) {
	word := map[string]string{reviewApproved: "approved", reviewRejected: "rejected", reviewComment: "comment"}[r.state]
	if len(i.repo.hooks) == 0 || word == "" {
		return
	}
	eventType := "pull_request_review_" + word
	v.send(i.repo, "pull_request_"+word, eventType, wireIssueEvent{
		Action: "reviewed", Number: i.number, PullRequest: v.pull(i), Repository: v.repo(i.repo), Sender: v.user(v.doer),
		CommitID: r.commit, Review: &wireVerdict{Type: eventType, Content: r.body}, IsPull: true,
	})
}

type wirePush struct {
	Ref          string        `json:"ref"`
	Before       string        `json:"before"`
	After        string        `json:"after"`
	CompareURL   string        `json:"compare_url"`
	Commits      []*wireCommit `json:"commits"`
	TotalCommits int           `json:"total_commits"`
	HeadCommit   *wireCommit   `json:"head_commit"`
	Repository   *wireRepo     `json:"repository"`
	Pusher       *wireUser     `json:"pusher"`
	Sender       *wireUser     `json:"sender"`
}

// notifyPush calls the hooks for a branch that moved. commits are the new commits, newest first.
func (v view) notifyPush(r *repo, branch, before, after string, commits []commit) {
	if len(r.hooks) == 0 {
		return
	}
	body := wirePush{
		Ref: "refs/heads/" + branch, Before: before, After: after,
		CompareURL: fmt.Sprintf("%s/%s/compare/%s...%s", v.base, r.fullName(), before, after),
		Commits:    []*wireCommit{}, TotalCommits: len(commits),
		Repository: v.repo(r), Pusher: v.user(v.doer), Sender: v.user(v.doer),
	}
	for _, co := range commits {
		body.Commits = append(body.Commits, v.commit(r, co))
	}
	if len(commits) > 0 {
		body.HeadCommit = body.Commits[0]
	}
	v.send(r, "push", "push", body)
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
			id: v.f.nextIDLocked(), url: h.url, form: h.content == "form", auth: h.auth, event: event,
			eventType: eventType, body: body,
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
	body, content := d.body, "application/json"
	if d.form {
		body, content = []byte(url.Values{"payload": {string(d.body)}}.Encode()), "application/x-www-form-urlencoded"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, bytes.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", content)
	if d.auth != "" {
		req.Header.Set("Authorization", d.auth)
	}
	for _, brand := range []string{"Forgejo", "Gitea", "Gogs"} {
		req.Header.Set("X-"+brand+"-Delivery", fmt.Sprintf("%08d", d.id))
		req.Header.Set("X-"+brand+"-Event", d.event)
		req.Header.Set("X-"+brand+"-Event-Type", d.eventType)
		req.Header.Set("X-"+brand+"-Signature", d.signature)
	}
	req.Header.Set("X-Github-Event", d.event)
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
