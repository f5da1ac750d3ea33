// Package rest sends single requests to a forge's API. An agent's session, hiring and the demo need a few;
// forgejo.Client, which watches whole repositories, has its own way, which keeps the forge's clock and its page counts.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// API speaks to a forge as one account. Its methods may be called at the same time.
type API struct {
	URL   string // of the forge, without a slash at its end
	Token string
	// User and Password sign in when Token is empty. The forge makes tokens for passwords only.
	User, Password string
}

// client has a timeout, so that a forge that accepts a connection and never answers is an error.
var client = &http.Client{Timeout: 30 * time.Second}

// maxAnswer bounds an answer in bytes; the largest ones are lists of 50 issues with long texts.
const maxAnswer = 32 << 20

// maxWords bounds, in bytes, how much of the forge's answer an error repeats: a proxy may answer with a whole page.
const maxWords = 300

// Call sends one request below /api/v1, with in as JSON, and decodes the answer into out. Both may be nil; an out of
// type *[]byte receives the answer as it is. Errors wrap those of package forge and contain no token.
func (a *API) Call(ctx context.Context, method, path string, in, out any) error {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return fmt.Errorf("cannot send %s %s: %w", method, path, err)
		}
	}
	_, err := a.send(ctx, method, root, path, &body, out)
	return err
}

// root is the path of the API below the forge's address.
const root = "/api/v1"

// send sends a request below a folder of the forge, and returns the media type of the answer.
func (a *API) send(ctx context.Context, method, folder, path string, body io.Reader, out any) (kind string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, a.URL+folder+path, body)
	if err != nil {
		return "", fmt.Errorf("cannot send %s %s: %w", method, path, err)
	}
	req.Header.Set("Content-Type", "application/json")
	if a.Token != "" {
		req.Header.Set("Authorization", "token "+a.Token)
	} else if a.User != "" {
		req.SetBasicAuth(a.User, a.Password)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("%w: %w", forge.ErrUnavailable, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %w", method, path, forge.ErrUnavailable, err)
	}
	if resp.StatusCode/100 != 2 {
		return "", refusal(method, path, resp, answer)
	}
	return resp.Header.Get("Content-Type"), decode(answer, out)
}

// Get reads a path of the API.
func (a *API) Get(ctx context.Context, path string, out any) error {
	return a.Call(ctx, http.MethodGet, path, nil, out)
}

// Text reads plain text below the forge's own address, where no API has it. A sign-in page is forge.ErrForbidden.
func (a *API) Text(ctx context.Context, path string) (string, error) {
	var answer []byte
	kind, err := a.send(ctx, http.MethodGet, "", path, nil, &answer)
	if err == nil && !strings.HasPrefix(kind, "text/plain") {
		err = fmt.Errorf("GET %s: %w: a page for people, of type %q", path, forge.ErrForbidden, kind)
	}
	if err != nil {
		return "", err
	}
	return string(answer), nil
}

// Post sends in to a path of the API.
func (a *API) Post(ctx context.Context, path string, in, out any) error {
	return a.Call(ctx, http.MethodPost, path, in, out)
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

// Refusal is an answer other than success. It wraps the error of package forge that fits its status, if one does.
type Refusal struct {
	Status int // of HTTP
	Text   string
	err    error
}

func (r *Refusal) Error() string { return r.Text }

// Unwrap is one of package forge's errors, or nil.
func (r *Refusal) Unwrap() error { return r.err }

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
	return &Refusal{Status: resp.StatusCode, Text: text, err: KindOf(resp.StatusCode)}
}

// KindOf is the error of package forge for a status; nil for a success and for our own mistakes (400, 422).
func KindOf(status int) error {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusLocked:
		return forge.ErrForbidden
	case http.StatusNotFound, http.StatusGone:
		return forge.ErrNotFound
	case http.StatusMethodNotAllowed, http.StatusConflict, http.StatusPreconditionFailed:
		return forge.ErrConflict
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return forge.ErrUnavailable
	}
	if status >= 500 {
		return forge.ErrUnavailable
	}
	return nil
}
