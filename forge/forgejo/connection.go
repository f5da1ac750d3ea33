package forgejo

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// connection makes requests to one forge with one account: through the SDK where it has a method for the request, and
// else as own.go does. All bounds are in the transport and here.
type connection struct {
	url            string // without a slash at its end, and without /api/v1
	token          string
	user, password string // sign in where token is empty; both empty: nobody signs in
	http           *http.Client
	limit          time.Duration   // of one request, with its redirects and the reading of its answer
	longest        int64           // bytes of an answer: maxRaw, or less in a test
	whole          bool            // answers are not cut: a session reads and writes whole texts
	labels         func() []string // labels of roles; nil: none
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

// needed returns the labels that are read however many an item has.
func (c *connection) needed() (names []string) {
	for _, l := range forge.RequiredLabels() {
		names = append(names, l.Name)
	}
	if c.labels != nil {
		names = append(names, c.labels()...)
	}
	return names
}

// begin returns the exchange of the next request.
func (c *connection) begin(ctx context.Context) *exchange {
	return &exchange{c: c, ctx: ctx, limit: c.limit, longest: c.longest, whole: c.whole, total: -1}
}

// sdk returns a client of the SDK for one request, because its context belongs to the client, and the exchange, which
// ends with [exchange.end], [exchange.wrote] or [entries]. The client asks for no version, which would be a request of
// its own.
func (c *connection) sdk(ctx context.Context) (*gitea.Client, *exchange) {
	x := c.begin(ctx)
	g, err := gitea.NewClient(c.url, gitea.SetHTTPClient(c.http), gitea.SetContext(x.context()),
		gitea.SetGiteaVersion(""), gitea.SetToken(c.token), gitea.SetBasicAuth(c.user, c.password))
	if err != nil {
		panic(err) // cannot fail: none of the options fails, and without a version there is no request
	}
	return g, x
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
