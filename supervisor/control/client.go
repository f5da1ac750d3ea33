package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// readTime bounds a Get. The supervisor answers from memory, so it takes longer only if it hangs, and then a health
	// check must not hang: docker/Dockerfile gives it 5 s.
	readTime = 4 * time.Second
	// commandTime bounds a Post: a session may take the whole grace to end, and the forge half a minute to answer.
	commandTime = 2 * time.Minute
	// maxAnswer bounds a document, in bytes: ten thousand issues in a queue are a few MiB.
	maxAnswer = 64 << 20
)

// SocketName is the name of the control socket in the state directory.
const SocketName = "disinto.sock"

// ErrNoSupervisor means that no program listens on the state directory's socket.
var ErrNoSupervisor = errors.New("no supervisor runs")

// ErrNoAnswer means that the state directory's socket exists, and that no supervisor has answered in time. It hangs, or
// its init is starting the next one.
var ErrNoAnswer = errors.New("no answer in time")

// Client sends requests to a running supervisor, over the socket in its state directory or at the address of its
// [factory] listen. The error for an answer other than 2xx is a *Refusal with the supervisor's own words. The error
// for a state directory without a supervisor wraps ErrNoSupervisor. Client may be used from any goroutine.
type Client struct {
	state string // empty for an address
	base  string // prefix of the API's paths
	token string // [factory] listen_token; empty for the socket
	http  *http.Client
}

// NewClient returns a client for a state directory. It makes a new connection for each request.
func NewClient(state string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", filepath.Join(state, SocketName))
	}
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	// The host is never looked up: the connection is the socket.
	return &Client{state: state, base: "http://disinto", http: &http.Client{Transport: transport}}
}

// NewRemoteClient returns a client for an address such as https://factory.example.org, without a slash at its end. It
// sends the token to no other address: it treats a redirect like any other answer outside 2xx.
func NewRemoteClient(address, token string) *Client {
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true
	return &Client{base: address, token: token, http: &http.Client{Transport: transport, CheckRedirect: stay}}
}

// StateDir returns the state directory that the client was made for; empty for an address.
func (c *Client) StateDir() string { return c.state }

// Get requests a path such as /v1/state and decodes the answer. It takes at most 4 seconds.
func (c *Client) Get(ctx context.Context, path string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	return c.decode(ctx, http.MethodGet, path, nil, answer)
}

// Post sends a command and decodes the answer. It takes at most 2 minutes.
func (c *Client) Post(ctx context.Context, path string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	return c.decode(ctx, http.MethodPost, path, bytes.NewReader(body), answer)
}

// Copy requests a path and copies the answer as it arrives, without a time limit.
func (c *Client) Copy(ctx context.Context, path string, w io.Writer) error {
	body, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	if _, err := io.Copy(w, body); err != nil {
		return fmt.Errorf("cannot follow the log: %w", err)
	}
	return nil
}

// Follow calls heard when the stream of events starts, at each event, and when the stream ends. Then it returns.
// Without a supervisor it returns at once.
func (c *Client) Follow(ctx context.Context, heard func()) {
	body, err := c.do(ctx, http.MethodGet, "/v1/events", nil)
	if err != nil {
		return
	}
	defer body.Close()
	heard()
	for in := bufio.NewScanner(body); in.Scan(); {
		if strings.HasPrefix(in.Text(), "event:") {
			heard()
		}
	}
	heard()
}

func (c *Client) decode(ctx context.Context, method, path string, request io.Reader, answer any) error {
	body, err := c.do(ctx, method, path, request)
	if err != nil {
		return err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err != nil {
		return fmt.Errorf("cannot read the supervisor's answer: %w", err)
	}
	if len(text) > maxAnswer {
		return fmt.Errorf("cannot read the supervisor's answer: it is longer than %d MiB", maxAnswer>>20)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("cannot understand the supervisor's answer: %w", err)
	}
	return nil
}

// do makes one request and returns the answer's body, which the caller must close.
func (c *Client) do(ctx context.Context, method, path string, body io.Reader) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.explain(err)
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		return nil, c.refusalIn(resp)
	}
	return resp.Body, nil
}

// explain adds advice to the error of a request without an answer.
func (c *Client) explain(err error) error {
	var asked *url.Error // repeats the address, with the method
	if errors.As(err, &asked) {
		err = asked.Err
	}
	switch {
	case c.state == "" && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("cannot ask the supervisor at %s: no answer in time", c.base)
	case c.state == "":
		return fmt.Errorf("cannot ask the supervisor at %s: %w; see listen in its [factory]", c.base, err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w in the state directory %s: start one with disinto run, or use --state",
			ErrNoSupervisor, c.state)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("cannot ask the supervisor on %s: not a directory: --state is the supervisor's state directory",
			c.state)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("cannot ask the supervisor on %s: permission denied: only root and the account that runs it "+
			"may ask there (docker exec without -u); others need the address [factory] listen and its token", c.state)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("cannot ask the supervisor on %s: %w", c.state, ErrNoAnswer)
	}
	return fmt.Errorf("cannot ask the supervisor on %s: %w", c.state, err)
}

// refusalIn reads a refusal: {"error": "..."} or plain text.
func (c *Client) refusalIn(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var said struct {
		Error string `json:"error"`
	}
	words := "the supervisor answered " + resp.Status
	if json.Unmarshal(body, &said) == nil && said.Error != "" {
		words = said.Error
	} else if text := strings.TrimSpace(string(body)); text != "" {
		words = text
		if resp.StatusCode == http.StatusNotFound { // every path of the control API answers in JSON
			words = c.unserved(text)
		}
	}
	return &Refusal{resp.StatusCode, words}
}

// unserved returns the words about a server that does not have the requested path.
func (c *Client) unserved(text string) string {
	if c.state == "" {
		return fmt.Sprintf("%s is not the control API, or a supervisor older than this disinto (%s): use the address of "+
			"listen in its [factory]", c.base, text)
	}
	return fmt.Sprintf("the supervisor on %s does not know this command (%s): it is older than this disinto",
		c.state, text)
}
