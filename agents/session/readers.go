package session

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/forge"
)

// readers holds the accounts whose texts enter the prompt, and counts the texts of others. Unless the configuration
// says "all", these accounts are the ones with write access, including agents.
type readers struct {
	writers map[string]bool // lower-case logins; nil means all accounts
	left    map[string]int  // number of texts left out, by kind
	people  map[string]bool // lower-case logins of their authors
}

// findReaders queries the forge for accounts with write access. If the agent's account may not query them, no account
// counts.
func (r *run) findReaders(ctx context.Context) error {
	r.readers = readers{left: map[string]int{}, people: map[string]bool{}}
	if r.ReadAll {
		return nil
	}
	logins, err := r.Desk.Writers(ctx, r.Repo)
	if err != nil && !errors.Is(err, forge.ErrForbidden) && !errors.Is(err, forge.ErrNotFound) {
		return fmt.Errorf("cannot list the accounts that may write to %s: %w", r.Repo, err)
	}
	if err != nil {
		r.logf("cannot list the accounts that may write to %s, so no texts of others are read: %v", r.Repo, err)
	}
	r.readers.writers = map[string]bool{}
	for _, login := range logins {
		r.readers.writers[strings.ToLower(login)] = true
	}
	return nil
}

// admits reports whether a text of an account enters the prompt. It counts the texts that are left out, by kind.
func (rs *readers) admits(login, kind string) bool {
	login = strings.ToLower(login)
	if rs.writers == nil || rs.writers[login] {
		return true
	}
	rs.left[kind]++
	rs.people[login] = true
	return false
}

// omitted returns a sentence for the model about what was left out; "" if nothing was.
func (rs *readers) omitted() string {
	list, total := "", 0
	for _, kind := range []string{"issue", "review", "comment"} { // in reverse order of the sentence
		n := rs.left[kind]
		switch {
		case n == 0:
			continue
		case list == "":
			list = counted(n, kind, kind+"s")
		case strings.Contains(list, " and "):
			list = counted(n, kind, kind+"s") + ", " + list
		default:
			list = counted(n, kind, kind+"s") + " and " + list
		}
		total += n
	}
	if total == 0 {
		return ""
	}
	verb := "were"
	if total == 1 {
		verb = "was"
	}
	people := counted(len(rs.people), "person", "people")
	return fmt.Sprintf(
		"%s of %s without write access to the repository %s left out here. Do not go and read them.", list, people, verb)
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// admitsIssue reports whether the text of an issue enters the prompt: its author has write access, or an account with
// write access has released it for work.
func (rs *readers) admitsIssue(is *forge.Issue) bool {
	return is.Has(forge.LabelBacklog) || is.Has(forge.LabelInProgress) || rs.admits(is.Author, "issue")
}
