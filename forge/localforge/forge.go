package localforge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// version is the answer to GET /version. Clients enable features by it, so it names the release that this package
// imitates.
const version = "10.0.0+gitea-1.22.0"

// Options configures a Forge. Dir and Run are required.
type Options struct {
	// Dir is the folder of the bare repositories; each is DIR/OWNER-NAME-ID.git.
	Dir string
	// Run runs one git command until it exits. If the command exits with a non-zero status, an error in the returned
	// chain must have a method ExitCode() int.
	Run func(ctx context.Context, cmd Cmd) error
	// URL is the forge's address in answers, without a slash at its end. Empty means the address that the last request
	// was sent to.
	URL string
	// Lag is the delay of Forgejo's late effects. After a push, the pull requests from and to the branch stay unchanged
	// for one Lag and are not mergeable for another. Then they have their conflict check, stale reviews and a new
	// updated_at. A real Forgejo takes about a second for each step. With zero, all steps are done before the push is
	// answered, so that a test need not wait.
	Lag time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Forge is a forge in memory. It is an http.Handler, safe for concurrent use.
type Forge struct {
	opt  Options
	rest http.Handler // handler of /api/v1

	ctx  context.Context // ends with Close; for late work
	stop context.CancelFunc

	mu       sync.Mutex // guards the fields below and everything they point to; never held during I/O
	idle     *sync.Cond // on mu: signals that pending became 0
	pending  int        // late work and deliveries that are not finished
	lastID   int64
	lastURL  string
	users    []*user
	tokens   map[string]*token // by secret
	repos    []*repo
	hook     func(repo, ref string) string // see SetHook; nil accepts every push
	renamed  map[string]*repo              // by former owner/name, in lower case
	outbox   []delivery
	sending  bool
	requests map[string]int // by "METHOD pattern"
	apps     []*application
	grants   map[string]grant // by code
}

// New returns an empty forge. It creates no folder: Dir is created with the first repository.
func New(opt Options) (*Forge, error) {
	if opt.Dir == "" || opt.Run == nil {
		return nil, errors.New("cannot set up local forge: Options.Dir and Options.Run are required")
	}
	dir, err := filepath.Abs(opt.Dir)
	if err != nil {
		return nil, fmt.Errorf("cannot set up local forge: %w", err)
	}
	opt.Dir = dir
	if opt.Now == nil {
		opt.Now = time.Now
	}
	f := &Forge{
		opt:      opt,
		lastURL:  strings.TrimSuffix(opt.URL, "/"),
		tokens:   map[string]*token{},
		requests: map[string]int{},
		grants:   map[string]grant{},
	}
	f.ctx, f.stop = context.WithCancel(context.Background())
	f.idle = sync.NewCond(&f.mu)
	f.rest = f.api()
	return f, nil
}

// Close ends late work and deliveries, and waits until they have ended. The repositories stay on disk. It does not wait
// for requests: shut down the server first.
func (f *Forge) Close() {
	f.stop()
	f.WaitIdle()
}

// WaitIdle waits until no late effect of a push and no web hook delivery is outstanding. Tests call it instead of
// sleeping.
func (f *Forge) WaitIdle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.pending > 0 {
		f.idle.Wait()
	}
}

// Requests returns how many requests each route served, by "METHOD /pattern", such as "GET
// /repos/{owner}/{repo}/issues". Git requests count as "GIT upload-pack" and "GIT receive-pack". The map belongs to the
// caller.
func (f *Forge) Requests() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	counts := make(map[string]int, len(f.requests))
	maps.Copy(counts, f.requests)
	return counts
}

// ServeHTTP answers API and git requests.
func (f *Forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/api/v1/") {
		f.rest.ServeHTTP(w, r)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/login/oauth/") || strings.HasPrefix(r.URL.Path, "/.well-known/") {
		f.oauth().ServeHTTP(w, r)
		return
	}
	if strings.Contains(r.URL.Path, "/info/lfs/") {
		f.serveLFS(w, r)
		return
	}
	f.serveGit(w, r)
}

// now returns the time as Forgejo stores it: in whole seconds.
func (f *Forge) now() time.Time { return f.opt.Now().UTC().Truncate(time.Second) }

// nextIDLocked returns the next id; ids of all kinds share one counter. Forgejo has a counter per table; clients can
// rely on neither.
func (f *Forge) nextIDLocked() int64 {
	f.lastID++
	return f.lastID
}

// afterLag runs each step one lag after the previous one. Without a lag, it runs all steps at once, in this goroutine.
// The caller must not hold mu.
func (f *Forge) afterLag(ctx context.Context, steps ...func(context.Context)) {
	if f.opt.Lag <= 0 {
		for _, step := range steps {
			step(context.WithoutCancel(ctx))
		}
		return
	}
	f.mu.Lock()
	f.beginLocked()
	f.mu.Unlock()
	go func() {
		defer f.end()
		for _, step := range steps {
			timer := time.NewTimer(f.opt.Lag)
			select {
			case <-timer.C:
				step(f.ctx)
			case <-f.ctx.Done():
				timer.Stop()
				return
			}
		}
	}()
}

func (f *Forge) beginLocked() { f.pending++ }

func (f *Forge) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending--
	if f.pending == 0 {
		f.idle.Broadcast()
	}
}
