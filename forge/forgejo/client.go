package forgejo

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"codeberg.org/johba/disinto/forge"
)

const (
	// requestTime bounds one request, including its answer.
	requestTime = 15 * time.Second
	// mergeTime bounds a merge, which runs git on the forge: 0.4 s for a small repository, far more for a large one.
	mergeTime = time.Minute
	// atOnce is how many requests of a scan are under way at a time: enough to hide latency, and few enough for a small
	// forge.
	atOnce = 4
	// maxRefusal bounds, in bytes, what is read of a refusal and of the answer to a push, which is a few lines.
	maxRefusal = 1 << 20
)

// Options configures a Client. URL, Token and Repos are required.
type Options struct {
	// URL is the forge's address without /api/v1, such as http://forgejo:3000.
	URL string
	// Token is the supervisor's own, with the scopes write:repository, write:issue and read:user.
	Token string
	// Repos are the repositories to scan, owner/name.
	Repos []string
	// Ours reports whether a login is an agent of this factory, Bots whether it is one of another host. All other accounts
	// are people. They are called at each use and may follow a changed configuration; they must be quick and not call the
	// Client. nil reports false.
	Ours, Bots func(login string) bool
	// Moves reports whether blockers of issues that are assigned to Bots are read too, because we may move those issues.
	// It costs a request for each such issue, and is called at each use. nil reports false.
	Moves func() bool
	// RequireMerged lets a closed blocker with known pull requests count only when one of them was merged.
	RequireMerged bool
	// Claims describes this supervisor in claims that hold between supervisors. With nil, claims are label and assignee
	// alone, which is enough for a single supervisor.
	Claims *Claims
	// Observe is called with each request: its route, which is one of a bounded number, the status of its answer, 0
	// without one, and how long it took. It is called by several goroutines and must be quick. nil is not called.
	Observe func(route string, status int, took time.Duration)
	// HTTP supplies the transport and is not used otherwise; nil means one of our own.
	HTTP *http.Client
}

// Client works on one forge with one account. New makes it.
type Client struct {
	url, token    string
	ours, bots    func(string) bool
	moves         func() bool
	requireMerged bool
	refs          *Claims // nil: claims have no ref
	http          *http.Client
	observe       func(route string, status int, took time.Duration)
	longest       int64 // maxRaw; less in a test
	requests      atomic.Int64
	slots         chan struct{} // one token for each request of a scan that is under way

	scanning sync.Mutex // held for a whole scan; guards paused
	paused   pause      // of the forge as a whole

	mu      sync.Mutex                  // guards what follows; never held during I/O
	repos   []*repo                     // sorted by name; the slice itself never changes
	singles map[forge.Ref]single        // blockers that no list shows
	labels  map[string]map[string]int64 // by repository: label ids by name
	claims  map[forge.Ref]claim         // of this process, complete or not
	sighted map[forge.Ref]sighting      // refs of claims that may be abandoned
	holders map[forge.Ref]heldClaim     // of items with in-progress that are not in claims
	login   string                      // of our own account; "" until it is read
	misread map[string]int              // entries of lists that could not be read, by request
}

// New returns a Client. It makes no request.
func New(o Options) (*Client, error) {
	if err := checkURL(o.URL); err != nil {
		return nil, err
	}
	if strings.TrimSpace(o.Token) == "" || strings.ContainsAny(o.Token, " \t\r\n") {
		return nil, errors.New(
			"cannot use the forge token: it is empty or has a blank in it; set [forge] token or $FORGE_TOKEN")
	}
	c := &Client{
		url: strings.TrimRight(o.URL, "/"), token: o.Token,
		ours: orNobody(o.Ours), bots: orNobody(o.Bots), moves: o.Moves, requireMerged: o.RequireMerged, refs: o.Claims,
		http: &http.Client{Transport: transportOf(o.HTTP), CheckRedirect: sameHost}, longest: maxRaw,
		observe: o.Observe,
		slots:   make(chan struct{}, atOnce),
		singles: map[forge.Ref]single{}, labels: map[string]map[string]int64{}, claims: map[forge.Ref]claim{},
		sighted: map[forge.Ref]sighting{}, holders: map[forge.Ref]heldClaim{},
	}
	names := slices.Clone(o.Repos)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !forge.ValidRepo(name) {
			return nil, fmt.Errorf("cannot scan repository %q: write it as owner/name", name)
		}
		c.repos = append(c.repos, newRepo(name))
	}
	return c, nil
}

func orNobody(f func(string) bool) func(string) bool {
	if f == nil {
		return func(string) bool { return false }
	}
	return f
}

// checkURL refuses an address that would fail later, and one with a password, which logs would show.
func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil {
		return errors.New("cannot use the forge url: it is not an address; write it like http://forgejo:3000")
	}
	if u.User != nil {
		return errors.New("cannot use the forge url: it has a name or password in it; put the token into [forge] token")
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("cannot use the forge url %q: write it like http://forgejo:3000", s)
	}
	return nil
}

func transportOf(client *http.Client) http.RoundTripper {
	if client != nil && client.Transport != nil {
		return client.Transport
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 2 * atOnce
	return t
}

// Requests is the number of requests that this client has made.
func (c *Client) Requests() int64 { return c.requests.Load() }

// repo returns a scanned repository; nil for others. The forge ignores case in names.
func (c *Client) repo(name string) *repo {
	for _, r := range c.repos {
		if r.name == name || strings.EqualFold(r.name, name) {
			return r
		}
	}
	return nil
}

// canonical spells the repository of a reference as the configuration does.
func (c *Client) canonical(ref forge.Ref) forge.Ref {
	if r := c.repo(ref.Repo); r != nil {
		ref.Repo = r.name
	}
	return ref
}

// sameHost follows the redirect of a renamed repository, and sends our token to no other host.
func sameHost(req *http.Request, via []*http.Request) error {
	if len(via) > 3 || req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// owner splits owner/name.
func owner(repo string) (string, string) {
	owner, name, _ := strings.Cut(repo, "/")
	return owner, name
}
