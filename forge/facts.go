package forge

import (
	"slices"
	"time"
)

// Facts is what is known of the forge: the answer of a scan. Slices are sorted by Ref and must not be
// changed by who reads them; a new scan makes a new value.
type Facts struct {
	Repos  []Repo
	Issues []Issue // open issues, and closed ones that something still refers to
	Pulls  []Pull  // open pull requests, and ended ones of issues that are still open
	// More says that the scan stopped early with something useful and wants to be called again at once: a cold scan
	// reads dependencies in dispatch order and lets the first ready item start before the rest is read.
	More bool
}

// Look is a fresh reading of one item, asked for when a session on it ended.
type Look struct {
	Issue *Issue // when the item is an issue
	Pull  *Pull  // when the item is a pull request
	Pulls []Pull // of an issue: every pull request for it, open or ended, sorted by Ref
	// Comments counts the comments on the item by account, since the time that was asked for.
	Comments map[string]int
}

// Repo is one scanned repository.
type Repo struct {
	Name string // owner/name
	// AsOf is when the request of the last complete scan began. Every fact of the repository is at
	// least that fresh; zero means that it was never fully read and nothing may start in it.
	AsOf time.Time
	// DefaultBranch is where work is based and merged, such as main.
	DefaultBranch string
}

// Issue is an issue as the scheduler sees it.
type Issue struct {
	Ref
	Title     string
	Body      string
	Author    string
	Closed    bool
	Labels    []string // sorted
	Assignees []string // logins, sorted
	Created   time.Time
	Updated   time.Time
	// HeldBy names, for people, another supervisor's agent that works on the issue; empty when none does. Its account
	// may be that of an agent of ours.
	HeldBy string
	Ended  time.Time // when it was closed; zero while open
	// Reopened is when the issue was last opened again; zero when it never was closed. It decides whether a
	// merged pull request still counts for the issue.
	Reopened time.Time
	// Blockers is the union of the forge's own dependencies and the references in the body, sorted by Ref.
	// It is nil for issues that cannot be dispatched anyway.
	Blockers []Blocker
	// BlockersKnown is false while the dependencies have not been read since the issue last changed. Such an
	// issue is never started: unread is not the same as none.
	BlockersKnown bool
	// AsOf is when the request that brought, or confirmed, this state began.
	AsOf time.Time
}

// Has reports whether the issue carries the label.
func (i *Issue) Has(label string) bool { return contains(i.Labels, label) }

// BlockerState says what is known of a blocker. Only BlockerClosed lets work start.
type BlockerState int

// The states of a blocker. The zero value is the one that holds.
const (
	BlockerUnknown    BlockerState = iota // not read yet, or the read failed
	BlockerOpen                           // open: wait for it
	BlockerClosed                         // closed, and not cancelled
	BlockerCancelled                      // closed with the label cancelled: never unblocks
	BlockerUnmerged                       // closed, its pull request was not merged, and require_merged is set
	BlockerMissing                        // the forge has no such issue (404)
	BlockerUnreadable                     // the forge hides it from our account (403, or a hidden dependency)
)

// Blocker is one thing an issue waits for.
type Blocker struct {
	Ref
	State BlockerState
	// InBody is true for a reference in the issue's text, false for a dependency set on the forge.
	InBody bool
}

// Mergeability is the forge's late answer to "does it merge cleanly".
type Mergeability int

// The answers. Forgejo says false both for a conflict and for "not computed yet": see Pull.ConflictSince.
const (
	MergeUnknown Mergeability = iota
	MergeClean
	MergeNotClean
)

// CI is the state of a head commit's required checks.
type CI int

// The states of CI. None means that nothing is required and nothing was reported: it lets work go on.
const (
	CINone CI = iota
	CIPending
	CISuccess
	CIFailure
)

// Pull is a pull request as the scheduler sees it.
type Pull struct {
	Ref
	Title     string
	Body      string
	Author    string // login of its opener
	Labels    []string
	Assignees []string
	HeldBy    string // as that of an issue
	Closed    bool
	Merged    bool
	Ended     time.Time // when it was merged or closed; zero while open
	ClosedBy  string    // who closed it unmerged, where the forge says so
	Draft     bool      // a draft, or a title that begins with WIP
	Head      string    // branch
	HeadRepo  string    // owner/name of the head's repository, which differs for forks
	HeadSHA   string
	Base      string // branch
	Mergeable Mergeability
	// ConflictSince is when a scan first saw "not mergeable" for this very head and base. Forgejo computes
	// mergeability late, so one such answer is not yet a conflict. Zero while it merges cleanly.
	ConflictSince time.Time
	CI            CI
	CISince       time.Time // when the newest of its checks was reported; zero without checks
	Reviews       []Review  // sorted by submission, oldest first
	// Closes are the issues this pull request is for: from its branch name fix/issue-N and the closing keywords
	// in its text. Sorted.
	Closes  []Ref
	Created time.Time
	Updated time.Time
	AsOf    time.Time // when the request that brought, or confirmed, this state began
}

// Has reports whether the pull request carries the label.
func (p *Pull) Has(label string) bool { return contains(p.Labels, label) }

// Verdict is what a review says.
type Verdict int

// The verdicts. A comment decides nothing.
const (
	Commented Verdict = iota
	Approved
	ChangesRequested
)

// Review is a formal review.
type Review struct {
	ID        int64
	Author    string
	Verdict   Verdict
	CommitSHA string // the head it was given for
	Dismissed bool
	Official  bool // the forge counts it: its author may write to the repository
	Submitted time.Time
	Body      string
}

// Repo finds a repository by name.
func (f *Facts) Repo(name string) (Repo, bool) {
	i, ok := slices.BinarySearchFunc(f.Repos, name, func(r Repo, n string) int {
		if r.Name < n {
			return -1
		}
		if r.Name > n {
			return 1
		}
		return 0
	})
	if !ok {
		return Repo{}, false
	}
	return f.Repos[i], true
}

// Issue finds an issue; nil when the facts do not have it.
func (f *Facts) Issue(ref Ref) *Issue {
	i, ok := slices.BinarySearchFunc(f.Issues, ref, func(is Issue, r Ref) int { return is.Ref.Compare(r) })
	if !ok {
		return nil
	}
	return &f.Issues[i]
}

// Pull finds a pull request; nil when the facts do not have it.
func (f *Facts) Pull(ref Ref) *Pull {
	i, ok := slices.BinarySearchFunc(f.Pulls, ref, func(p Pull, r Ref) int { return p.Ref.Compare(r) })
	if !ok {
		return nil
	}
	return &f.Pulls[i]
}

// contains looks through all: an item has a few labels, and for so few a binary search, which orders strings instead of
// asking whether they are equal, took 9 % of the time of a plan.
func contains(labels []string, label string) bool { return slices.Contains(labels, label) }
