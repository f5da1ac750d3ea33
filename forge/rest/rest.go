// Package rest sends single requests to a forge's API, for an agent's session, for hiring and for the demo.
// forgejo.Client, which watches whole repositories, does not use it: that client also tracks the forge's clock and its
// page counts.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
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
	_, err := a.send(ctx, method, root, path, &body, out)
	return err
}

// Page is Get for a page of a list. It also returns the length of the whole list from the header X-Total-Count, -1
// without that header.
func (a *API) Page(ctx context.Context, path string, out any) (total int, err error) {
	header, err := a.send(ctx, http.MethodGet, root, path, http.NoBody, out)
	if n, err := strconv.Atoi(header.Get("X-Total-Count")); err == nil && n >= 0 {
		return n, nil
	}
	return -1, err
}

// root is the path of the API below the forge's address.
const root = "/api/v1"

// send sends a request to a path below a folder of the forge, and returns the header of an answer that it could decode.
func (a *API) send(
	ctx context.Context, method, folder, path string, body io.Reader, out any,
) (header http.Header, err error) {
	req, err := http.NewRequestWithContext(ctx, method, a.URL+folder+path, body)
	if err != nil {
		return nil, fmt.Errorf("cannot send %s %s: %w", method, path, err)
	}
	req.Header.Set("Content-Type", "application/json")
	if a.Token != "" {
		req.Header.Set("Authorization", "token "+a.Token)
	} else if a.User != "" {
		req.SetBasicAuth(a.User, a.Password)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", forge.ErrUnavailable, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %w", method, path, forge.ErrUnavailable, err)
	}
	if resp.StatusCode/100 != 2 {
		return nil, refusal(method, path, resp, answer)
	}
	if err := decode(answer, out); err != nil {
		return nil, err
	}
	return resp.Header, nil
}

// Get reads a path of the API.
func (a *API) Get(ctx context.Context, path string, out any) error {
	return a.Call(ctx, http.MethodGet, path, nil, out)
}

// Text reads plain text outside the API, from a path below the forge's own address. An HTML answer, such as a sign-in
// page, is forge.ErrForbidden.
func (a *API) Text(ctx context.Context, path string) (string, error) {
	var answer []byte
	header, err := a.send(ctx, http.MethodGet, "", path, nil, &answer)
	if kind := header.Get("Content-Type"); err == nil && !strings.HasPrefix(kind, "text/plain") {
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

// Refusal is the error for an HTTP status other than success. It wraps the error of package forge that fits the status,
// if there is one.
type Refusal struct {
	Status int // HTTP status code
	Text   string
	err    error
}

func (r *Refusal) Error() string { return r.Text }

// Unwrap returns an error of package forge, or nil.
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

// KindOf returns the error of package forge for a status. It returns nil for success and for our own bad requests
// (400, 422).
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
