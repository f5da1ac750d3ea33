package forge

import (
	"cmp"
	"slices"
	"time"
)

// Facts is the result of a scan: everything known of the forge. Slices are sorted by Ref, and readers must not change
// them; a new scan makes a new value.
type Facts struct {
	Repos  []Repo
	Issues []Issue // open issues, and closed ones that an open one refers to
	Pulls  []Pull  // open pull requests, and ended ones of issues that are still open
	Said   []Said  // commands in comments of a day, by accounts that may write; sorted by Compare
	// More asks for another scan at once: a cold scan reads dependencies in dispatch order and returns early, so that the
	// first ready item starts before the rest is read.
	More bool
}

// Look is a fresh reading of one item, asked for when a session on it ended.
type Look struct {
	Issue *Issue // when the item is an issue
	Pull  *Pull  // when the item is a pull request
	Pulls []Pull // of an issue: every pull request for it, open or ended, sorted by Ref
	// Comments counts the comments on the item since the requested time, by account.
	Comments map[string]int
}

// Repo is one scanned repository.
type Repo struct {
	Name string // owner/name
	// AsOf is when the request of the last complete scan began. Every fact of the repository is at least that recent. Zero
	// means that it was never read completely, and nothing may start in it.
	AsOf time.Time
	// Off says why no account can work in it, and what to do: it is archived, or has another name now. AsOf is zero then.
	Off string
	// DefaultBranch is where work is based and merged, such as main.
	DefaultBranch string
	// Heard is the forge's time of its newest answer about comments; zero before the first.
	Heard time.Time
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
	// HeldBy names, for people, the agent of another supervisor that works on the issue; empty when there is none. The
	// agent may use the same account as one of ours.
	HeldBy string
	Ended  time.Time // when it was closed; zero while open
	// Reopened is when the issue was last reopened; zero if it never was. A pull request merged before that no longer
	// counts for the issue.
	Reopened time.Time
	// Blockers is the union of the forge's own dependencies and the references in the body, sorted by Ref. It is nil for
	// issues that cannot be dispatched for other reasons.
	Blockers []Blocker
	// BlockersKnown is false until the dependencies have been read after the issue's last change. Such an issue is never
	// started.
	BlockersKnown bool
	// Cut says that the text is longer than scans read. It may name more blockers, so BlockersKnown is false.
	Cut bool
	// Talk is read while the issue is open and carries needs-answer, plan-first or plan-approved.
	Talk Talk
	// AsOf is when the request began that reported or confirmed this state.
	AsOf time.Time
}

// Has reports whether the issue carries the label.
func (i *Issue) Has(label string) bool { return contains(i.Labels, label) }

// BlockerState is the state of a blocker. Only BlockerClosed lets work start.
type BlockerState int

// The states of a blocker. The zero value blocks.
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

// Mergeability says whether a pull request merges without a conflict. The forge computes it late.
type Mergeability int

// The values of Mergeability. Forgejo answers false both for a conflict and before it has computed one: see
// Pull.ConflictSince.
const (
	MergeUnknown Mergeability = iota
	MergeClean
	MergeNotClean
)

// CI is the combined state of a head commit's checks.
type CI int

// The states of CI. CINone means that no check is required and none was reported; it allows a merge.
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
	Stranger  bool   // Author may not write to the repository, or it is not known yet whether that may
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
	MergeBase string // the newest commit that base and head have in common
	// Retargeted is when the base became another branch; zero if it never did. Coders are the accounts behind its commits,
	// sorted: author and committer of each, and who pushed, where the forge says so. A scan may show both as they were at
	// the last Look, and the commits' accounts as they are.
	Retargeted time.Time
	Coders     []string
	// Contained says of an open pull request that its base has every commit of it: a merge that the forge did not finish,
	// or a branch without commits.
	Contained bool
	Mergeable Mergeability
	// ConflictSince is when a scan first saw "not mergeable" for this head and base. Forgejo computes mergeability late,
	// so one such answer is not yet a conflict. Zero while it merges cleanly.
	ConflictSince time.Time
	CI            CI
	CISince       time.Time // when the newest of its checks was reported; zero without checks
	Reviews       []Review  // sorted by submission, oldest first
	// Closes are the issues that this pull request is for, sorted: by its branch name fix/issue-N and the closing keywords
	// in its text.
	Closes  []Ref
	Talk    Talk // read while it is open and carries needs-answer
	Created time.Time
	Updated time.Time
	AsOf    time.Time // as that of an issue
}

// Has reports whether the pull request carries the label.
func (p *Pull) Has(label string) bool { return contains(p.Labels, label) }

// Verdict is the decision of a review.
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
	i, ok := slices.BinarySearchFunc(f.Repos, name, func(r Repo, n string) int { return cmp.Compare(r.Name, n) })
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

// contains compares with all labels. An item has few, and a binary search among them took 9 % of the time of a plan.
func contains(labels []string, label string) bool { return slices.Contains(labels, label) }
