package rest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/forge"
)

func TestCall(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if len(body) == 0 {
			body = []byte("null")
		}
		fmt.Fprintf(w, `{"path":%q,"auth":%q,"sent":%s}`, r.URL.Path, r.Header.Get("Authorization"), body)
	}))
	defer server.Close()
	a := &API{URL: server.URL, Token: "t0ken"}
	var got struct {
		Path, Auth string
		Sent       map[string]string
	}
	if err := a.Post(t.Context(), "/repos/a/b", map[string]string{"k": "v"}, &got); err != nil {
		t.Fatal(err)
	}
	if got.Path != "/api/v1/repos/a/b" || got.Auth != "token t0ken" || got.Sent["k"] != "v" {
		t.Errorf("the forge received %+v, want path /api/v1/repos/a/b, the token, and k=v", got)
	}
	var raw []byte
	if err := a.Get(t.Context(), "/x", &raw); err != nil || !strings.Contains(string(raw), `"/api/v1/x"`) {
		t.Errorf("Get returned %s, %v; want the raw answer with the path", raw, err)
	}
}

func TestRefusals(t *testing.T) {
	tests := map[int]error{
		401: forge.ErrForbidden, 403: forge.ErrForbidden, 404: forge.ErrNotFound, 405: forge.ErrConflict,
		409: forge.ErrConflict,
		412: forge.ErrConflict, 422: nil, 429: forge.ErrUnavailable, 500: forge.ErrUnavailable, 502: forge.ErrUnavailable,
	}
	for status, want := range tests {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, strings.Repeat("no ", 1000))
		}))
		err := (&API{URL: server.URL, Token: "t0ken"}).Get(t.Context(), "/x", nil)
		server.Close()
		if kind := errors.Unwrap(err); kind != want || !strings.Contains(err.Error(), fmt.Sprint(status)) {
			t.Errorf("status %d: got %v, want an error that wraps %v", status, err, want)
		}
		if len(err.Error()) > 400 || strings.Contains(err.Error(), "t0ken") {
			t.Errorf("status %d: the error is long or contains the token: %q", status, err)
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"message":"user already exists","url":"http://forge/api/swagger"}`)
	}))
	defer server.Close()
	if err := (&API{URL: server.URL}).Post(t.Context(), "/x", nil, nil); err == nil ||
		err.Error() != "POST /x: 422 Unprocessable Entity user already exists" {
		t.Errorf("got %v, want the message of the forge's answer", err)
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	if err := (&API{URL: gone.URL}).Get(t.Context(), "/x", nil); !errors.Is(err, forge.ErrUnavailable) {
		t.Errorf("without a forge at the address: got %v, want %v", err, forge.ErrUnavailable)
	}
}
