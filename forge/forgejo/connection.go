package forgejo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"code.gitea.io/sdk/gitea"
)

// connection makes requests to one forge with one account: through the SDK where it has a method for the request, and
// else as own.go does. All bounds are in the transport and here.
type connection struct {
	url            string // without a slash at its end, and without /api/v1
	token          string
	user, password string // sign in where token is empty; both empty: nobody signs in
	http           *http.Client
	limit          time.Duration // of one request, with its redirects and the reading of its answer
	longest        int64         // bytes of an answer: maxRaw, or less in a test
	whole          bool          // answers are not cut: a session reads and writes whole texts
	observe        func(route string, status int, took time.Duration)
	requests       *atomic.Int64
	misread        *misread
}

// connect returns a connection without credentials; it makes no request.
func connect(url string, next http.RoundTripper) *connection {
	return &connection{
		url: url, http: &http.Client{Transport: &transport{next}, CheckRedirect: sameRequest}, limit: requestTime,
		longest: maxRaw, requests: new(atomic.Int64), misread: new(misread),
	}
}

// connectWhole returns a connection whose answers are not cut, for requests that a session or a person waits for.
func connectWhole(url, token string) *connection {
	c := connect(url, http.DefaultTransport)
	c.token, c.whole, c.longest, c.limit = token, true, maxWhole, 2*requestTime
	return c
}

// as returns the connection of the account of another token.
func (c *connection) as(token string) *connection {
	other := *c
	other.token, other.user, other.password = token, "", ""
	return &other
}

// call makes one request through the SDK. An answer without a value is an error.
func call[T any](
	ctx context.Context, c *connection, ask func(*gitea.Client) (T, *gitea.Response, error),
) (T, *exchange, error) {
	var value, none T
	x, err := c.exchange(ctx, c.limit, new(exchange), func(ctx context.Context, x *exchange) (err error) {
		value, _, err = ask(c.sdk(ctx))
		if err == nil && string(bytes.TrimSpace(x.answer)) == "null" {
			err = errors.New("it is empty")
		}
		return err
	})
	if err != nil {
		return none, x, err
	}
	return value, x, nil
}

// callList is call for a list or a page of it. An entry of another shape is nil, and counted in the exchange.
func callList[T any](
	ctx context.Context, c *connection, ask func(*gitea.Client) ([]*T, *gitea.Response, error),
) (all []*T, x *exchange, err error) {
	x, err = c.exchange(ctx, c.limit, new(exchange), func(ctx context.Context, x *exchange) (err error) {
		if all, _, err = ask(c.sdk(ctx)); err != nil && x.accepted() {
			all, err = decodeEach[T](x)
		}
		return err
	})
	if err != nil {
		return nil, x, err
	}
	return all, x, nil
}

// decodeEach decodes a list entry by entry. The SDK decodes none of the entries after one of another shape.
func decodeEach[T any](x *exchange) ([]*T, error) {
	if len(x.answer) == 0 {
		return nil, nil
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(x.answer, &entries); err != nil {
		return nil, err
	}
	all := make([]*T, len(entries))
	for i, entry := range entries {
		if json.Unmarshal(entry, &all[i]) != nil {
			all[i] = nil
			x.dropped++
		}
	}
	return all, nil
}

// write makes one request through the SDK whose answer is not needed.
func (c *connection) write(ctx context.Context, ask func(*gitea.Client) error) error {
	_, err := c.exchange(ctx, c.limit, new(exchange), func(ctx context.Context, x *exchange) error {
		if err := ask(c.sdk(ctx)); !x.accepted() {
			return err
		}
		return nil
	})
	return err
}

// sdk returns a client of the SDK for one request: its context belongs to the client. It asks for no version, which
// would be a request of its own.
func (c *connection) sdk(ctx context.Context) *gitea.Client {
	g, err := gitea.NewClient(c.url, gitea.SetHTTPClient(c.http), gitea.SetContext(ctx), gitea.SetGiteaVersion(""),
		gitea.SetToken(c.token), gitea.SetBasicAuth(c.user, c.password))
	if err != nil {
		panic(err) // cannot fail: none of the options fails, and without a version there is no request
	}
	return g
}

// exchange makes one request, which ask sends with the context that it gets. It waits for one of the context's slots.
func (c *connection) exchange(
	ctx context.Context, limit time.Duration, x *exchange, ask func(context.Context, *exchange) error,
) (*exchange, error) {
	x.total, x.longest, x.whole = -1, cmp.Or(x.longest, c.longest), x.whole || c.whole
	done, err := slot(ctx)
	if err != nil {
		return x, err
	}
	defer done()
	within, cancel := context.WithTimeout(context.WithValue(ctx, exchangeKey{}, x), limit)
	defer cancel()
	x.began = time.Now()
	err = ask(within, x)
	x.answer = nil // or the facts of a list would keep it
	if x.method == "" {
		return x, fmt.Errorf("cannot ask the forge: %w", err) // the SDK refuses it: an empty text, for example
	}
	c.requests.Add(1)
	if c.observe != nil {
		c.observe(route(x.method, x.path), x.status, time.Since(x.began))
	}
	return x, c.failure(ctx, x, err)
}

// slots is the context key of the slots for the requests that a scan or a look makes at once. A look has its own,
// because the result of a session must not wait for a scan or for another session's look, which take long if the forge
// is slow. Requests outside both need no slot.
type slots struct{}

func withSlots(ctx context.Context) context.Context {
	return context.WithValue(ctx, slots{}, make(chan struct{}, atOnce))
}

// slot waits for one of the context's slots; done gives it back.
func slot(ctx context.Context) (done func(), err error) {
	all, limited := ctx.Value(slots{}).(chan struct{})
	if !limited {
		return func() {}, nil
	}
	select {
	case all <- struct{}{}:
		return func() { <-all }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
