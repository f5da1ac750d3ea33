package forgejo

import (
	"bytes"
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

// exchange is what the transport records about one request and its redirects.
type exchange struct {
	method, path string    // of the request; "" until it is sent
	longest      int64     // bytes of an answer
	whole        bool      // the answer is not cut
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

// RoundTrip makes one request. The answer's body was read and needs no closing.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x, known := req.Context().Value(exchangeKey{}).(*exchange)
	if !known {
		return nil, errors.New("internal error: a request outside an exchange")
	}
	if x.method == "" {
		x.method, x.path = req.Method, req.URL.Path
	}
	x.status = 0
	resp, err := t.next.RoundTrip(req)
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
		answer, x.dropped, err = cutAnswer(resp.Body, x.longest)
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
// empty message or no body; a proxy answers with an HTML page.
func refusalOf(resp *http.Response, answer []byte) string {
	if resp.StatusCode == http.StatusUnauthorized {
		return "the forge does not know this token"
	}
	if to := resp.Header.Get("Location"); to != "" && resp.StatusCode < 400 {
		return "the forge sends us to " + to
	}
	var said struct{ Message string }
	_ = json.Unmarshal(answer, &said) // fails for an HTML page, which has no message
	if said.Message == "" {
		return strings.ToLower(http.StatusText(resp.StatusCode))
	}
	return said.Message
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
