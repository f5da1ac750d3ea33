package nomad

import (
	"bytes"
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

// Config says which cluster runs the sessions, and how.
type Config struct {
	Address     string        // of a server or of the agent on this machine, such as http://127.0.0.1:4646
	Token       agents.Secret // of its access control; empty where that is off
	Namespace   string        // empty means default
	Region      string        // empty means the server's own
	Datacenters []string      // empty means all
	// Volume names a host volume that keeps workspaces and homes between sessions. Without one each session clones.
	Volume  string
	Program string // the path of disinto on the nodes
	// CACert, ClientCert and ClientKey are paths of PEM files for https; empty for what the system trusts, and for none.
	CACert, ClientCert, ClientKey string
}

// Bounds of answers and times.
const (
	maxAnswer = 8 << 20 // of a list or a job; a session takes 1 to 4 KiB of either
	maxWords  = 300     // of an error that is repeated
	callTime  = 10 * time.Second
	waitTime  = time.Minute // of a blocking query
)

// client speaks to the cluster of a configuration. A configuration may change between two calls.
type client struct {
	config func() Config
	http   *http.Client
}

// newClient returns a client that follows no redirect: the token would follow too.
func newClient(config func() Config) *client {
	return &client{config: config, http: &http.Client{
		Transport:     newTransport(config),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// refusal is an answer that is not the one asked for.
type refusal struct {
	status int
	words  string
}

func (e *refusal) Error() string { return fmt.Sprintf("Nomad answers %d: %s", e.status, e.words) }

// isMissing reports whether Nomad does not have what was asked for.
func isMissing(err error) bool {
	no, ok := errors.AsType[*refusal](err)
	return ok && no.status == http.StatusNotFound
}

// isRefused reports whether the answer will be the same the next time.
func isRefused(err error) bool {
	no, ok := errors.AsType[*refusal](err)
	return ok && no.status/100 == 4 && no.status != http.StatusTooManyRequests && no.status != http.StatusRequestTimeout
}

// call is one request with JSON both ways; in and out may be nil. It returns the index for a blocking query.
func (c *client) call(
	ctx context.Context, method, path string, query url.Values, in, out any,
) (index uint64, err error) {
	limit := callTime
	if query.Has("wait") {
		limit += waitTime + waitTime/16 // by which servers spread their answers
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

// send sends a request and returns an answer with a status of success, whose body the caller closes.
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
	for name, value := range map[string]string{"namespace": cfg.Namespace, "region": cfg.Region} {
		if value != "" {
			all.Set(name, value)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(cfg.Address, "/")+"/v1"+path, body)
	if err != nil {
		return nil, fmt.Errorf("cannot ask Nomad at %q: %w", cfg.Address, err)
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
		return nil, &refusal{resp.StatusCode, oneLine(string(words))}
	}
	return resp, nil
}

// unwrapURL takes the address off an error, which has a query that tells people nothing.
func unwrapURL(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		return of.Err
	}
	return err
}

// readBounded reads all of r, and refuses more than most.
func readBounded(r io.Reader, most int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("it is longer than %d bytes", most)
	}
	return text, err
}

// oneLine makes a text of a server or a session printable and short.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(agents.ManyLines(s)), " ")
	if r := []rune(s); len(r) > maxWords {
		s = string(r[:maxWords-1]) + "…"
	}
	return s
}

// persist repeats f until it succeeds, is refused or ctx is done, and returns its last error. The pause between two
// tries grows to 5 s.
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

// escape is a name as a part of a path.
func escape(name string) string { return url.PathEscape(name) }
