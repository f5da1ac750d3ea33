// Package forge has the types of the forge that a scheduler and a session use (issues, pull requests, reviews), and
// reads the references in their texts. It has no client: forge/forgejo fills these types from a server.
//
// The package does no I/O, reads no clock and starts no goroutine, so that a decision made from these values can be
// repeated anywhere.
package forge

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

var (
	// ErrTaken answers a claim of an item that another supervisor, agent or person holds, or that is no longer open.
	ErrTaken = errors.New("already taken")
	// ErrForbidden means that the account lacks the right (401, 403). A retry does not help.
	ErrForbidden = errors.New("forbidden")
	// ErrOff means that the repository is archived, or has another name now: no account can work in it. It says what to
	// do.
	ErrOff = errors.New("repository off")
	// ErrNotFound means that the item does not exist or is hidden from this account (404).
	ErrNotFound = errors.New("not found")
	// ErrUnavailable means that the forge did not answer as a forge: connection refused, timeout, 5xx or 429. A later
	// retry may succeed.
	ErrUnavailable = errors.New("forge unavailable")
	// ErrConflict means that the forge refuses the change in the present state (405, 409, 412): a merge with a conflict,
	// an issue that cannot be closed yet.
	ErrConflict = errors.New("refused in this state")
)

// Ref names an issue or pull request: the two share one sequence of numbers per repository. It is comparable and may be
// a map key. A zero Number names the repository itself, for scheduled work, which belongs to no issue.
type Ref struct {
	Repo   string // owner/name
	Number int64
}

// String returns owner/name#12, or owner/name for a zero Number.
func (r Ref) String() string {
	if r.Number == 0 {
		return r.Repo
	}
	return r.Repo + "#" + strconv.FormatInt(r.Number, 10)
}

// Short returns #12, for places that already name the repository.
func (r Ref) Short() string { return "#" + strconv.FormatInt(r.Number, 10) }

// IsZero reports whether r is the zero Ref.
func (r Ref) IsZero() bool { return r == Ref{} }

// Compare orders refs by repository, then number.
func (r Ref) Compare(o Ref) int {
	if r.Repo != o.Repo {
		return cmp.Compare(r.Repo, o.Repo)
	}
	return cmp.Compare(r.Number, o.Number)
}

// ParseRef reads "12", "#12", "owner/name#12" or the address of an issue or pull request, whatever its host. The short
// forms are in the repository home; without a home they are an error that shows the long form.
func ParseRef(s, home string) (Ref, error) {
	repo, number, found := strings.Cut(s, "#")
	if !found {
		repo, number = "", s
	}
	if a := addressPattern.FindStringSubmatch(s); a != nil {
		repo, number = a[1], a[2]
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 {
		return Ref{}, fmt.Errorf("cannot read %q as an issue: write 12, #12 or owner/name#12", s)
	}
	if repo == "" {
		repo = home
	}
	if !ValidRepo(repo) {
		return Ref{}, fmt.Errorf("cannot tell the repository of %q: write owner/name#%d", s, n)
	}
	return Ref{Repo: repo, Number: n}, nil
}

// ValidRepo reports whether s has the form owner/name with the characters that Forgejo allows, so that it can stand in
// a URL path as it is.
func ValidRepo(s string) bool {
	owner, name, ok := strings.Cut(s, "/")
	return ok && validName(owner) && validName(name)
}

func validName(s string) bool {
	if s == "" || s == "." || s == ".." {
		return false
	}
	for _, c := range []byte(s) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}
