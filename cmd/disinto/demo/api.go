package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// api speaks to a forge as one account. It is as small as what somebody's own agent program would begin with.
type api struct {
	url   string // of the forge, without a slash at its end
	token string
	// user and password sign in instead of a token: only so can tokens be made.
	user, password string
}

var httpClient = &http.Client{Timeout: 20 * time.Second}

// call sends one request below /api/v1, with in as its JSON, and decodes the answer into out. Both may be nil.
func (a api) call(ctx context.Context, method, path string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, a.url+"/api/v1"+path, &body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if a.token != "" {
		req.Header.Set("Authorization", "token "+a.token)
	} else {
		req.SetBasicAuth(a.user, a.password)
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s %s", method, path, resp.Status, strings.TrimSpace(string(answer)))
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

func (a api) get(ctx context.Context, path string, out any) error {
	return a.call(ctx, http.MethodGet, path, nil, out)
}

func (a api) post(ctx context.Context, path string, in, out any) error {
	return a.call(ctx, http.MethodPost, path, in, out)
}

// What the demo reads of the forge's answers.
type (
	wireUser struct {
		Login string `json:"login"`
	}
	wireIssue struct {
		Number int64     `json:"number"`
		Title  string    `json:"title"`
		Body   string    `json:"body"`
		Closed time.Time `json:"closed_at"`
	}
	wirePull struct {
		Number int64    `json:"number"`
		Title  string   `json:"title"`
		Body   string   `json:"body"`
		User   wireUser `json:"user"`
		Merged bool     `json:"merged"`
		Head   struct {
			Ref string `json:"ref"`
			SHA string `json:"sha"`
		} `json:"head"`
	}
	wireReview struct {
		User     wireUser `json:"user"`
		State    string   `json:"state"`
		CommitID string   `json:"commit_id"`
	}
)
