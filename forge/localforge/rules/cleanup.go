package rules

import (
	"net/http"
	"sync"
	"testing"
)

// cleanup lists the repositories and accounts of all rules, which are removed at the end, and what rules share.
//
// Nothing is removed while rules are running: Forgejo 10 handles pushes one by one and late, and can hang for ever when
// the repository of the current push is deleted. It then still answers requests, but until a restart no push updates a
// pull request.
type cleanup struct {
	server Server

	mu           sync.Mutex // guards the fields below
	repos, users []string

	tempDir    func() string
	committing sync.Mutex        // guards the fields below, and is held while a folder is made
	checkouts  map[string]string // by the names of the branches
	claims     string            // the folder with the commits of claims
	tree       string            // the empty tree in it
}

func (l *cleanup) repo(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.repos = append(l.repos, name)
}

func (l *cleanup) user(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users = append(l.users, name)
}

// waitForPushes makes one more push and waits until the server has handled it, and therefore all pushes before it.
func (l *cleanup) waitForPushes(t *testing.T) {
	w := newWorld(t, l.server, l)
	r := w.code("last")
	p := r.ready("last")
	before := len(r.pushes(p))
	r.commit("last", "b.txt", "b")
	w.eventually("the server handles pushes", func() bool { return len(r.pushes(p)) > before })
	w.nextSecond()
}

// remove deletes repositories first, because an account that owns one cannot be deleted.
func (l *cleanup) remove(t *testing.T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := newWorld(t, l.server, l)
	for _, name := range l.repos {
		l.checkRemoved(w.admin.remove("/repos/" + name))
	}
	for _, name := range l.users {
		l.checkRemoved(w.admin.remove("/admin/users/" + name))
	}
}

func (l *cleanup) checkRemoved(a answer) {
	a.w.Helper()
	if a.status != http.StatusNoContent && a.status != http.StatusNotFound {
		a.w.Errorf("cannot clean up: %s: %s", a.request, a)
	}
}
