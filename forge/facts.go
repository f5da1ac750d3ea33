package forge

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// Facts is the result of a scan: everything known about the forge. Slices are sorted by Ref. Readers must not modify
// them; each scan creates a new value.
type Facts struct {
	Repos    []Repo           // sorted by name
	Issues   []Issue          // open issues, and closed issues that an open one refers to
	Pulls    []Pull           // open pull requests, and ended pull requests of issues that are still open
	Commands []CommandComment // commands from a day's comments, by accounts with write access; sorted by Compare
	// More requests another scan at once: a cold scan reads dependencies in dispatch order and returns early, so that
	// the first ready item starts before the remaining dependencies have been read.
	More bool
	// Twin is another supervisor with our identity, because a state directory was copied: it has claimed something since
	// our start. Sharer is another factory that works with our agents' accounts. Both are zero if there are none.
	Twin, Sharer Peer
}

// Peer is another supervisor on the forge.
type Peer struct {
	Who string // its agent and its host, for people
	At  time.Time
}

// ItemFacts is a fresh reading of one item, made when a session on that item ended.
type ItemFacts struct {
	Issue *Issue // set when the item is an issue
	Pull  *Pull  // set when the item is a pull request
	Pulls []Pull // for an issue: every pull request that closes it, open or ended, sorted by Ref
	// Comments counts the comments on the item since the requested time, by login.
	Comments map[string]int
}

// Repo is one scanned repository.
type Repo struct {
	Name string // owner/name
	// AsOf is when the request of the last complete scan began. Every fact about the repository is at least that
	// recent. Zero means that no scan was complete yet; nothing in the repository can start then.
	AsOf time.Time
	// LastRead is the AsOf of the last scan that read it, where AsOf is zero because the forge does not answer.
	LastRead time.Time
	// Off says why no account can work in the repository, and what to do: it is archived or empty, was renamed, or needs
	// a program that is missing. AsOf is zero then.
	Off string
	// NoPush says why no agent can push the branch of an issue, and what to do; empty if one can, or if the forge does not
	// show the reason before a push.
	NoPush string
	// DefaultBranch is the branch on which work is based and into which it is merged, such as main.
	DefaultBranch string
	// Branches are those that open pull requests go to, where the repository has checks; sorted by name.
	Branches []Branch
	// CommentsAsOf is the forge's own time of its newest answer about comments; zero before the first answer.
	CommentsAsOf time.Time
}

// Branch is the newest commit of a branch, and its checks.
type Branch struct {
	Name string
	SHA  string
	CI   CI       // CINone: no check has reported; pending for a minute after a new commit
	Red  []string // the checks that failed, sorted; see CheckName
	// Since is when the branch became red; zero while it is not. By is the pull request whose merge made it red; zero if
	// that is not known, or if it was a push.
	Since time.Time
	By    Ref
}

// Issue is an issue as the scheduler sees it.
type Issue struct {
	Ref
	Title     string
	Body      string // empty in the facts of a scan, which keep only the references in it
	Author    string
	Closed    bool
	Labels    []string // sorted
	Assignees []string // logins, sorted
	Created   time.Time
	Updated   time.Time
	// HeldBy names, for people, another supervisor's agent that works on the issue; empty when there is none. That agent
	// can use the same account as one of our agents.
	HeldBy string
	Ended  time.Time // when the issue was closed; zero while open
	// Reopened is when the issue was last reopened; zero if it never was. A pull request merged before Reopened no
	// longer counts for the issue.
	Reopened time.Time
	// Blockers is the union of the forge's own dependencies and the references in the body, sorted by Ref. It is nil
	// for an issue that cannot be dispatched for another reason.
	Blockers []Blocker
	// BlockersKnown is false until the dependencies have been read after the issue's last change. Until then the issue
	// is never started.
	BlockersKnown bool
	// Cut means that the body is longer than scans read. The unread part can name more blockers, so BlockersKnown is
	// false.
	Cut bool
	// Talk is read while the issue is open and carries needs-answer, plan-first or plan-approved.
	Talk Talk
	// AsOf is when the request began that reported or confirmed this state of the issue.
	AsOf time.Time
}

// Has reports whether the issue carries the label.
func (i *Issue) Has(label string) bool { return contains(i.Labels, label) }

// BlockerState is the state of a blocker. Only BlockerClosed lets work start.
type BlockerState int

