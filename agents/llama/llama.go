// Package llama is a client of llama-server. It reads the server's model, slots and counters, and saves and restores
// the caches of slots. Every answer is bounded, no redirect is followed, and no request is retried: the supervisor
// queries the server again within a minute.
package llama

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"codeberg.org/johba/disinto/agents"
)

// Bounds on answers, in bytes. Older servers repeat every prompt in /slots.
const (
	maxAnswer = 1 << 20
	maxSlots  = 32 << 20
)

var (
	// ErrNotOffered is the error of a request that needs a flag of the server: --metrics, --slots, --slot-save-path.
	ErrNotOffered = errors.New("the server was started without it")
	// ErrRefused is the error of a request that the server rejects, such as restoring a file of another model.
	ErrRefused = errors.New("the server refused the request")
)

// Client sends requests to one server. It is safe for concurrent use.
type Client struct{ root string }

// New returns a client of the server at a thread's base_url, with or without a trailing /v1. It sends no request.
func New(baseURL string) *Client {
	return &Client{strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(baseURL, "/"), "/v1"), "/")}
}

// get requests a page of JSON or text.
func (c *Client) get(ctx context.Context, path string, limit int64) ([]byte, error) {
	return c.do(ctx, http.MethodGet, path, nil, limit)
}

func (c *Client) do(ctx context.Context, method, path string, body any, limit int64) ([]byte, error) {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.root+path, sent)
	if err != nil {
		return nil, fmt.Errorf("cannot query %s: %w", c.root, err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultTransport.RoundTrip(req) // follows no redirect
	if err != nil {
		return nil, fmt.Errorf("cannot query %s%s: %w", c.root, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the answer of %s%s: %w", c.root, path, err)
	case int64(len(text)) > limit:
		return nil, fmt.Errorf("cannot read the answer of %s%s: it has more than %d bytes", c.root, path, limit)
	case resp.StatusCode == http.StatusOK:
		return text, nil
	}
	return nil, c.failure(path, resp.StatusCode, text)
}

// failure returns the error of an answer whose status is not 200, with the server's message.
func (c *Client) failure(path string, status int, text []byte) error {
	var answer struct{ Error struct{ Message string } }
	_ = json.Unmarshal(text, &answer)
	words := agents.Server{Model: answer.Error.Message}.Bounded().Model // one line, bounded
	var kind error
	switch status {
	case http.StatusNotImplemented, http.StatusNotFound:
		kind = ErrNotOffered
	case http.StatusBadRequest:
		kind = ErrRefused
	default:
		kind = fmt.Errorf("status %d", status)
	}
	if words == "" {
		return fmt.Errorf("cannot use %s%s: %w", c.root, path, kind)
	}
	return fmt.Errorf("cannot use %s%s: %w: %s", c.root, path, kind, words)
}
