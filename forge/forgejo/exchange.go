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
	"reflect"
	"strconv"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/rest"
)

// exchange is one request with the parts of its answer that we use. The SDK supplies only the types of answers. Its
// client is not used, because it hides the Date header, the reason for a refused merge, and that an answer broke off.
type exchange struct {
	at         string    // method and path of the request, for errors
	began      time.Time // our clock
	answered   time.Time
	date       time.Time // the forge's clock; zero if the answer had no Date
	status     int       // 0 without an answer
	total      int       // X-Total-Count; -1 without the header
	dropped    int       // list entries that could not be read
	retryAfter time.Duration
}

// ask is a request to the API. Its path needs no escaping, which forge.ValidRepo ensures for repository names. in is
// sent as JSON; nil sends no body.
type ask struct {
	method, path string
	in           any
}

// read makes a GET request of a scan or look. It waits while atOnce such requests are in flight.
func read[T any](ctx context.Context, c *Client, path string) (T, *exchange, error) {
	done, err := c.turn(ctx)
	if err != nil {
		var none T
		return none, nil, err
	}
	defer done()
	return do[T](ctx, c, ask{http.MethodGet, path, nil})
}

// get is read that decodes into a variable; it is a getter.
func (c *Client) get(ctx context.Context, path string, out any) (total int, err error) {
	raw, x, err := read[json.RawMessage](ctx, c, path)
	if err != nil {
		return -1, err
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return -1, fmt.Errorf("%w: %s: %w", forge.ErrUnavailable, path, err)
	}
	return x.total, nil
}

// turn waits for one of the slots for concurrent requests; done gives the slot back.
func (c *Client) turn(ctx context.Context) (done func(), err error) {
	turns := c.slots
	if own, ok := ctx.Value(ownTurns{}).(chan struct{}); ok {
		turns = own
	}
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ownTurns is the context key of the slots of one look. A look has its own slots, because the result of a session must
// not wait for a scan or for another session's look, which take long if the forge is slow.
type ownTurns struct{}

func withOwnTurns(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownTurns{}, make(chan struct{}, atOnce))
}

// do makes one request with our own token.
func do[T any](ctx context.Context, c *Client, a ask) (T, *exchange, error) {
	return doAs[T](ctx, c, c.token, requestTime, a)
}

// write is do for a request whose answer is not needed.
func (c *Client) write(ctx context.Context, method, path string, in any) error {
	_, _, err := do[nothing](ctx, c, ask{method, path, in})
	return err
}

// nothing decodes any answer and discards it.
type nothing struct{}

func (*nothing) UnmarshalJSON([]byte) error { return nil }

// doAs makes one request with the given token and time limit, and decodes the answer.
func doAs[T any](ctx context.Context, c *Client, token string, limit time.Duration, a ask) (T, *exchange, error) {
	var value, none T
	var body bytes.Buffer
	if a.in != nil {
		if err := json.NewEncoder(&body).Encode(a.in); err != nil {
			return none, nil, fmt.Errorf("internal error: %w", err)
		}
	}
	req, err := http.NewRequest(a.method, c.url+"/api/v1"+a.path, &body)
	if err != nil {
		return none, nil, fmt.Errorf("internal error: %w", err)
	}
	req.Header.Set("Authorization", "token "+token)
	req.Header.Set("Content-Type", "application/json")
	answer, x, err := c.send(ctx, limit, token, req)
	if err == nil {
		var bad int
		bad, err = decode(answer, &value)
		x.dropped += bad
		if err != nil { // such as a login page, or a proxy's error page
			err = x.failure(ctx, token, forge.ErrUnavailable, "the answer is not from a forge: "+err.Error())
		}
	}
	if err != nil {
		return none, x, err
	}
	return value, x, nil
}

// decode decodes an answer into value. If value is a pointer to an object, null or an empty answer is an error; a list
// can be null. A list entry of another shape is left as the zero value, and counted in bad.
func decode[T any](answer []byte, value *T) (bad int, err error) {
	v := reflect.ValueOf(value).Elem()
	if len(answer) > 0 {
		err = json.Unmarshal(answer, value)
		if _, misshapen := errors.AsType[*json.UnmarshalTypeError](err); misshapen || isTimeError(err) {
			if v.Kind() == reflect.Slice {
				return decodeEach(answer, v)
			}
		}
		if err != nil {
			return 0, err
		}
	}
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return 0, errors.New("it is empty")
	}
	return 0, nil
}

func isTimeError(err error) bool {
	_, ok := errors.AsType[*time.ParseError](err)
	return ok
}

// decodeEach decodes a list entry by entry.
func decodeEach(answer []byte, list reflect.Value) (bad int, err error) {
	var entries []json.RawMessage
	if err := json.Unmarshal(answer, &entries); err != nil {
		return 0, err
	}
	all := reflect.MakeSlice(list.Type(), len(entries), len(entries))
	for i, entry := range entries {
		if json.Unmarshal(entry, all.Index(i).Addr().Interface()) != nil {
			all.Index(i).SetZero()
			bad++
		}
	}
	list.Set(all)
	return bad, nil
}

