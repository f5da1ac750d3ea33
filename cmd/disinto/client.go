package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// errNoSupervisor means that nobody listens on the state directory's socket.
var errNoSupervisor = errors.New("no supervisor runs")

// answerTime bounds one question. The supervisor answers from memory, so this is for one that hangs: a health check
// must not hang with it.
const answerTime = 5 * time.Second

// client asks a running supervisor over the socket in its state directory.
type client struct {
	state string // state directory
	http  *http.Client
}

func newClient(state string) *client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", filepath.Join(state, "disinto.sock"))
	}
	return &client{state, &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// get asks for a path such as /v1/state and decodes the answer. It returns errNoSupervisor, wrapped, where there is
// nobody to ask; an answer other than 2xx is an error with the supervisor's own words.
func (c *client) get(ctx context.Context, path string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	// The host is never looked up: the connection is the socket.
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://disinto"+path, nil)
	if err != nil {
		return err
	}
	return c.do(req, answer)
}

func (c *client) do(req *http.Request, answer any) error {
	resp, err := c.http.Do(req)
	if err != nil {
		return c.dialError(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("cannot read the supervisor's answer: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return refusal(resp, body)
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("cannot understand the supervisor's answer: %w", err)
	}
	return nil
}

func (c *client) dialError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w on %s: start one with disinto run, or say --state", errNoSupervisor, c.state)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot ask the supervisor on %s: permission denied, ask as the user it runs as", c.state)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("cannot ask the supervisor on %s: no answer in time", c.state)
	}
	return fmt.Errorf("cannot ask the supervisor on %s: %w", c.state, err)
}

// refusal is the error behind an answer that says no: {"error": "..."} or plain text.
func refusal(resp *http.Response, body []byte) error {
	var said struct {
		Error string `json:"error"`
	}
	words := "the supervisor answered " + resp.Status
	if json.Unmarshal(body, &said) == nil && said.Error != "" {
		words = said.Error
	} else if text := strings.TrimSpace(string(body)); text != "" {
		words = text
	}
	switch resp.StatusCode {
	case http.StatusBadRequest:
		return &exitError{exitUsage, words}
	case http.StatusServiceUnavailable:
		return &exitError{exitNotNow, words}
	}
	return errors.New(words)
}
