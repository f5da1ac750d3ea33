package forgejo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// transport reads each answer within our bounds before the SDK does, which has none, and records in the exchange what
// the SDK does not pass on: the forge's clock, the reason for a refusal, and that an answer broke off.
type transport struct{ next http.RoundTripper }

// exchange is one request with its redirects: its bounds, and what the transport records about it.
type exchange struct {
	c       *connection
	ctx     context.Context // of the caller
	limit   time.Duration   // of the whole exchange
	longest int64           // bytes of an answer
	whole   bool            // the answer is not cut

	method, path string    // of the request; "" until it is sent
	redirected   bool      // the answer came from another address
	began        time.Time // our clock
	answered     time.Time
	date         time.Time // the forge's clock; zero if the answer had no Date
	status       int       // 0 without an answer
	total        int       // X-Total-Count; -1 without the header
	dropped      int       // list entries that could not be read
	retryAfter   time.Duration
	refusal      string // the forge's reason for refusing the request
	answer       []byte // nil after a refusal, and once the exchange is over
	broke        error  // why the answer could not be read
}

// exchangeKey is the context key of the exchange.
type exchangeKey struct{}

// context returns the context of the request.
func (x *exchange) context() context.Context { return context.WithValue(x.ctx, exchangeKey{}, x) }

// RoundTrip makes one request, once it has one of the context's slots. The body of the answer was read and needs no
// closing.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x, known := req.Context().Value(exchangeKey{}).(*exchange)
	if !known {
		return nil, errors.New("internal error: a request outside an exchange")
	}
	done, err := slot(req.Context())
	if err != nil {
		return nil, err
	}
	defer done()
	if x.redirected = x.method != ""; !x.redirected {
		x.method, x.path, x.began = req.Method, req.URL.Path, time.Now()
		x.c.requests.Add(1)
	}
	within, cancel := context.WithDeadline(req.Context(), x.began.Add(x.limit))
	defer cancel()
	x.status = 0
	resp, err := t.next.RoundTrip(req.WithContext(within))
	x.answered = time.Now()
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	x.record(resp)
	if x.answer, x.broke = x.read(resp); x.broke != nil {
		return nil, x.broke
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(x.answer)), int64(len(x.answer))
	return resp, nil
}

// end ends the exchange and returns its error: one line without a credential. err is the SDK's. An answer without a
// value is an error too.
func (x *exchange) end(err error) error {
	if err == nil && string(bytes.TrimSpace(x.answer)) == "null" {
		err = errors.New("it is empty")
	}
	return x.close(err)
}

// wrote is end for a request whose answer is not needed, or is not JSON.
func (x *exchange) wrote(err error) error {
	if x.accepted() {
		err = nil
	}
	return x.close(err)
}

// entries is end for a list or a page of it. An entry of another shape is nil, and counted in the exchange.
func entries[T any](x *exchange, all []*T, err error) ([]*T, error) {
	if err != nil && x.accepted() && x.broke == nil { // the SDK decodes no entry after one of another shape
		all, err = decodeEach[T](x)
	}
	if err = x.close(err); err != nil {
		return nil, err
	}
	return all, nil
}

// decodeEach decodes a list entry by entry.
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

// close reports the request and returns its error.
func (x *exchange) close(err error) error {
	x.answer = nil // or the facts of a list would keep it
	if x.c.observe != nil && x.method != "" {
		x.c.observe(route(x.method, x.path), x.status, time.Since(x.began))
	}
	return x.failure(err)
}

// record records the values of the headers.
func (x *exchange) record(resp *http.Response) {
	x.status = resp.StatusCode
	x.date, _ = http.ParseTime(resp.Header.Get("Date"))
	if n, err := strconv.Atoi(resp.Header.Get("X-Total-Count")); err == nil && n >= 0 {
		x.total = n
	}
	x.retryAfter = retryAfter(resp.Header.Get("Retry-After"), x.date)
}

// read reads the body, and cuts it unless it is to be whole. Of a refusal it keeps only the reason.
func (x *exchange) read(resp *http.Response) (answer []byte, err error) {
	switch {
	case !x.accepted():
		answer, _ = io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // half a reason is better than none
		x.refusal = refusalOf(resp, answer)
		return nil, nil
	case !x.whole:
		answer, x.dropped, err = cutAnswer(resp.Body, x.longest, x.c.needed())
		return answer, err
	}
	answer, err = io.ReadAll(io.LimitReader(resp.Body, x.longest+1))
	if err == nil && int64(len(answer)) > x.longest {
		err = errTooLong
	}
	return answer, err
}

// bound returns the limit of an answer for people.
func (x *exchange) bound() string {
	if x.whole {
		return fmt.Sprintf("%d MB", x.longest>>20)
	}
	return fmt.Sprintf("%d MB", maxRaw>>20)
}

// accepted reports whether the forge carried the request out.
func (x *exchange) accepted() bool { return x.status/100 == 2 }

// at names the request in errors.
func (x *exchange) at() string {
	path := x.path
	if _, below, api := strings.Cut(path, "/api/v1"); api {
		path = below
	}
	return x.method + " " + path
}

// forgeBegan returns the earliest time by the forge's clock at which the request can have begun. Date has whole seconds
// and is written when the answer is ready. A forge that sends no Date is assumed to be a minute behind our clock, which
// costs only some more requests.
func (x *exchange) forgeBegan() time.Time {
	if x.date.IsZero() {
		return x.began.Add(-time.Minute)
	}
	return x.date.Add(x.began.Sub(x.answered))
}

// sameRequest follows the redirect of a renamed repository. It follows at most three, never sends our token to another
// host, and never makes another request of it: http.Client would turn a write into a GET.
func sameRequest(req *http.Request, via []*http.Request) error {
	first := via[0]
	if len(via) > 3 || req.URL.Host != first.URL.Host || req.URL.Scheme != first.URL.Scheme ||
		req.Method != first.Method {
		return http.ErrUseLastResponse
	}
	return nil
}

// refusalOf returns the forge's reason for refusing a request. Forgejo answers {"message": ...}, sometimes with an
// empty message or no body; a proxy answers with an HTML page. A merge with a conflict is answered with the conflict
// itself, and of a rebase with the commit that conflicts.
func refusalOf(resp *http.Response, answer []byte) string {
	if resp.StatusCode == http.StatusUnauthorized {
		return "the forge does not know this token"
	}
	if to := resp.Header.Get("Location"); to != "" && resp.StatusCode < 400 {
		return "the forge sends us to " + to
	}
	var said struct{ Message, Style, CommitSHA, StdErr string }
	_ = json.Unmarshal(answer, &said) // fails for an HTML page, which has no message
	switch {
	case said.Message != "":
		return said.Message
	case said.CommitSHA != "":
		return said.Style + " conflict at commit " + said.CommitSHA + ": " + said.StdErr
	case said.Style != "":
		return said.Style + " conflict: " + said.StdErr
	}
	return strings.ToLower(http.StatusText(resp.StatusCode))
}

// retryAfter reads both forms of the header; 0 if it has neither.
func retryAfter(s string, date time.Time) time.Duration {
	if n, err := strconv.Atoi(s); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(s); err == nil && !date.IsZero() && t.After(date) {
		return t.Sub(date)
	}
	return 0
}
