package faults

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestFaults(t *testing.T) {
	var fault, filed atomic.Int32
	forge := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		filed.Add(1)
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"title":"x"}`+"\n")
	})
	server := httptest.NewServer(Handler(forge, func(*http.Request) Fault { return Fault(fault.Load()) }))
	defer server.Close()
	file := func(timeout time.Duration) (status int, body string, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "POST", server.URL, strings.NewReader(`{"title":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text), err
	}
	for _, row := range []struct {
		name   string
		fault  Fault
		status int
		broken bool  // the connection broke
		filed  int32 // requests that reached the forge
	}{
		{"none", None, 201, false, 1},
		{"drop", Drop, 0, true, 0},
		{"fail", Fail, 500, false, 0},
		{"limit", Limit, 429, false, 0},
		{"half", Half, 201, true, 1},
		{"lose", Lose, 0, true, 1},
	} {
		filed.Store(0)
		fault.Store(int32(row.fault))
		status, body, err := file(time.Minute)
		if status != row.status || (err != nil) != row.broken || filed.Load() != row.filed {
			t.Errorf("%s: got status %d, error %v, %d filed; want %d, broken %v, %d", row.name, status, err, filed.Load(),
				row.status, row.broken, row.filed)
		}
		if row.fault == Half && (body == "" || strings.HasSuffix(body, "}\n")) {
			t.Errorf("the client received %q, want half of the answer", body)
		}
	}
	fault.Store(int32(Hang))
	if _, _, err := file(50 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hang: got %v, want a timeout", err)
	}
}
