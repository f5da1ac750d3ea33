package control

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// served serves a handler on the socket of a new state directory, and returns a client for it.
func served(t *testing.T, h http.Handler) *Client {
	t.Helper()
	state := t.TempDir()
	l, err := ListenUnix(filepath.Join(state, SocketName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(Serve(l, h, nil, nil, hclog.NewNullLogger()))
	return NewClient(state)
}

// A barred process gets a refusal for every request.
func TestBarred(t *testing.T) {
	state, ours := t.TempDir(), os.Getpid()
	l, err := ListenUnix(filepath.Join(state, SocketName))
	if err != nil {
		t.Fatal(err)
	}
	h := Handler(func(string, error) {},
		Get("/v1/see", func(context.Context, url.Values) (*Report, error) { return &Report{}, nil }))
	t.Cleanup(Serve(l, h, func(pid int) bool { return pid == ours }, nil, hclog.NewNullLogger()))
	var no *Refusal
	if err := NewClient(state).Get(t.Context(), "/v1/see", new(Report)); !errors.As(err, &no) || no.Status != 403 {
		t.Errorf("got error %v, want a refusal with 403", err)
	}
}

// A refusal reaches the client unchanged. Any other error becomes a 503 with the same text on one line.
func TestRefusals(t *testing.T) {
	for want, err := range map[int]error{
		400: Invalid("bad %d", 1), 404: NotFound("bad %d", 1), 409: Conflict("bad %d", 1), 503: errors.New("bad\n1"),
	} {
		c := served(t, Handler(func(string, error) {},
			Post("/v1/do", func(context.Context, ItemRequest) (*Report, error) { return nil, err }),
			Get("/v1/see", func(context.Context, url.Values) (*Report, error) { return nil, err }),
		))
		words := strings.ReplaceAll(err.Error(), "\n", "; ")
		for name, got := range map[string]error{
			"POST": c.Post(t.Context(), "/v1/do", ItemRequest{Ref: "1"}, new(Report)),
			"GET":  c.Get(t.Context(), "/v1/see", new(Report)),
			"copy": c.Copy(t.Context(), "/v1/see", new(strings.Builder)),
		} {
			var no *Refusal
			if !errors.As(got, &no) || no.Status != want || no.Words != words {
				t.Errorf("%s: got %#v, want %d %s", name, got, want, words)
			}
		}
	}
}

// A command receives its request and sends its report; it does not act on a request that it cannot read.
func TestPost(t *testing.T) {
	done := 0
	h := Handler(func(string, error) {}, Post("/v1/do", func(_ context.Context, r ItemRequest) (*Report, error) {
		done++
		return &Report{Subject: r.Ref}, nil
	}))
	var report Report
	err := served(t, h).Post(t.Context(), "/v1/do", ItemRequest{Ref: "12"}, &report)
	if err != nil || report.Subject != "12" {
		t.Errorf("got report %+v, %v, want subject 12", report, err)
	}
	large := `{"ref":"` + strings.Repeat("x", maxCommand) + `"}`
	for body, want := range map[string]int{``: 200, `{"ref":"1"}`: 200, `{"rev":"1"}`: 400, `{"ref":`: 400, large: 400} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/v1/do", strings.NewReader(body)))
		if w.Code != want {
			t.Errorf("%.20s: got %d, want %d", body, w.Code, want)
		}
	}
	if done != 3 {
		t.Errorf("the command ran %d times, want 3", done)
	}
}

// A stream of events starts, delivers each event, and ends with the feed.
func TestHear(t *testing.T) {
	var feed Feed
	c := served(t, Handler(func(string, error) {}, Events("/v1/events", &feed)))
	heard := make(chan int, 10)
	go func() {
		n := 0
		c.Follow(t.Context(), func() { n++; heard <- n })
		close(heard)
	}()
	<-heard
	feed.Send(EventMerged, RefData{Repo: "a/b", Number: 1})
	<-heard
	feed.Close()
	if n := <-heard; n != 3 {
		t.Errorf("heard %d times, want 3", n)
	}
	if _, open := <-heard; open {
		t.Error("Hear continued after the end")
	}
}

func TestNoSupervisor(t *testing.T) {
	c := NewClient(t.TempDir())
	err := c.Get(t.Context(), "/v1/state", nil)
	if !errors.Is(err, ErrNoSupervisor) || !strings.Contains(err.Error(), c.StateDir()) {
		t.Errorf("got error %v, want ErrNoSupervisor with the state directory", err)
	}
}

// The status file is written for changes, and not for each scan.
func TestStatusFile(t *testing.T) {
	state := t.TempDir()
	if document, _ := ReadStatusFile(state); document != nil {
		t.Errorf("for a new state directory: got status %s, want none", document)
	}
	f, d := NewStatusFile(state), &Document{Version: "1"}
	written := func() string {
		document, at := ReadStatusFile(state)
		var got Document
		if err := json.Unmarshal(document, &got); err != nil || at.IsZero() {
			t.Errorf("cannot read the status file of %s: %v: %s", at, err, document)
		}
		return got.Version
	}
	f.Write(d)
	if got := written(); got != "1" {
		t.Errorf("got version %q, want 1", got)
	}
	if err := os.Remove(filepath.Join(state, statusName)); err != nil {
		t.Fatal(err)
	}
	d.Forge.LastScan, d.Forge.Requests = time.Now(), 7
	f.Write(d)
	if document, _ := ReadStatusFile(state); document != nil {
		t.Error("the file was written for a scan without changes")
	}
	d.Version = "2"
	f.Write(d)
	if got := written(); got != "2" {
		t.Errorf("got version %q, want 2", got)
	}
}
