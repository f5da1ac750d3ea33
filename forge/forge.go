// Package forge is the vocabulary of the forge: what an issue, a pull request and a review are to a
// scheduler, and how text on the forge names other issues. It has no client in it: forge/forgejo and
// forge/localforge speak to a server, this package only says what they bring back.
//
// Everything here is a value. Nothing does I/O, reads a clock or starts a goroutine, so that a
// scheduling decision made from these values can be repeated anywhere.
package forge

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

var (
	// ErrTaken is the answer to a claim when somebody else holds the item, or it is no longer open.
	ErrTaken = errors.New("already taken")
	// ErrForbidden means that the account may not do what it tried (403). Trying again does not help.
	ErrForbidden = errors.New("forbidden")
	// ErrNotFound means that the forge has no such thing, or hides it from this account (404).
	ErrNotFound = errors.New("not found")
	// ErrUnavailable means that the forge did not answer as a forge: refused, timed out, 5xx or 429.
	// Trying again later is right.
	ErrUnavailable = errors.New("forge unavailable")
	// ErrConflict means that the forge refuses the change in the state things are in now (405, 409, 412):
	// a merge that is not possible, an issue that cannot be closed yet.
	ErrConflict = errors.New("refused in this state")
)

// Ref names an issue or pull request: the two share one sequence of numbers per repository.
// It is comparable and may be a map key. A zero Number names the repository itself, which is how
// scheduled work, that belongs to no issue, says where it runs.
type Ref struct {
	Repo   string // owner/name
	Number int64
}

// String is the form people write: owner/name#12.
func (r Ref) String() string {
	if r.Number == 0 {
		return r.Repo
	}
	return r.Repo + "#" + strconv.FormatInt(r.Number, 10)
}

// Short is #12, for places that already say the repository.
func (r Ref) Short() string { return "#" + strconv.FormatInt(r.Number, 10) }

// IsZero reports whether r names nothing.
func (r Ref) IsZero() bool { return r == Ref{} }

// Compare orders refs by repository, then number.
func (r Ref) Compare(o Ref) int {
	if r.Repo != o.Repo {
		return cmp.Compare(r.Repo, o.Repo)
	}
	return cmp.Compare(r.Number, o.Number)
}

// ParseRef reads "12", "#12" or "owner/name#12". The short forms need home, the repository they are
// said in; with no home they are an error that shows the long form.
func ParseRef(s, home string) (Ref, error) {
	repo, number, found := strings.Cut(s, "#")
	if !found {
		repo, number = "", s
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

// ValidRepo reports whether s has the form owner/name with the characters that Forgejo allows, so that
// it can stand in a URL path as it is.
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
