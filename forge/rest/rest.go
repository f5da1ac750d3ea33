// Package rest sends single requests to a forge's API, for the demo's people and agents, and for tests. It makes any
// request, and has no type for any answer; package forgejo has the client of the supervisor and of sessions.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// API is one account's access to a forge. Its methods can be called concurrently.
type API struct {
	URL   string // address of the forge, without a slash at its end
	Token string
	// User and Password authenticate when Token is empty. The forge creates tokens only for requests with a password.
	User, Password string
}

// client has a timeout, so that a request ends in an error when the forge accepts the connection and never answers.
var client = &http.Client{Timeout: 30 * time.Second}

// maxAnswer bounds an answer in bytes; the largest answers are lists of 50 issues with long texts.
const maxAnswer = 32 << 20

// maxWords bounds, in bytes, how much of the forge's answer an error repeats: a proxy can answer with a whole page.
const maxWords = 300

// Get reads a path of the API.
func (a *API) Get(ctx context.Context, path string, out any) error {
	return a.Call(ctx, http.MethodGet, path, nil, out)
}

// Post sends in to a path of the API.
func (a *API) Post(ctx context.Context, path string, in, out any) error {
	return a.Call(ctx, http.MethodPost, path, in, out)
}

// Call sends one request to a path below /api/v1, with in as JSON, and decodes the JSON answer into out. Both can be
// nil; an out of type *[]byte receives the raw answer. Errors wrap those of package forge where one fits, and contain
// no token.
func (a *API) Call(ctx context.Context, method, path string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return fmt.Errorf("cannot send %s %s: %w", method, path, err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, a.URL+"/api/v1"+path, &body)
	if err != nil {
		return fmt.Errorf("cannot send %s %s: %w", method, path, err)
	}
	req.Header.Set("Content-Type", "application/json")
	if a.Token != "" {
		req.Header.Set("Authorization", "token "+a.Token)
	} else if a.User != "" {
		req.SetBasicAuth(a.User, a.Password)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", forge.ErrUnavailable, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%s %s: %w: %w", method, path, forge.ErrUnavailable, err)
	}
	if resp.StatusCode/100 != 2 {
		return refusal(method, path, resp, answer)
	}
	return decode(answer, out)
}

func decode(answer []byte, out any) error {
	switch out := out.(type) {
	case nil:
		return nil
	case *[]byte:
		*out = answer
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("cannot read the forge's answer: %w", err)
	}
	return nil
}

// refusal returns the error for a status other than success. It wraps the error of package forge that fits the status,
// if there is one.
func refusal(method, path string, resp *http.Response, answer []byte) error {
	var said struct{ Message string }
	if json.Unmarshal(answer, &said) == nil && said.Message != "" {
		answer = []byte(said.Message)
	}
	words := strings.Join(strings.Fields(string(answer)), " ")
	if len(words) > maxWords {
		words = strings.ToValidUTF8(words[:maxWords], "") + "…"
	}
	text := strings.TrimSpace(fmt.Sprintf("%s %s: %s %s", method, path, resp.Status, words))
	if kind := forge.KindOf(resp.StatusCode); kind != nil {
		return fmt.Errorf("%w: %s", kind, text)
	}
	return errors.New(text)
}
