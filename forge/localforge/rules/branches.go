package rules

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
)

var branchRules = []rule{
	{
		"writers can read what a branch requires",
		"forge/forgejo, which learns required checks from the branch",
		branchRequirements,
	},
	{
		"only administrators can read and set branch protection",
		"forge/forgejo, which therefore never reads a protection, and agents/hire, which may lack the right to set one",
		protectionRights,
	},
	{
		"creating an existing branch is refused with 409",
		"forge/forgejo Prepare, which tries to create an existing branch to learn whether it has write access",
		existingBranch,
	},
	{
		"one of several concurrent creations of a branch succeeds",
		"nothing yet: it would allow claims on a forge that refuses refs/disinto",
		branchRace,
	},
}

type branch struct {
	Name   string `json:"name"`
	Commit struct {
		ID string `json:"id"`
	} `json:"commit"`
	Protected   bool     `json:"protected"`
	Approvals   int      `json:"required_approvals"`
	StatusCheck bool     `json:"enable_status_check"`
	Contexts    []string `json:"status_check_contexts"`
	MayPush     bool     `json:"user_can_push"`
	MayMerge    bool     `json:"user_can_merge"`
}

func (r *repo) branch(name string) branch {
	r.w.Helper()
	return read[branch](r.owner, r.at("/branches/%s", name))
}

// branches returns the names of all branches, sorted.
func (r *repo) branches() string {
	r.w.Helper()
	var names []string
	for _, b := range read[[]branch](r.owner, r.at("/branches?limit=50&page=1")) {
		names = append(names, b.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func branchRequirements(w *world) {
	r := w.code()
	dev := r.writer("dev")
	before := read[branch](dev, r.at("/branches/main"))
	if before.Protected || before.StatusCheck || len(before.Contexts) != 0 || !before.MayPush || !before.MayMerge {
		w.Errorf("an unprotected branch: got %+v", before)
	}
	r.owner.post(r.at("/branch_protections"), fields{
		"rule_name": "main", "enable_push": false, "required_approvals": 1,
		"enable_status_check": true, "status_check_contexts": []string{"ci/*", "lint"},
	}).want(http.StatusCreated)
	got := read[branch](dev, r.at("/branches/main"))
	if !got.Protected || !got.StatusCheck || got.Approvals != 1 || got.MayPush || !got.MayMerge {
		w.Errorf("a protected branch: got %+v", got)
	}
	same(w, "required contexts", list(got.Contexts), "[ci/* lint]")
	r.owner.post(r.at("/contents/direct.txt"), fields{"content": "eA==", "message": "past the rule", "branch": "main"}).
		refused()
}

func protectionRights(w *world) {
	r := w.code()
	dev, chief := r.writer("dev"), r.collaborator("chief", "admin")
	dev.get(r.at("/branch_protections")).want(http.StatusForbidden)
	dev.post(r.at("/branch_protections"), fields{"rule_name": "main"}).want(http.StatusForbidden)
	chief.post(r.at("/branch_protections"), fields{"rule_name": "main"}).want(http.StatusCreated)
	chief.get(r.at("/branch_protections")).want(http.StatusOK)
}

func existingBranch(w *world) {
	r := w.code()
	dev, reader := r.writer("dev"), r.collaborator("reader", "read")
	again := fields{"new_branch_name": "main", "old_branch_name": "main"}
	dev.post(r.at("/branches"), again).want(http.StatusConflict)
	reader.post(r.at("/branches"), again).want(http.StatusForbidden)
	dev.as(dev.newToken("issues", "write:issue", "read:repository")).post(r.at("/branches"), again).
		want(http.StatusForbidden)
	same(w, "branches", r.branches(), "main")
}

// branchRace accepts any refusal of the losers: Forgejo 10 answers 409 to a later request and 500 to a concurrent one.
func branchRace(w *world) {
	r := w.code()
	dev := r.writer("dev")
	for round := range 2 {
		name := fmt.Sprintf("claim-%d", round)
		var mu sync.Mutex
		won := 0
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				a := dev.post(r.at("/branches"), fields{"new_branch_name": name, "old_branch_name": "main"})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case a.status == http.StatusCreated:
					won++
				case a.status < 400:
					w.Errorf("%s: %s", a.request, a)
				}
			})
		}
		all.Wait()
		same(w, fmt.Sprintf("round %d: requests that got 201", round), won, 1)
	}
}
