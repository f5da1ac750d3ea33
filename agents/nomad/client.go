package nomad

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// Config names the cluster that runs the sessions, and configures its use.
type Config struct {
	Address     string        // URL of a server, or of the agent on this machine, such as http://127.0.0.1:4646
	Token       agents.Secret // ACL token; empty if ACLs are off
	Namespace   string        // empty means default
	Region      string        // empty means the server's region
	Datacenters []string      // empty means all
	// Volume names a host volume that stores workspaces and homes between sessions. Without one, each session clones.
	Volume  string
	Program string // path of disinto on the nodes
	// CACert, ClientCert and ClientKey are paths of PEM files for https. Empty means the system's CAs, and no client
	// certificate.
	CACert, ClientCert, ClientKey string
}

// Bounds on answers and times.
const (
	maxAnswer = 8 << 20 // bytes of a list or a job; a session takes 1 to 4 KiB of either
	maxWords  = 300     // runes of an error that is quoted
	callTime  = 10 * time.Second
	waitTime  = time.Minute // maximum of a blocking query
)

// client sends requests to the cluster of a configuration. The configuration can change between two calls.
type client struct {
	config    func() Config
	http      *http.Client
	namespace string // of the objects; empty means that of the configuration, * all of them
}

// in returns a client for the objects of a namespace.
func (c *client) in(namespace string) *client {
	return &client{c.config, c.http, namespace}
}

// everywhere are all namespaces that the token may list.
const everywhere = "*"

// newClient returns a client that follows no redirect, because it would send the token there too.
func newClient(config func() Config) *client {
	return &client{config: config, http: &http.Client{
		Transport:     newTransport(config),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// refusal is an answer whose status is not a success.
type refusal struct {
	status int
	words  string
}

func (e *refusal) Error() string { return fmt.Sprintf("Nomad answers %d: %s", e.status, e.words) }

// isMissing reports whether Nomad answered that the object does not exist.
func isMissing(err error) bool {
	no, ok := errors.AsType[*refusal](err)
	return ok && no.status == http.StatusNotFound
}

// isRefused reports whether a repeated request would get the same answer.
func isRefused(err error) bool {
	no, ok := errors.AsType[*refusal](err)
	return ok && no.status/100 == 4 && no.status != http.StatusTooManyRequests && no.status != http.StatusRequestTimeout
}

// call sends a request with JSON in both directions; in and out may be nil. It returns the index for a blocking query.
func (c *client) call(
	ctx context.Context, method, path string, query url.Values, in, out any,
) (index uint64, err error) {
	limit := callTime
	if query.Has("wait") {
		limit += waitTime + waitTime/16 // servers spread their answers by this much
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	resp, err := c.send(ctx, method, path, query, in)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := readBounded(resp.Body, maxAnswer)
	if err != nil {
		return 0, fmt.Errorf("cannot read Nomad's answer to %s: %w", path, err)
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			return 0, fmt.Errorf("cannot read Nomad's answer to %s: %w", path, err)
		}
	}
	index, _ = strconv.ParseUint(resp.Header.Get("X-Nomad-Index"), 10, 64)
	return index, nil
}

// send sends a request and returns a successful answer, whose body the caller closes.
func (c *client) send(ctx context.Context, method, path string, query url.Values, in any) (*http.Response, error) {
	cfg := c.config()
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("internal error: %w", err)
		}
		body = bytes.NewReader(text)
	}
	all := url.Values{}
	maps.Copy(all, query)
	for name, value := range map[string]string{"namespace": cmp.Or(c.namespace, cfg.Namespace), "region": cfg.Region} {
		if value != "" {
			all.Set(name, value)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(cfg.Address, "/")+"/v1"+path, body)
	if err != nil {
		return nil, fmt.Errorf("cannot query Nomad at %q: %w", cfg.Address, err)
	}
	req.URL.RawQuery = all.Encode()
	if cfg.Token != "" {
		req.Header.Set("X-Nomad-Token", cfg.Token.Reveal())
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("no Nomad answers at %s: %w", cfg.Address, unwrapURL(err))
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		words, _ := io.ReadAll(io.LimitReader(resp.Body, maxWords))
		text := strings.TrimPrefix(oneLine(string(words)), "1 error occurred: * ") // the library's, around Nomad's words
		return nil, &refusal{resp.StatusCode, text}
	}
	return resp, nil
}

// unwrapURL removes the URL from an error. The URL contains a query that means nothing to people.
func unwrapURL(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		return of.Err
	}
	return err
}

// readBounded reads all of r. It returns an error if r has more than most bytes.
func readBounded(r io.Reader, most int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("it is longer than %d bytes", most)
	}
	return text, err
}

// oneLine makes a text from a server or a session printable, short and a single line.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(agents.ManyLines(s)), " ")
	if r := []rune(s); len(r) > maxWords {
		s = string(r[:maxWords-1]) + "…"
	}
	return s
}

// persist repeats f until it succeeds, is refused or ctx is done, and returns its last error. The pause between two
// attempts grows to 5 s.
func persist(ctx context.Context, f func() error) error {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := f()
		if err == nil || isRefused(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// escape encodes a name as a part of a path.
func escape(name string) string { return url.PathEscape(name) }
