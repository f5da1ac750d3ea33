package forgejo

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// requestError is the error of a failed request.
type requestError struct {
	kind       error // an error of package forge, or the error of the caller's context; nil when neither fits
	cause      error // why there was no answer; nil if there was one
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

// Unwrap returns kind and cause, as far as they are known.
func (e *requestError) Unwrap() []error {
	return slices.DeleteFunc([]error{e.kind, e.cause}, func(err error) bool { return err == nil })
}

// hide replaces a credential in the text.
func (e *requestError) hide(credential, by string) {
	if credential != "" {
		e.said = strings.ReplaceAll(e.said, credential, by)
	}
}

// statusOf returns the HTTP status of a refused request; 0 for other errors.
func statusOf(err error) int {
	if e, ok := errors.AsType[*requestError](err); ok {
		return e.status
	}
	return 0
}

// failure returns the error of an exchange; nil if there is none. err is the error of the SDK or of the HTTP client.
// Its text counts only for an answer of the wrong shape: the SDK's errors can have the whole answer in them.
func (x *exchange) failure(err error) error {
	if x.method == "" {
		return fmt.Errorf("cannot ask the forge: %w", err) // the SDK refuses to send an empty text, for example
	}
	e := &requestError{at: x.at(), status: x.status, retryAfter: x.retryAfter}
	switch {
	case x.status == 0:
		e.kind, e.cause = forge.ErrUnavailable, rootOf(err)
		e.said = e.cause.Error()
	case errors.Is(x.broke, errTooLong):
		e.kind, e.said = errTooLong, "longer than "+x.bound()
	case x.broke != nil:
		e.kind, e.said = forge.ErrUnavailable, "the answer broke off: "+rootOf(x.broke).Error()
	case !x.accepted():
		e.kind, e.said = forge.KindOf(x.status), x.refusal
	case err != nil: // such as a login page, or a proxy's error page
		e.kind, e.said = forge.ErrUnavailable, "the answer is not from a forge: "+err.Error()
	default:
		return nil
	}
	if e.said = oneLine(e.said); x.ctx.Err() != nil {
		e.kind, e.said = x.ctx.Err(), ""
	}
	e.hide(x.c.token, "[token]")
	e.hide(x.c.password, "[password]")
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

// wrap completes a method's error as "cannot X: why".
func wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("cannot %s: %w", fmt.Sprintf(format, args...), *err)
	}
}

// oneLine makes text from the forge fit for an error: one line without control characters, of at most 300 characters.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
	if runes := []rune(s); len(runes) > 300 {
		s = string(runes[:300]) + "..."
	}
	return strings.TrimSpace(s)
}