// The states of a blocker. The zero value blocks.
const (
	BlockerUnknown    BlockerState = iota // not read yet, or reading it failed
	BlockerOpen                           // open: the issue waits for it
	BlockerClosed                         // closed, and not cancelled
	BlockerCancelled                      // closed with the label cancelled: never unblocks
	BlockerUnmerged                       // closed, its pull request was not merged, and require_merged is set
	BlockerMissing                        // the forge has no such issue (404)
	BlockerUnreadable                     // the forge hides it from our account (403, or a hidden dependency)
)

// Blocker is an issue or pull request that an issue waits for.
type Blocker struct {
	Ref
	State BlockerState
	// InBody is true for a reference in the issue's text, and false for a dependency set on the forge.
	InBody bool
}

// Mergeability says whether a pull request merges without a conflict. The forge computes it some time after a push.
type Mergeability int

// The values of Mergeability. Forgejo answers "not mergeable" for a conflict, but also before it has computed the
// answer: see Pull.ConflictSince.
const (
	MergeUnknown Mergeability = iota
	MergeClean
	MergeNotClean
)

// CI is the combined state of the checks of a head commit.
type CI int

// The states of CI. CINone means that no check is required and none reported; it allows a merge.
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
	Stranger  bool   // Author has no write access to the repository, or we do not know yet
	Labels    []string
	Assignees []string
	HeldBy    string // see Issue.HeldBy
	Closed    bool
	Merged    bool
	Ended     time.Time // when it was merged or closed; zero while open
	ClosedBy  string    // login of the account that closed it unmerged, where the forge reports one
	Draft     bool      // marked as a draft, or titled as one: see IsDraft
	Head      string    // branch
	HeadRepo  string    // owner/name of the head's repository; a fork's differs from Repo
	HeadSHA   string
	Base      string // branch
	MergeBase string // the newest common commit of base and head
	// Retargeted is when the base branch last changed; zero if it never did. Coders are the accounts behind the commits,
	// sorted: the author and committer of each, and the accounts that pushed, where the forge reports them. The commits'
	// accounts are always current; a scan can show Retargeted and the accounts that pushed as of the last FetchItem.
	Retargeted time.Time
	Coders     []string
	// Contained means that the base already has every commit of an open pull request: the forge did not finish a merge,
	// or the branch has no commits of its own.
	Contained bool
	Mergeable Mergeability
	// ConflictSince is when a scan first read "not mergeable" for this head and base; zero while it merges cleanly.
	// Forgejo computes mergeability late, so a single such answer is not yet a conflict.
	ConflictSince time.Time
	CI            CI
	CISince       time.Time // when the newest of the checks reported; zero without checks
	// Red are the checks that failed, sorted; see CheckName. RedBefore are those of them that failed without its commits,
	// too: on the newest commit of its base, or on MergeBase.
	Red, RedBefore []string
	Reviews        []Review // sorted by submission, oldest first
	// Closes are the issues that the pull request closes, sorted. Its branch name fix/issue-N and the closing keywords
	// in its text name them; see the function Closes.
	Closes  []Ref
	Talk    Talk // read while the pull request is open and carries needs-answer
	Created time.Time
	Updated time.Time
	AsOf    time.Time // see Issue.AsOf
}

// Has reports whether the pull request carries the label.
func (p *Pull) Has(label string) bool { return contains(p.Labels, label) }

// Verdict is the decision of a review.
type Verdict int

// The verdicts. Commented neither approves nor rejects.
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
	CommitSHA string // the head that was reviewed
	Dismissed bool
	Official  bool // the forge counts the review, because its author has write access to the repository
	Submitted time.Time
	Body      string
}

// Repo finds a repository by name and reports whether the facts contain it.
func (f *Facts) Repo(name string) (Repo, bool) {
	i, ok := slices.BinarySearchFunc(f.Repos, name, func(r Repo, n string) int { return cmp.Compare(r.Name, n) })
	if !ok {
		return Repo{}, false
	}
	return f.Repos[i], true
}

// Issue finds an issue; nil when the facts do not contain it.
func (f *Facts) Issue(ref Ref) *Issue {
	i := sort.Search(len(f.Issues), func(i int) bool { return f.Issues[i].Ref.Compare(ref) >= 0 })
	if i == len(f.Issues) || f.Issues[i].Ref != ref {
		return nil
	}
	return &f.Issues[i]
}

// Pull finds a pull request; nil when the facts do not contain it.
func (f *Facts) Pull(ref Ref) *Pull {
	i, ok := slices.BinarySearchFunc(f.Pulls, ref, func(p Pull, r Ref) int { return p.Ref.Compare(r) })
	if !ok {
		return nil
	}
	return &f.Pulls[i]
}

// contains searches all labels one by one. An item has few, and a binary search took 9 % of a plan's time.
func contains(labels []string, label string) bool { return slices.Contains(labels, label) }
