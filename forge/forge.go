// Package forge defines the types of a forge that the scheduler and a session use (issues, pull requests, reviews), and
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
	// ErrTaken means that an item cannot be claimed: another supervisor, agent or person holds it, or it is no longer
	// open.
	ErrTaken = errors.New("already taken")
	// ErrForbidden means that the account lacks the right (401, 403). Retrying does not help.
	ErrForbidden = errors.New("forbidden")
	// ErrNoAccess is an ErrForbidden of an account that is no collaborator with write access, whatever its token may do.
	ErrNoAccess = fmt.Errorf("no write access: %w", ErrForbidden)
	// ErrOff means that no account can work in the repository: it is archived or was renamed. The wrapping error says
	// what to do.
	ErrOff = errors.New("repository off")
	// ErrNotFound means that the item does not exist or is hidden from this account (404).
	ErrNotFound = errors.New("not found")
	// ErrUnavailable means that no forge answered: connection refused, timeout, 5xx or 429. A later retry can succeed.
	ErrUnavailable = errors.New("forge unavailable")
	// ErrConflict means that the forge refuses the change in the present state (405, 409, 412), such as a merge with a
	// conflict or closing an issue that still has open dependencies.
	ErrConflict = errors.New("refused in this state")
)

// Ref names an issue or pull request; both share one sequence of numbers per repository. It is comparable and can be a
// map key. A zero Number names the repository itself, for scheduled work that belongs to no issue.
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

// Short returns #12, for text that already names the repository.
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

// ParseRef reads "12", "#12", "owner/name#12" or the address of an issue or pull request on any host. A bare number
// refers to the repository home. If home is empty, a bare number is an error that shows the long form.
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

// ValidRepo reports whether s has the form owner/name with only the characters that Forgejo allows, so that s needs no
// escaping in a URL path.
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

// KindOf returns the error of this package for an HTTP status. It returns nil for success and for our own bad requests
// (400, 422).
func KindOf(status int) error {
	switch status {
	case 401, 403, 423: // 423: the repository is archived
		return ErrForbidden
	case 404, 410:
		return ErrNotFound
	case 405, 409, 412:
		return ErrConflict
	case 408, 429:
		return ErrUnavailable
	}
	if status >= 500 {
		return ErrUnavailable
	}
	return nil
}
