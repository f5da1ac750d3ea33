// Package web is the control room: the pages that a supervisor serves on [factory] listen_web. They show the output
// of `disinto status`, `why`, `show` and `history`, and steer with the same commands.
//
// The pages are a client of the control API like any command: no page shows or does anything that a command cannot.
// Each page is a file with a function that returns sections of rows (board.go). The server renders them to HTML. It
// renders an open page again when something happens, once for all its readers, and sends the rows that changed
// (live.go). Without JavaScript the browser reloads the page.
//
// To add a page, write its file and add its row to pages.
package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// API is the control API of the supervisor. Its methods may be called from any goroutine. *control.Client implements
// it.
type API interface {
	// Get requests a path such as /v1/state and decodes the answer. An error may be a *control.Refusal.
	Get(ctx context.Context, path string, answer any) error
	// Post sends a command and decodes the answer. An error may be a *control.Refusal.
	Post(ctx context.Context, path string, request, answer any) error
	// Copy requests a path and copies the answer as it arrives, until it ends or ctx is done.
	Copy(ctx context.Context, path string, w io.Writer) error
}

// Site is the control room of one factory. Set the exported fields before calling Handler, and do not change them
// after it.
type Site struct {
	API    API
	Config func() *threads.Config // the current one; nil if none is valid
	Log    hclog.Logger

	once     sync.Once
	visitors visitors
	trips    forgeSignIns
	failures tries // of sign-ins with the forge
	live     live
}

// page is one page of the site.
type page struct {
	path  string // /agents
	title string // in the navigation; empty if the page is not listed there
	key   string // the key that opens it, after g
	// show returns the page's content for a query. An error may be a *control.Refusal, whose words are shown.
	show func(*Site, context.Context, url.Values) (*board, error)
	rest time.Duration // the least time between two renderings while it is open; 0 if it stays as it was loaded
}

var pages = []page{
	{"/", "Now", "n", (*Site).now, 300 * time.Millisecond},
	{"/timeline", "Timeline", "t", (*Site).timeline, 5 * time.Second},
	{"/convoys", "Batches", "b", (*Site).convoys, 300 * time.Millisecond},
	{"/convoy", "", "", (*Site).convoy, 3 * time.Second}, // it may ask the forge
	{"/agents", "Agents", "a", (*Site).agents, time.Second},
	{"/money", "Money", "m", (*Site).money, 3 * time.Second},
	{"/issue", "", "", (*Site).issue, 3 * time.Second}, // it asks the forge
}

// Handler returns the site's handler. It may be called once.
func (s *Site) Handler() http.Handler {
	s.init()
	mux := http.NewServeMux()
	for _, p := range slices.Concat(pages, stills) {
		path := p.path
		if path == "/" {
			path = "/{$}"
		}
		show := func(w http.ResponseWriter, r *http.Request, v *visitor) {
			if p.rest == 0 && !v.Steers {
				s.refuse(w, r, v, mayOnlyLook)
				return
			}
			s.serve(w, r, v, p)
		}
		mux.HandleFunc("GET "+path, s.requireSignIn(show))
		if p.rest == 0 {
			continue
		}
		live := func(w http.ResponseWriter, r *http.Request, _ *visitor) { s.stream(w, r, p) }
		mux.HandleFunc("GET /live"+path, s.requireSignIn(live))
	}
	mux.HandleFunc("GET /", s.requireSignIn(func(w http.ResponseWriter, r *http.Request, v *visitor) {
		s.refuse(w, r, v, control.NotFound("there is no page %s", r.URL.Path))
	}))
	mux.HandleFunc("GET /find", s.requireSignIn(s.find))
	mux.HandleFunc("GET /log", s.requireSignIn(s.log))
	mux.HandleFunc("POST /do/{command}", s.requireSignIn(s.runCommand))
	mux.HandleFunc("GET /signin", s.signInPage)
	mux.HandleFunc("POST /signin", s.signIn)
	mux.HandleFunc("GET /signin/forge", s.redirectToForge)
	mux.HandleFunc("GET "+Callback, s.signInFromForge)
	mux.HandleFunc("POST /signout", s.requireSignIn(s.signOut))
	mux.HandleFunc("GET /static/{name}", static)
	return s.guard(http.NewCrossOriginProtection().Handler(mux))
}

func (s *Site) init() {
	s.once.Do(func() {
		if s.Log == nil {
			s.Log = hclog.NewNullLogger()
		}
		s.live.events = func(ctx context.Context, heard io.Writer) error { return s.API.Copy(ctx, "/v1/events", heard) }
		s.live.failed = func(what string, v any) {
			s.Log.Error(fmt.Sprintf("internal error: %s panicked: %v\n%s", what, v, debug.Stack()))
		}
	})
}

// policy lets a page load only what this server sends: a title of an issue that became markup could neither run a
// script nor send data elsewhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard sets the headers of every answer.
func (s *Site) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		s.recovered(next, w, r)
	})
}

// recovered answers a panic with status 500 and logs it. net/http would drop the connection. An answer that has begun
// is broken off.
func (s *Site) recovered(next http.Handler, w http.ResponseWriter, r *http.Request) {
	watched := &watched{ResponseWriter: w}
	defer func() {
		switch v := recover(); {
		case v == nil:
			return
		case v == http.ErrAbortHandler:
			panic(v)
		default:
			s.live.failed("the page "+r.URL.Path, v)
		}
		if watched.begun {
			panic(http.ErrAbortHandler) // not logged again
		}
		http.Error(w, "internal error: the supervisor's log says more", http.StatusInternalServerError)
	}()
	next.ServeHTTP(watched, r)
}

// watched is a ResponseWriter that knows whether its answer has begun.
type watched struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader begins the answer.
func (w *watched) WriteHeader(status int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *watched) Write(text []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(text)
}

// Unwrap is for http.ResponseController.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }
