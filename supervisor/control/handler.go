package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// maxCommand bounds the body of a command, in bytes. The longest is a plan: 200 tasks of 5 kB.
	maxCommand = 1 << 20
	// requestTime bounds the sending of a request, because over TCP any client may connect.
	requestTime = 10 * time.Second
	// eventPulse is how often an idle event stream writes a line, to notice a client that has gone.
	eventPulse = 15 * time.Second
)

// Route is one row of the control API's table. Get, Post, Events and Logs make the API's rows; a page or a metric is
// a Route with its own handler.
type Route struct {
	Pattern string // of http.ServeMux, such as "GET /v1/state"
	Handler http.HandlerFunc
}

// Handler serves a table of routes, and GET /healthz. If a document cannot be encoded, the answer is 500, and failed
// is called with the path and the error.
func Handler(failed func(path string, err error), routes ...Route) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	for _, r := range routes {
		mux.HandleFunc(r.Pattern, r.Handler)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(&errorReporter{w, func(err error) { failed(r.URL.Path, err) }}, r)
	})
}

// errorReporter is a response that can report a document that cannot be encoded.
type errorReporter struct {
	http.ResponseWriter
	failed func(error)
}

// Unwrap serves http.ResponseController.
func (t *errorReporter) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// encoded returns a document as JSON. If that fails, it reports the error, and ok is false.
func encoded(w http.ResponseWriter, document any) (text []byte, ok bool) {
	text, err := json.Marshal(document)
	if t, tells := w.(*errorReporter); tells && err != nil {
		t.failed(err)
	}
	return text, err == nil
}

// Get is a route that answers with a document. An error other than a Refusal is answered with 503.
func Get[A any](path string, read func(context.Context, url.Values) (A, error)) Route {
	return Route{"GET " + path, func(w http.ResponseWriter, r *http.Request) {
		document, err := read(r.Context(), r.URL.Query())
		answer(w, document, err)
	}}
}

// Post is the route of a command. It refuses a request with an unknown field, which might be essential. An error
// other than a Refusal is answered with 503.
func Post[T, A any](path string, do func(context.Context, T) (A, error)) Route {
	return Route{"POST " + path, func(w http.ResponseWriter, r *http.Request) {
		var request T
		// The server has no limit of its own, because an event stream has none.
		in := http.NewResponseController(w)
		_ = in.SetReadDeadline(time.Now().Add(requestTime))
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxCommand))
		d.DisallowUnknownFields()
		if err := d.Decode(&request); err != nil && !errors.Is(err, io.EOF) {
			refuse(w, http.StatusBadRequest, "cannot read the command: "+strings.TrimPrefix(err.Error(), "json: "))
			return
		}
		_ = in.SetReadDeadline(time.Time{})
		report, err := do(r.Context(), request)
		answer(w, report, err)
	}}
}

// answer sends a document, or the reason why there is none.
func answer(w http.ResponseWriter, document any, err error) {
	if err == nil {
		send(w, http.StatusOK, document)
		return
	}
	status := http.StatusServiceUnavailable
	if no := (*Refusal)(nil); errors.As(err, &no) {
		status = no.Status
	}
	refuse(w, status, err.Error())
}

// refuse answers with an error in one line.
func refuse(w http.ResponseWriter, status int, why string) {
	send(w, status, map[string]string{"error": strings.ReplaceAll(why, "\n", "; ")})
}

func send(w http.ResponseWriter, status int, document any) {
	text, ok := encoded(w, document)
	if !ok {
		status, text = http.StatusInternalServerError, []byte(`{"error":"internal error: this answer cannot be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n'))
}

// Events is the route of a feed's events (SSE). It ends when the client has gone or is too slow, and when the feed is
// closed.
func Events(path string, feed *Feed) Route {
	return Route{"GET " + path, func(w http.ResponseWriter, r *http.Request) {
		events, leave := feed.Read()
		defer leave()
		Stream(r.Context(), w, events, func(e Event) {
			if data, ok := encoded(w, e.Data); ok {
				fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e.Type, data)
			}
		})
	}}
}

// Stream answers with server-sent events: it calls write for each received value. It returns false when the client
// has gone or is too slow, and true when the channel is closed.
func Stream[T any](ctx context.Context, w http.ResponseWriter, from <-chan T, write func(T)) (ended bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	pulse := time.NewTicker(eventPulse)
	defer pulse.Stop()
	for {
		// Without a deadline a client that reads nothing would block this goroutine for ever.
		_ = out.SetWriteDeadline(time.Now().Add(2 * eventPulse))
		if out.Flush() != nil {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-pulse.C:
			fmt.Fprint(w, ":\n\n")
		case v, open := <-from:
			if !open {
				return true
			}
			write(v)
		}
	}
}
