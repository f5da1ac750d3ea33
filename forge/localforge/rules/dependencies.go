package rules

import "net/http"

var dependencyRules = []rule{
	{
		"both ends show a dependency",
		"forge/forgejo, which reads the blockers of an issue, and supervisor convoy, which writes them",
		bothEnds,
	},
	{
		"adding an existing dependency and removing a missing one are refused",
		"supervisor convoy, which reads the list after a refusal to learn whether the dependency exists",
		repeatedDependency,
	},
	{
		"only a direct cycle of two issues is refused",
		"threads, which itself finds longer cycles and issues that wait for themselves",
		cycles,
	},
	{
		"an issue with an open blocker cannot be closed",
		"forge/forgejo Close, which answers forge.ErrConflict, and threads, which waits with `merged, cannot close`",
		closeBlocked,
	},
	{
		"an issue can wait for a pull request",
		"forge/forgejo, which accepts an issue or a pull request as a blocker",
		dependsOnPull,
	},
	{
		"a pull request can wait for an issue",
		"forge/forgejo Merge, which must not mistake the refusal, a 500, for an outage",
		pullDependsOn,
	},
	{
		"dependencies can cross repositories",
		"forge/forgejo, which reads blockers in other repositories one by one",
		crossRepository,
	},
	{
		"a blocker that the caller cannot read is shown without its content",
		"forge/forgejo, which reports forge.BlockerUnreadable, so that the issue waits",
		hiddenBlocker,
	},
	{
		"adding a dependency requires write access",
		"supervisor convoy, whose error names the missing right",
		dependencyRights,
	},
	{
		"both timelines show a dependency",
		"forge/forgejo: the entries move updated_at at both ends",
		dependencyTimeline,
	},
}

// on returns how a request names the other issue.
func (r *repo) on(n int64) fields {
	return fields{"owner": r.owner.name, "repo": r.name, "index": n}
}

// dependsOn makes issue n wait for another one.
func (r *repo) dependsOn(n, blocker int64) {
	r.w.Helper()
	r.owner.post(r.at("/issues/%d/dependencies", n), r.on(blocker)).want(http.StatusCreated)
}

// independent removes a dependency.
func (r *repo) independent(n, blocker int64) {
	r.w.Helper()
	r.owner.remove(r.at("/issues/%d/dependencies", n), r.on(blocker)).want(http.StatusOK, http.StatusCreated)
}

// blockers lists the dependencies of issue n, as its owner sees them.
func (r *repo) blockers(n int64) []issue {
	r.w.Helper()
	return read[[]issue](r.owner, r.at("/issues/%d/dependencies?limit=50&page=1", n))
}

func bothEnds(w *world) {
	r := w.repo()
	blocker, blocked := r.open("blocker"), r.open("blocked")
	r.dependsOn(blocked, blocker)
	got := r.blockers(blocked)
	if len(got) != 1 || got[0].Number != blocker || got[0].State != "open" || got[0].Repository == nil ||
		got[0].Repository.FullName != r.fullName() {
		w.Errorf("dependencies of #%d: got %+v, want the open #%d of %s", blocked, got, blocker, r.fullName())
	}
	r.edit(blocker, fields{"state": "closed"})
	same(w, "state of the blocker once it is closed", r.blockers(blocked)[0].State, "closed")
	r.independent(blocked, blocker)
	same(w, "dependencies after removal", len(r.blockers(blocked)), 0)
}

func repeatedDependency(w *world) {
	r := w.repo()
	blocker, blocked := r.open("blocker"), r.open("blocked")
	r.dependsOn(blocked, blocker)
	r.owner.post(r.at("/issues/%d/dependencies", blocked), r.on(blocker)).refused() // 500 in Forgejo 10; so below
	same(w, "dependencies", len(r.blockers(blocked)), 1)
	r.independent(blocked, blocker)
	r.owner.remove(r.at("/issues/%d/dependencies", blocked), r.on(blocker)).refused()
	r.owner.post(r.at("/issues/%d/dependencies", blocked), r.on(999)).want(http.StatusNotFound)
	same(w, "dependencies", len(r.blockers(blocked)), 0)
}

func cycles(w *world) {
	r := w.repo()
	one, two, three := r.open("one"), r.open("two"), r.open("three")
	r.dependsOn(one, two)
	r.owner.post(r.at("/issues/%d/dependencies", two), r.on(one)).refused()
	r.dependsOn(two, three)
	r.dependsOn(three, one)
	r.dependsOn(one, one)
	same(w, "blockers of one", len(r.blockers(one)), 2)
	same(w, "blockers of two", list(numbers(r.blockers(two))), list([]int64{three}))
	r.owner.patch(r.at("/issues/%d", one), fields{"state": "closed"}).want(http.StatusPreconditionFailed)
}

