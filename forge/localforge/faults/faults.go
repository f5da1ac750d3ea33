// Package faults makes a forge fail in tests: requests get no answer, half of one, or an error.
package faults

import (
	"bytes"
	"io"
	"maps"
	"net/http"
)

// Fault is a way in which the forge fails a request in a test.
type Fault int

const (
	// None serves the request.
	None Fault = iota
	// Drop breaks the connection before the request is executed.
	Drop
	// Fail answers 500 without executing the request.
	Fail
	// Limit answers 429 with a Retry-After of one second.
	Limit
	// Hang gives no answer until the client gives up.
	Hang
	// Half executes the request and sends only half of the answer.
	Half
	// Lose executes the request and breaks the connection without an answer: the client cannot know whether its write
	// succeeded.
	Lose
)

// Handler returns a handler whose requests fail as choose says. choose is called from many goroutines.
func Handler(forge http.Handler, choose func(*http.Request) Fault) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(forge, w, r, choose(r)) })
}

// serve answers a request with a fault. A panic with ErrAbortHandler makes net/http break the connection.
func serve(forge http.Handler, w http.ResponseWriter, r *http.Request, fault Fault) {
	switch fault {
	case None:
		forge.ServeHTTP(w, r)
	case Drop:
		panic(http.ErrAbortHandler)
	case Fail:
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
	case Limit:
		w.Header().Set("Retry-After", "1")
		http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
	case Hang:
		_, _ = io.Copy(io.Discard, r.Body) // net/http notices that a client gives up only after it has read the request
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case Lose:
		forge.ServeHTTP(&recordedResponse{header: http.Header{}}, r)
		panic(http.ErrAbortHandler)
	case Half:
		whole := &recordedResponse{header: http.Header{}, status: http.StatusOK}
		forge.ServeHTTP(whole, r)
		maps.Copy(w.Header(), whole.header)
		body := whole.body.Bytes()
		w.WriteHeader(whole.status)
		_, _ = w.Write(body[:len(body)/2])
		if flusher, ok := w.(http.Flusher); ok {
			flusher.Flush()
		}
		panic(http.ErrAbortHandler)
	}
}

// recordedResponse is a ResponseWriter that records the answer.
type recordedResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *recordedResponse) Header() http.Header         { return k.header }
func (k *recordedResponse) WriteHeader(status int)      { k.status = status }
func (k *recordedResponse) Write(b []byte) (int, error) { return k.body.Write(b) }