// send makes one request and returns the body of a successful answer. A followed redirect counts as part of the
// request.
func (c *Client) send(
	ctx context.Context, limit time.Duration, token string, req *http.Request,
) ([]byte, *exchange, error) {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c.requests.Add(1)
	path := req.URL.Path
	if _, below, api := strings.Cut(path, "/api/v1"); api {
		path = below
	}
	x := &exchange{at: req.Method + " " + path, began: time.Now(), total: -1}
	if c.observe != nil {
		defer func() { c.observe(route(req.Method, req.URL.Path), x.status, time.Since(x.began)) }()
	}
	resp, err := c.http.Do(req.WithContext(within))
	x.answered = time.Now()
	if err != nil {
		return nil, x, x.failure(ctx, token, forge.ErrUnavailable, rootOf(err).Error())
	}
	defer resp.Body.Close()
	x.note(resp)
	if x.status >= 300 {
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
		return nil, x, x.failure(ctx, token, rest.KindOf(x.status), refusal(resp, answer))
	}
	var answer []byte
	if isJSON := req.Header.Get("Accept") == ""; isJSON {
		answer, x.dropped, err = cutAnswer(resp.Body, c.longest)
	} else {
		answer, err = io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	}
	switch {
	case errors.Is(err, errTooLong):
		return nil, x, x.failure(ctx, token, errTooLong, fmt.Sprintf("longer than %d MB", maxRaw>>20))
	case err != nil:
		return nil, x, x.failure(ctx, token, forge.ErrUnavailable, "the answer broke off: "+rootOf(err).Error())
	}
	return answer, x, nil
}

// note records the values of the headers.
func (x *exchange) note(resp *http.Response) {
	x.status = resp.StatusCode
	x.date, _ = http.ParseTime(resp.Header.Get("Date"))
	if n, err := strconv.Atoi(resp.Header.Get("X-Total-Count")); err == nil && n >= 0 {
		x.total = n
	}
	x.retryAfter = retryAfter(resp.Header.Get("Retry-After"), x.date)
}

// refusal returns the forge's reason for refusing a request. Forgejo answers {"message": ...}, sometimes with an empty
// message or no body; a proxy answers with an HTML page.
func refusal(resp *http.Response, answer []byte) string {
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

// forgeBegan returns the earliest time by the forge's clock at which the request can have begun. Date has whole seconds
// and is written when the answer is ready. A forge that sends no Date is assumed to be a minute behind our clock, which
// costs only some more requests.
func (x *exchange) forgeBegan() time.Time {
	if x.date.IsZero() {
		return x.began.Add(-time.Minute)
	}
	return x.date.Add(x.began.Sub(x.answered))
}

// wrap completes a method's error as "cannot X: why".
func wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("cannot %s: %w", fmt.Sprintf(format, args...), *err)
	}
}

// requestError is the error of a failed request.
type requestError struct {
	kind       error // an error of package forge, or the error of the caller's context; nil when neither fits
	at         string
	said       string
	status     int
	retryAfter time.Duration
}

func (e *requestError) Error() string {
	text := e.said
	switch {
	case e.kind == nil:
	case text == "" || text == e.kind.Error(): // the text of a status is often the same as that of its kind
		text = e.kind.Error()
	default:
		text = e.kind.Error() + ": " + text
	}
	if e.status > 0 {
		return fmt.Sprintf("%s (%d to %s)", text, e.status, e.at)
	}
	return fmt.Sprintf("%s (%s)", text, e.at)
}

func (e *requestError) Unwrap() error { return e.kind }

// statusOf returns the HTTP status of a refused request; 0 for other errors.
func statusOf(err error) int {
	if e, ok := errors.AsType[*requestError](err); ok {
		return e.status
	}
	return 0
}

// failure returns the error of the exchange. If the caller's context has ended, the context's error is the kind.
func (x *exchange) failure(ctx context.Context, token string, kind error, said string) error {
	e := &requestError{kind: kind, at: x.at, said: oneLine(said), status: x.status, retryAfter: x.retryAfter}
	if ctx.Err() != nil {
		e.kind, e.said = ctx.Err(), ""
	}
	e.said = strings.ReplaceAll(e.said, token, "[token]")
	return e
}

// rootOf removes the address from the error of a failed request, because requestError already names it.
func rootOf(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("no answer in time")
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
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

// oneLine makes text from the forge fit for an error: one line without control characters, of at most 300 characters.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
	if runes := []rune(s); len(runes) > 300 {
		s = string(runes[:300]) + "..."
	}
	return strings.TrimSpace(s)
}