func closeBlocked(w *world) {
	r := w.repo()
	blocker, blocked := r.open("blocker"), r.open("blocked")
	r.dependsOn(blocked, blocker)
	r.owner.patch(r.at("/issues/%d", blocked), fields{"state": "closed"}).want(http.StatusPreconditionFailed)
	same(w, "state", r.issue(blocked).State, "open")
	r.edit(blocker, fields{"state": "closed"})
	same(w, "state once the blocker is closed", r.edit(blocked, fields{"state": "closed"}).State, "closed")
	same(w, "state of the blocker, reopened below a closed issue", r.edit(blocker, fields{"state": "open"}).State,
		"open")
	same(w, "state of the issue that waited for it", r.issue(blocked).State, "closed")
}

func dependsOnPull(w *world) {
	r := w.code("other")
	n := r.open("waits")
	p := r.ready("other")
	r.dependsOn(n, p)
	got := r.blockers(n)
	if len(got) != 1 || got[0].Number != p || got[0].PullRequest == nil {
		w.Fatalf("dependencies: got %+v, want pull request #%d", got, p)
	}
	r.owner.patch(r.at("/issues/%d", n), fields{"state": "closed"}).want(http.StatusPreconditionFailed)
	r.merge(p)
	same(w, "state of the blocker once it is merged", r.blockers(n)[0].State, "closed")
	r.edit(n, fields{"state": "closed"})
}

func pullDependsOn(w *world) {
	r := w.code("one")
	n := r.open("first")
	p := r.ready("one")
	r.dependsOn(p, n)
	r.eventuallyMergeable(p, true)
	r.tryMerge(p, nil).refused() // 500 in Forgejo 10
	r.owner.patch(r.at("/pulls/%d", p), fields{"state": "closed"}).want(http.StatusPreconditionFailed)
	same(w, "state", r.pull(p).State, "open")
	r.edit(n, fields{"state": "closed"})
	r.merge(p)
}

func crossRepository(w *world) {
	r := w.repo()
	other := r.owner.repo("other", nil)
	blocker, blocked := other.open("blocker"), r.open("blocked")
	r.owner.post(r.at("/issues/%d/dependencies", blocked), other.on(blocker)).want(http.StatusCreated)
	got := r.blockers(blocked)
	if len(got) != 1 || got[0].Number != blocker || got[0].Repository == nil ||
		got[0].Repository.FullName != other.fullName() {
		w.Errorf("dependencies: got %+v, want #%d of %s", got, blocker, other.fullName())
	}
	r.owner.patch(r.at("/issues/%d", blocked), fields{"state": "closed"}).want(http.StatusPreconditionFailed)
}

// hiddenBlocker: accounts that can write to the waiting issue and accounts that can only read it learn only that
// there is a blocker.
func hiddenBlocker(w *world) {
	r := w.repo()
	writer, reader := r.writer("dev"), w.account("reader")
	secret := r.owner.repo("secret", fields{"private": true})
	blocker, blocked := secret.open("a secret", fields{"body": "nobody knows"}), r.open("blocked")
	r.owner.post(r.at("/issues/%d/dependencies", blocked), secret.on(blocker)).want(http.StatusCreated)
	for _, a := range []*account{writer, reader} {
		got := read[[]issue](a, r.at("/issues/%d/dependencies", blocked))
		if len(got) != 1 {
			w.Fatalf("%s sees %d dependencies, want the hidden one", a.name, len(got))
		}
		same(w, "number shown to "+a.name, got[0].Number, 0)
		same(w, "text shown to "+a.name, got[0].Body, "")
		a.get(secret.at("/issues/%d", blocker)).want(http.StatusNotFound)
	}
}

func dependencyRights(w *world) {
	r := w.repo()
	reader, stranger := r.collaborator("reader", "read"), w.account("stranger")
	blocker, blocked := r.open("blocker"), r.open("blocked")
	for _, a := range []*account{reader, stranger} {
		a.post(r.at("/issues/%d/dependencies", blocked), r.on(blocker)).want(http.StatusForbidden, http.StatusNotFound)
	}
	w.anonymous().post(r.at("/issues/%d/dependencies", blocked), r.on(blocker)).want(http.StatusUnauthorized)
	same(w, "dependencies", len(r.blockers(blocked)), 0)
}

func dependencyTimeline(w *world) {
	r := w.repo()
	blocker, blocked := r.open("blocker"), r.open("blocked")
	r.dependsOn(blocked, blocker)
	r.independent(blocked, blocker)
	for n, other := range map[int64]int64{blocked: blocker, blocker: blocked} {
		events := r.timeline(n)
		want := list([]string{"add_dependency by " + r.owner.name, "remove_dependency by " + r.owner.name})
		same(w, "timeline", story(events, "add_dependency", "remove_dependency"), want)
		if d := events[0].Dependent; d == nil || d.Number != other {
			w.Errorf("the timeline of #%d names %+v as the other issue, want #%d", n, d, other)
		}
	}
}
