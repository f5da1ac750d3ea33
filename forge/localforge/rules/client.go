package rules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// requestTime is much longer than any answer takes: a merge on a busy machine took two seconds. It only keeps a dead
// server from hanging the suite.
const requestTime = time.Minute

// fields is the JSON object of a request.
type fields map[string]any

// account makes requests with its token, or anonymously if the token is empty.
type account struct {
	w        *world
	name     string
	password string
	token    string
}

func (a *account) get(path string) answer { return a.call(http.MethodGet, path, nil) }

func (a *account) post(path string, body any) answer { return a.call(http.MethodPost, path, body) }

func (a *account) put(path string, body any) answer { return a.call(http.MethodPut, path, body) }

func (a *account) patch(path string, body any) answer { return a.call(http.MethodPatch, path, body) }

// remove sends DELETE; requests for dependencies and file contents need a body.
func (a *account) remove(path string, body ...any) answer {
	if len(body) > 0 {
		return a.call(http.MethodDelete, path, body[0])
	}
	return a.call(http.MethodDelete, path, nil)
}

// call sends a request to a path below /api/v1 and returns any answer. A nil body sends none.
func (a *account) call(method, path string, body any) answer {
	a.w.Helper()
	return a.w.send(a.w.request(method, path, body, func(r *http.Request) {
		if a.token != "" {
			r.Header.Set("Authorization", "token "+a.token)
		}
	}))
}

// withPassword sends a request with login and password instead of the token, and returns any answer.
func (a *account) withPassword(method, path string, body any) answer {
	a.w.Helper()
	return a.w.send(a.w.request(method, path, body, func(r *http.Request) { r.SetBasicAuth(a.name, a.password) }))
}

func (w *world) request(method, path string, body any, sign func(*http.Request)) *http.Request {
	w.Helper()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			w.Fatalf("%s %s: cannot encode the request: %v", method, path, err)
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(w.ctx, method, w.server.URL+"/api/v1"+path, content)
	if err != nil {
		w.Fatalf("%s %s: %v", method, path, err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	sign(r)
	return r
}

func (w *world) send(r *http.Request) answer {
	w.Helper()
	in, err := client.Do(r)
	if err != nil {
		w.Fatalf("%v", err)
	}
	defer in.Body.Close()
	body, err := io.ReadAll(in.Body)
	if err != nil {
		w.Fatalf("%s %s: the answer broke off: %v", r.Method, r.URL.Path, err)
	}
	return answer{
		w: w, request: r.Method + " " + strings.TrimPrefix(r.URL.RequestURI(), "/api/v1"),
		status: in.StatusCode, header: in.Header, body: body,
	}
}

// client is shared, so that connections are reused. It follows no redirects: the first answer counts.
var client = &http.Client{
	Timeout:       requestTime,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// answer is the answer to one request.
type answer struct {
	w       *world
	request string
	status  int
	header  http.Header
	body    []byte
}

// want ends the test unless the status is one of the given ones.
func (a answer) want(status ...int) answer {
	a.w.Helper()
	if !slices.Contains(status, a.status) {
		a.w.Fatalf("%s: got %s, want %v", a.request, a, status)
	}
	return a
}

// refused ends the test unless the forge refused the request with any status: the statuses of some refusals, including
// 500, differ between versions.
func (a answer) refused() answer {
	a.w.Helper()
	if a.status < 400 {
		a.w.Fatalf("%s: got %s, want a refusal", a.request, a)
	}
	return a
}

// into decodes the answer, and ends the test if it is not JSON of that type.
func (a answer) into(value any) {
	a.w.Helper()
	if err := json.Unmarshal(a.body, value); err != nil {
		a.w.Fatalf("%s: cannot read the answer %s: %v", a.request, a, err)
	}
}

// total returns X-Total-Count; -1 if the answer has none.
func (a answer) total() int {
	n := -1
	_, _ = fmt.Sscan(a.header.Get("X-Total-Count"), &n)
	return n
}

// String returns the status and the beginning of the body.
func (a answer) String() string {
	return fmt.Sprintf("%d %.300s", a.status, bytes.TrimSpace(a.body))
}

// read decodes the answer to GET path, which must be 200.
func read[T any](a *account, path string) T {
	a.w.Helper()
	return decode[T](a.get(path).want(http.StatusOK))
}

// decode is into, but returns the value.
func decode[T any](a answer) T {
	a.w.Helper()
	var value T
	a.into(&value)
	return value
}
