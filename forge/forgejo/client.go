package forgejo

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"codeberg.org/johba/disinto/forge"
)

const (
	// requestTime bounds one request, including the reading of its answer.
	requestTime = 15 * time.Second
	// mergeTime bounds a merge, which runs git on the forge: 0.4 s for a small repository, far more for a large one.
	mergeTime = time.Minute
	// atOnce is how many requests a scan makes concurrently: enough to hide latency, and few enough for a small forge.
	atOnce = 4
	// maxRefusal bounds, in bytes, how much is read of a refusal, and of the answer to a push, which has a few lines.
	maxRefusal = 1 << 20
)

// Options configures a Client. URL, Token and Repos are required.
type Options struct {
	// URL is the forge's address without /api/v1, such as http://forgejo:3000.
	URL string
	// Token is the token of the supervisor's own account, with the scopes write:repository, write:issue and read:user.
	Token string
	// Repos are the repositories to scan, as owner/name.
	Repos []string
	// Ours reports whether a login is an agent of this factory, Bots whether it is an agent of another host. All other
	// accounts are people. The client calls them whenever it needs the answer, so they can follow a changed
	// configuration; they must be quick and must not call the Client. nil reports false for every login.
	Ours, Bots func(login string) bool
	// Labels returns the labels of roles. An item can have so many that only these and our own are read. The client calls
	// it at each request. nil means none.
	Labels func() []string
	// Moves reports whether this factory moves issues that are assigned to Bots; if so, the blockers of those issues
	// are read too, at a cost of one request for each. The client calls it whenever it needs the answer. nil means
	// false.
	Moves func() bool
	// RequireMerged makes a closed blocker with known pull requests count as done only if one of them was merged.
	RequireMerged bool
	// Claims identifies this supervisor in claims that exclude other supervisors. If nil, a claim is only a label and
	// an assignee, which is enough for a single supervisor.
	Claims *Claims
	// LacksLFS reports whether git-lfs is missing where sessions run; no session can work in a repository that uses it
	// then. The client calls it whenever it needs the answer. nil means false.
	LacksLFS func() bool
	// Observe is called after each request with its route, which is one of a bounded number; the HTTP status, or
	// 0 without an answer; and the duration. It must be quick and safe for concurrent use. It can be nil.
	Observe func(route string, status int, took time.Duration)
	// HTTP supplies only the transport. nil means a transport of the Client's own.
	HTTP *http.Client
}

// Client works on one forge with one account. Create it with New.
type Client struct {
	*connection
	ours, bots    func(string) bool
	moves         func() bool
	lacksLFS      func() bool
	requireMerged bool
	refs          *Claims // nil: claims have no refs

	scanning sync.Mutex // held for a whole scan; guards paused and batch
	paused   pause      // pause of the forge as a whole
	batch    int        // how many dependency lists the next scan reads; 0 for the first of a series

	mu      sync.Mutex              // guards the fields below; never held during I/O
	repos   []*repo                 // sorted by name; the slice itself is immutable
	singles map[forge.Ref]single    // blockers that are in no list
	labels  map[string]labels       // by repository
	claims  map[forge.Ref]claim     // claims of this process, complete or not
	sighted map[forge.Ref]sighting  // refs of claims that may be abandoned
	seen    map[forge.Ref]sighting  // refs of claims whose holder was read
	holders map[forge.Ref]heldClaim // holders of items with in-progress that are not in claims
	twin    twin
	sharer  forge.Peer // another factory that works with our accounts
	login   string     // login of our own account; "" until it is read
}

// New returns a Client. It makes no request.
func New(o Options) (*Client, error) {
	if err := checkURL(o.URL); err != nil {
		return nil, err
	}
	if strings.TrimSpace(o.Token) == "" || strings.ContainsAny(o.Token, " \t\r\n") {
		return nil, errors.New(
			"cannot use the forge token: it is empty or contains a blank; set [forge] token or $FORGE_TOKEN")
	}
	c := &Client{
		connection: connect(strings.TrimRight(o.URL, "/"), transportOf(o.HTTP)),
		ours:       orNobody(o.Ours), bots: orNobody(o.Bots), moves: o.Moves, lacksLFS: o.LacksLFS,
		requireMerged: o.RequireMerged, refs: o.Claims,
		singles: map[forge.Ref]single{}, labels: map[string]labels{}, claims: map[forge.Ref]claim{},
		sighted: map[forge.Ref]sighting{}, seen: map[forge.Ref]sighting{}, holders: map[forge.Ref]heldClaim{},
	}
	c.token, c.observe, c.connection.labels = o.Token, o.Observe, o.Labels
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

// checkURL rejects an address that would fail later, and an address that contains a password, which logs would show.
func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil {
		return errors.New("cannot use the forge url: it is not an address; write it like http://forgejo:3000")
	}
	if u.User != nil {
		return errors.New("cannot use the forge url: it contains a name or password; put the token into [forge] token")
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

// Requests returns the number of requests that this client has made.
func (c *Client) Requests() int64 { return c.requests.Load() }

// repo returns a scanned repository; nil for any other. The forge ignores case in names.
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

// owner splits owner/name into its parts.
func owner(repo string) (string, string) {
	owner, name, _ := strings.Cut(repo, "/")
	return owner, name
}
