package localforge

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestFaults(t *testing.T) {
	var fault atomic.Int32
	w := newWorld(t, func(o *Options) {
		o.Fault = func(*http.Request) Fault { return Fault(fault.Load()) }
	})
	file := func(timeout time.Duration) (status int, body string, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "POST", w.url+"/api/v1"+harb+"/issues",
			strings.NewReader(`{"title":"x"}`))
		w.must(err)
		req.Header.Set("Authorization", "token "+w.tokens["dev"])
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text), err
	}
	filed := func() int {
		fault.Store(int32(NoFault))
		return len(w.want(200, "dev", "GET", harb+"/issues?limit=50", nil).list)
	}
	for _, row := range []struct {
		name   string
		fault  Fault
		status int
		broken bool // the connection broke
		filed  int  // issues that the request created
	}{
		{"none", NoFault, 201, false, 1},
		{"drop", Drop, 0, true, 0},
		{"fail", Fail, 500, false, 0},
		{"limit", Limit, 429, false, 0},
		{"half", Half, 201, true, 1},
		{"lose", Lose, 0, true, 1},
	} {
		before := filed()
		fault.Store(int32(row.fault))
		status, body, err := file(time.Minute)
		if status != row.status || (err != nil) != row.broken {
			t.Errorf("%s: got status %d, error %v; want %d, broken %v", row.name, status, err, row.status, row.broken)
		}
		if row.fault == Half && (body == "" || strings.HasSuffix(body, "}\n")) {
			t.Errorf("the client received %q, want half of the answer", body)
		}
		if n := filed() - before; n != row.filed {
			t.Errorf("%s: %d issues filed, want %d", row.name, n, row.filed)
		}
	}
	fault.Store(int32(Hang))
	if _, _, err := file(50 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hang: got %v, want a timeout", err)
	}
}

// A slow client delays no other request.
func TestSlowClient(t *testing.T) {
	arrived := make(chan struct{}, 1)
	w := newWorld(t, func(o *Options) {
		o.Fault = func(r *http.Request) Fault {
			if r.ContentLength < 0 { // only the slow request has no known length
				arrived <- struct{}{}
			}
			return NoFault
		}
	})
	w.file("one")
	slow, never := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		req, _ := http.NewRequestWithContext(ctx, "POST", w.url+"/api/v1"+harb+"/issues", slow)
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
