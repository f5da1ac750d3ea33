package rules

import (
	"net/http"
	"slices"
	"sync"
)

var assigneeRules = []rule{
	{
		"the last write wins",
		"forge/forgejo Claim, which cannot use assignees as a lock and therefore pushes refs/disinto/claims first",
		lastWriteWins,
	},
	{
		"several assignees stay in the order of assignment",
		"forge/forgejo, which adds an agent to a pull request that is assigned to a person",
		severalAssignees,
	},
	{
		"an empty list removes all assignees",
		"forge/forgejo Release",
		clearAssignees,
	},
	{
		"an unknown login is refused, and nothing changes",
		"forge/forgejo Claim, which then reports that the agent's account was removed",
		unknownAssignee,
	},
	{
		"an account with only read access can be assigned",
		"threads, which treats an assignee that is not an agent as a person",
		strangerAssigned,
	},
	{
		"the list of possible assignees has exactly the accounts with write access",
		"forge/forgejo readWriters: only administrators can read the rights of other accounts",
		writersListed,
	},
}

// assign sets an issue's assignees, in the name of a.
func (r *repo) assign(a *account, n int64, names ...string) issue {
	r.w.Helper()
	return decode[issue](a.patch(r.at("/issues/%d", n), fields{"assignees": append([]string{}, names...)}).
		want(http.StatusCreated))
}

// lastWriteWins lets two accounts assign themselves concurrently, as two hosts would.
func lastWriteWins(w *world) {
	r := w.repo()
	one, two := r.writer("one"), r.writer("two")
	n := r.open("first")
	r.assign(one, n, one.name)
	same(w, "after the second write", r.assign(two, n, two.name).assignees(), two.name)
	var both sync.WaitGroup
	for _, dev := range []*account{one, two} {
		both.Go(func() {
			if a := dev.patch(r.at("/issues/%d", n), fields{"assignees": []string{dev.name}}); a.status != http.StatusCreated {
				w.Errorf("%s got %s, want success: the forge does not report that another write came first", dev.name, a)
			}
		})
	}
	both.Wait()
}

func severalAssignees(w *world) {
	r := w.repo()
	one, two := r.writer("one"), r.writer("two")
	n := r.open("first")
	r.assign(r.owner, n, one.name)
	i := r.assign(r.owner, n, one.name, two.name)
	same(w, "assignees", i.assignees(), one.name+" "+two.name)
	if i.Assignee == nil || i.Assignee.Login != one.name {
		w.Errorf("assignee: got %v, want the first, %s", i.Assignee, one.name)
	}
}

func clearAssignees(w *world) {
	r := w.repo()
	dev := r.writer("dev")
	n := r.open("first")
	r.assign(dev, n, dev.name)
	for range 2 {
		i := r.assign(dev, n)
		same(w, "assignees", i.assignees(), "")
		if i.Assignee != nil {
			w.Errorf("assignee: got %v, want none", i.Assignee)
		}
	}
}

func unknownAssignee(w *world) {
	r := w.repo()
	dev := r.writer("dev")
	n := r.open("first")
	r.assign(dev, n, dev.name)
	dev.patch(r.at("/issues/%d", n), fields{"assignees": []string{"nobody-" + w.suffix}}).refused() // 500 in Forgejo 10
	same(w, "assignees", r.issue(n).assignees(), dev.name)
}

func strangerAssigned(w *world) {
	r := w.repo()
	stranger := w.account("stranger")
	n := r.open("first")
	same(w, "assignees", r.assign(r.owner, n, stranger.name).assignees(), stranger.name)
}

func writersListed(w *world) {
	r := w.repo()
	dev, reader := r.writer("dev"), r.collaborator("reader", "read")
	w.account("stranger")
	for _, who := range []*account{r.owner, dev} {
		var names []string
		for _, u := range decode[[]user](who.get(r.at("/assignees")).want(http.StatusOK)) {
			names = append(names, u.Login)
		}
		slices.Sort(names)
		want := []string{dev.name, r.owner.name}
		slices.Sort(want)
		if !slices.Equal(names, want) {
			w.Errorf("%s sees the possible assignees %v, want %v without %s", who.name, names, want, reader.name)
		}
	}
}
