package forgejo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// exchange is one request and what is worth keeping of its answer. It is the transport of the client that is made for
// the call, because the SDK hides half of it: the body of a refused merge, the Date, and a body that ended too early.
type exchange struct {
	next  http.RoundTripper
	count *atomic.Int64

	method, path string
	began        time.Time // by our clock
	answered     time.Time
	date         time.Time // by the forge's clock; zero when it did not say
	status       int       // 0 without an answer
	total        int       // X-Total-Count; -1 when it did not say
	retryAfter   time.Duration
	message      string // of a refusal, one line
	broken       error  // why the body could not be read to its end
}

// RoundTrip implements http.RoundTripper. A redirect comes here twice; the last answer is the one that is kept.
func (x *exchange) RoundTrip(req *http.Request) (*http.Response, error) {
	x.count.Add(1)
	if x.began.IsZero() {
		x.began = time.Now()
		x.method = req.Method
		x.path = req.URL.Path
		if _, path, api := strings.Cut(x.path, "/api/v1"); api {
			x.path = path
		}
	}
	resp, err := x.next.RoundTrip(req)
	x.answered = time.Now()
	if err != nil {
		return nil, err
	}
	x.status = resp.StatusCode
	x.date, _ = http.ParseTime(resp.Header.Get("Date"))
	x.total = -1
	if n, err := strconv.Atoi(resp.Header.Get("X-Total-Count")); err == nil && n >= 0 {
		x.total = n
	}
	x.retryAfter = retryAfter(resp.Header.Get("Retry-After"), x.date)
	if resp.StatusCode >= 300 {
		x.keepMessage(resp)
	}
	resp.Body = &body{from: resp.Body, left: maxAnswer, x: x}
	return resp, nil
}

// keepMessage reads the beginning of a refusal and puts it back. Forgejo's is {"message": ...}, sometimes with an
// empty message or no body; a proxy's is a page.
func (x *exchange) keepMessage(resp *http.Response) {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), resp.Body), resp.Body}
	var said struct {
		Message string `json:"message"`
	}
	if to := resp.Header.Get("Location"); to != "" && resp.StatusCode < 400 {
		x.message = oneLine("the forge sends us to " + to)
	} else if json.Unmarshal(text, &said) == nil {
		x.message = oneLine(said.Message)
	}
}

// forgeBegan is when the request began by the forge's clock, at the earliest: Date has whole seconds and is written
// when the answer is ready. A forge that says no date is taken to be a minute behind us, which only costs requests.
func (x *exchange) forgeBegan() time.Time {
	if x.date.IsZero() {
		return x.began.Add(-time.Minute)
	}
	return x.date.Add(x.began.Sub(x.answered))
}

// body reads an answer up to a bound and remembers why it ended early: the SDK takes a broken status list for an
// empty one, which would read as "nothing failed".
type body struct {
	from io.ReadCloser
	left int64
	x    *exchange
}

func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.x.broken = fmt.Errorf("answer is longer than %d MB", maxAnswer>>20)
		return 0, b.x.broken
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if err != nil && err != io.EOF {
		b.x.broken = err
	}
	return n, err
}

func (b *body) Close() error { return b.from.Close() }

// requestError is a request that did not bring what it was made for.
type requestError struct {
	kind       error // one of forge's, nil when none fits
	cause      error // a cancelled context, else nil
	at         string
	said       string
	status     int
	retryAfter time.Duration
}

func (e *requestError) Error() string {
	text := e.said
	switch {
	case e.kind == nil:
	case text == "" || text == e.kind.Error(): // what a status is called is often what we call it
		text = e.kind.Error()
	default:
		text = e.kind.Error() + ": " + text
	}
	if e.status > 0 {
		return fmt.Sprintf("%s (%d to %s)", text, e.status, e.at)
	}
	return fmt.Sprintf("%s (%s)", text, e.at)
}

func (e *requestError) Unwrap() []error {
	var all []error
	for _, err := range []error{e.kind, e.cause} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// failure turns what the SDK returned into an error of ours, nil when all is well. ctx is the caller's own.
func (x *exchange) failure(ctx context.Context, token string, err error) error {
	e := &requestError{at: x.method + " " + x.path, status: x.status, retryAfter: x.retryAfter}
	switch {
	case ctx.Err() != nil && (err != nil || x.broken != nil):
		e.cause, e.said = ctx.Err(), ctx.Err().Error()
	case x.status == 0 && x.method == "" && err != nil: // the SDK refused our arguments
		return fmt.Errorf("internal error: %w", err)
	case x.status == 0 && err != nil:
		e.kind, e.said = forge.ErrUnavailable, oneLine(rootOf(err).Error())
	case x.status >= 300:
		e.kind, e.said = kindOf(x.status), x.message
		if e.said == "" {
			e.said = strings.ToLower(http.StatusText(x.status))
		}
		if x.status == http.StatusUnauthorized {
			e.said = "the forge does not know this token"
		}
	case x.broken != nil:
		e.kind, e.said = forge.ErrUnavailable, oneLine("the answer broke off: "+x.broken.Error())
	case err != nil: // 200 and no JSON: a login page, a proxy's greeting
		e.kind, e.said = forge.ErrUnavailable, oneLine("the answer is not a forge's: "+err.Error())
	default:
		return nil
	}
	e.said = strings.ReplaceAll(e.said, token, "[token]")
	return e
}

// kindOf names what a status means to the caller; nil for our own mistakes (400, 422).
func kindOf(status int) error {
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

// rootOf takes the address off a failed request: the error names it already.
func rootOf(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// retryAfter reads the header's two forms; 0 when it says nothing useful.
func retryAfter(s string, date time.Time) time.Duration {
	if n, err := strconv.Atoi(s); err == nil && n > 0 {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(s); err == nil && !date.IsZero() && t.After(date) {
		return t.Sub(date)
	}
	return 0
}

// oneLine makes text of the forge fit for an error: one line, no control characters, not too long.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
	if runes := []rune(s); len(runes) > 300 {
		s = string(runes[:300]) + "..."
	}
	return strings.TrimSpace(s)
}
