package localforge

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A slow client delays no other request.
func TestSlowClient(t *testing.T) {
	arrived := make(chan struct{}, 1)
	w := newWorld(t)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.ContentLength < 0 { // only the slow request has no known length
			arrived <- struct{}{}
		}
		w.f.ServeHTTP(rw, r)
	}))
	defer server.Close()
	w.file("one")
	slow, never := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		req, _ := http.NewRequestWithContext(ctx, "POST", server.URL+"/api/v1"+harb+"/issues", slow)
		req.Header.Set("Authorization", "token "+w.tokens["dev"])
		if resp, err := w.client.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	_, err := never.Write([]byte(`{"title":`))
	w.must(err)
	<-arrived
	w.want(200, "dev", "GET", harb+"/issues/1", nil)
	cancel()
	_ = never.Close()
	<-done
}

func TestRequestsAreCounted(t *testing.T) {
	w := newWorld(t)
	w.file("one")
	dir := w.clone("dev")
	w.push(dir, "b", "b.txt", "b\n")
	before := w.f.Requests()
	w.want(200, "dev", "GET", harb+"/issues", nil)
	w.want(404, "dev", "GET", harb+"/issues/9", nil)
	w.want(200, "dev", "GET", harb+"/issues/1", nil)
	w.push(dir, "b", "b.txt", "c\n")
	after := w.f.Requests()
	for route, want := range map[string]int{
		"GET /repos/{owner}/{repo}/issues": 1, "GET /repos/{owner}/{repo}/issues/{number}": 2, "GIT receive-pack": 1,
		"POST /repos/{owner}/{repo}/issues": 0,
	} {
		if n := after[route] - before[route]; n != want {
			t.Errorf("%s: counted %d requests, want %d", route, n, want)
		}
	}
}
