package worlds

import (
	"fmt"
	"slices"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/ledger"
	"codeberg.org/johba/disinto/threads/sim"
)

// acts are the actions of people. Each picks an item of a repository, and does nothing if none fits.
var acts = []func(w *world, r *repo){
	(*world).fileMore, (*world).fileMore, (*world).relabel, (*world).unlabel, (*world).prioritise, (*world).assign,
	(*world).unassign, (*world).closeIssue, (*world).reopenIssue, (*world).waver, (*world).cancel, (*world).rewire,
	(*world).stage, (*world).botClaims, (*world).botEnds, (*world).rejectPull, (*world).mergePull,
	(*world).judgePull, (*world).judgePull, (*world).approveAll, (*world).takeBack,
	(*world).converse, (*world).converse, (*world).converse,
	(*world).pushPull, (*world).intrude, (*world).retarget, (*world).retarget, (*world).rewrite,
	(*world).openPull, (*world).draftPull, (*world).labelPull, (*world).retry, (*world).sling,
	(*world).pause, (*world).crowd, (*world).fell, (*world).revoke, (*world).reload, (*world).reload,
	(*world).pushFix,
}

// people performs an action from time to time until the world is calm.
func (w *world) people() {
	if w.calm {
		return
	}
	acts[w.rng.IntN(len(acts))](w, oneOf(w, w.forge.repos...))
	if w.shell.hooked {
		w.shell.kick()
	}
	w.After(w.between(time.Second, w.size.act), w.people)
}

// anIssue returns a random readable issue that fits, or nil.
func (w *world) anIssue(r *repo, fits func(*issue) bool) *issue {
	list := slices.DeleteFunc(slices.Clone(r.issues), func(is *issue) bool { return is.secret || !fits(is) })
	if len(list) == 0 {
		return nil
	}
	return oneOf(w, list...)
}

func (w *world) aPull(r *repo, fits func(*pull) bool) *pull {
	list := slices.DeleteFunc(slices.Clone(r.pulls), func(p *pull) bool { return p.Closed || !fits(p) })
	if len(list) == 0 {
		return nil
	}
	return oneOf(w, list...)
}

func open(is *issue) bool { return !is.Closed }
func anyPull(*pull) bool  { return true }

func (w *world) fileMore(r *repo) {
	if r.last < 16 {
		w.log("people file more in %s", r.name)
		w.plant(r)
	}
}

func (w *world) relabel(r *repo) {
	if is := w.anIssue(r, open); is != nil {
		l := oneOf(w, forge.LabelBacklog, forge.LabelBacklog, forge.LabelNeedsHuman, "vision", forge.LabelCancelled,
			forge.LabelStaged, forge.LabelInProgress)
		w.log("people label %s %s", is.Ref, l)
		w.forge.label(is, l, "")
	}
}

func (w *world) unlabel(r *repo) {
	marked := func(is *issue) bool {
		return !is.Closed && (forge.SkipLabel(is.Labels) != "" || is.Has(forge.LabelInProgress))
	}
	is := w.anIssue(r, marked)
	if is == nil || w.chance(0.1) {
		is = w.anIssue(r, open)
	}
	if is != nil && len(is.Labels) > 0 {
		l := forge.SkipLabel(is.Labels)
		if l == "" {
			l = oneOf(w, is.Labels...)
		}
		w.log("people take %s off %s", l, is.Ref)
		w.forge.label(is, "", l)
		// Within an hour, the factory's scans may not have seen the label yet, and may write it again.
		ours := l == forge.LabelBlocked || l == forge.LabelNeedsHuman
		if ours && !is.marked.IsZero() && w.Now.Sub(is.marked) > time.Hour {
			is.freed = w.Now
		}
	}
}

func (w *world) prioritise(r *repo) {
	if is := w.anIssue(r, open); is != nil {
		l := oneOf(w, "priority/1", "priority/3", "priority/8")
		w.log("people label %s %s", is.Ref, l)
		w.forge.label(is, l, "")
	}
}

// assign gives an issue to a person, or pins it to an agent.
func (w *world) assign(r *repo) {
	if is := w.anIssue(r, open); is != nil {
		login := oneOf(w, "ada", w.anyLogin(), w.anyLogin())
		w.log("people assign %s to %s", is.Ref, login)
		_ = w.forge.assign(is.Ref, login, "")
	}
}

// unassign removes an assignee, possibly an agent at work.
func (w *world) unassign(r *repo) {
	if is := w.anIssue(r, func(is *issue) bool { return len(is.Assignees) > 0 }); is != nil {
		login := oneOf(w, is.Assignees...)
		w.log("people take %s off %s", login, is.Ref)
		_ = w.forge.assign(is.Ref, "", login)
	}
}

func (w *world) closeIssue(r *repo) {
	if is := w.anIssue(r, open); is != nil {
		err := w.forge.close(is)
		w.log("people close %s: %v", is.Ref, orDone(err))
	}
}

// waver reopens an issue, and closes it again minutes later.
func (w *world) waver(r *repo) {
	if is := w.anIssue(r, func(is *issue) bool { return is.Closed && is.Has(forge.LabelBacklog) }); is != nil {
		w.log("people reopen %s, and are not sure about it", is.Ref)
		w.forge.reopen(is)
		w.After(w.between(5*time.Minute, 40*time.Minute), func() {
			if !w.calm {
				w.log("people close %s again: %v", is.Ref, orDone(w.forge.close(is)))
			}
		})
	}
}

// cancel closes an issue that others depend on, which does not unblock them.
func (w *world) cancel(r *repo) {
	needed := func(is *issue) bool {
		return slices.ContainsFunc(r.issues, func(o *issue) bool { return slices.Contains(o.deps, is.Ref) })
	}
	if is := w.anIssue(r, needed); is != nil {
		w.forge.label(is, forge.LabelCancelled, "")
		w.log("people cancel %s: %v", is.Ref, orDone(w.forge.close(is)))
	}
}

func (w *world) reopenIssue(r *repo) {
	if is := w.anIssue(r, func(is *issue) bool { return is.Closed }); is != nil {
		w.log("people reopen %s", is.Ref)
		w.forge.reopen(is)
	}
}

// rewire adds or removes a dependency.
func (w *world) rewire(r *repo) {
	is := w.anIssue(r, open)
	if is == nil {
		return
	}
	if len(is.deps) > 0 && w.chance(0.5) {
		is.deps = is.deps[1:]
		w.forge.touch(&is.Updated)
	} else {
		w.forge.depend(is, oneOf(w, r.issues...).Ref)
	}
	w.log("people let %s depend on %v", is.Ref, is.deps)
}

func (w *world) stage(r *repo) {
	if is := w.anIssue(r, func(is *issue) bool { return !is.Closed && is.Has(forge.LabelConvoy) }); is != nil {
		if is.Has(forge.LabelStaged) {
			w.log("people start convoy %s", is.Ref)
			w.forge.label(is, "", forge.LabelStaged)
			return
		}
		w.log("people stage convoy %s", is.Ref)
		w.forge.label(is, forge.LabelStaged, "")
	}
}

// botClaims makes another host's supervisor claim an issue, in the same steps as ours.
func (w *world) botClaims(r *repo) {
	free := func(is *issue) bool { return !is.Closed && len(is.Assignees) == 0 && is.Has(forge.LabelBacklog) }
	is := w.anIssue(r, free)
	if is == nil {
		return
	}
	bot := oneOf(w, w.cfg.Forge.Bots...)
	w.log("%s claims %s", bot, is.Ref)
	steps := w.forge.claimSteps(is.Ref, bot)
	if steps[0]() == nil {
		w.After(time.Second, func() { _ = steps[1]() })
	}
}

func (w *world) botEnds(r *repo) {
	theirs := func(is *issue) bool { return !is.Closed && slices.ContainsFunc(is.Assignees, w.bot) }
	if is := w.anIssue(r, theirs); is != nil {
		bot := is.Assignees[slices.IndexFunc(is.Assignees, w.bot)]
		if w.chance(0.5) {
			p := w.forge.open(r, bot, true, is.Ref)
			w.log("%s opens %s for %s", bot, p.Ref, is.Ref)
		}
		w.log("%s lets go of %s", bot, is.Ref)
		_ = w.forge.assign(is.Ref, "", bot)
		w.forge.label(is, "", forge.LabelInProgress)
	}
}

func (w *world) rejectPull(r *repo) {
	if p := w.aPull(r, anyPull); p != nil {
		by := oneOf(w, "ada", "ada", p.Author)
		w.log("%s closes %s unmerged", by, p.Ref)
		w.forge.end(p, by)
	}
}

func (w *world) mergePull(r *repo) {
	if p := w.aPull(r, anyPull); p != nil {
		p.stubborn = false
		err := w.forge.merge(p, p.HeadSHA, p.Base)
		w.log("people merge %s: %v", p.Ref, orDone(err))
	}
}

// judgePull posts a review by a person, by an account whose reviews do not count, or by an agent outside its session.
func (w *world) judgePull(r *repo) {
	if p := w.aPull(r, anyPull); p != nil {
		who := oneOf(w, "ada", "eve", "passer-by", w.anyLogin()) // anyLogin: an agent outside its session
		v := oneOf(w, forge.Approved, forge.ChangesRequested, forge.ChangesRequested, forge.Commented)
		w.log("people %s reviews %s: %v", who, p.Ref, v)
		w.forge.review(p, who, p.HeadSHA, v, who != "passer-by")
	}
}

// meddle changes a pull request at the moment of its merge.
func (w *world) meddle(p *pull) {
	switch w.rng.IntN(5) {
	case 0:
		p.Draft = true
		w.forge.touch(&p.Updated)
	case 1:
		if len(p.Reviews) > 0 {
			w.dismiss(p, len(p.Reviews)-1)
		}
	case 2:
		w.forge.review(p, "ada", p.HeadSHA, forge.ChangesRequested, true)
	case 3:
		w.forge.labelPull(p, forge.LabelNeedsHuman, "")
	case 4:
		w.forge.retarget(p, oneOf(w, sim.Without([]string{"evil", "main", "release"}, p.Base)...))
	}
	w.log("people meddle with %s", p.Ref)
}

// approveAll makes a person approve every open pull request of a repository.
func (w *world) approveAll(r *repo) {
	for _, p := range w.forge.openPulls(r) {
		w.log("people ada approves %s", p.Ref)
		w.forge.review(p, "ada", p.HeadSHA, forge.Approved, true)
	}
}

// takeBack dismisses a review.
func (w *world) takeBack(r *repo) {
	if p := w.aPull(r, func(p *pull) bool { return len(p.Reviews) > 0 }); p != nil {
		w.dismiss(p, w.rng.IntN(len(p.Reviews)))
	}
}

func (w *world) dismiss(p *pull, review int) {
	p.Reviews = slices.Clone(p.Reviews)
	p.Reviews[review].Dismissed = true
	w.log("people dismiss the review of %s on %s", p.Reviews[review].Author, p.Ref)
	w.forge.touch(&p.Updated)
}

func (w *world) pushPull(r *repo) {
	if p := w.aPull(r, anyPull); p != nil {
		w.forge.push(p, "ada")
		w.log("people push %s to %s", p.HeadSHA, p.Ref)
	}
}

// intrude makes an agent push to a pull request outside its sessions, and mostly approve its own push.
func (w *world) intrude(r *repo) {
	if p := w.aPull(r, anyPull); p != nil {
		who := oneOf(w, w.anyLogin(), w.anyLogin(), w.cfg.Forge.Bots[0])
		w.forge.push(p, who)
		w.log("%s pushes %s to %s", who, p.HeadSHA, p.Ref)
		if w.chance(0.8) {
			w.forge.review(p, who, p.HeadSHA, forge.Approved, w.chance(0.7))
		}
	}
}

// pushFix pushes a branch named fix, which somebody deletes within an hour. Until then git cannot create fix/issue-N.
func (w *world) pushFix(r *repo) {
	set := func(fixed bool) {
		w.log("people have a branch fix in %s: %v", r.name, fixed)
		r.fixed, w.forge.changed, w.forge.dirty = fixed, w.Now, true
	}
	if !r.fixed {
		set(true)
		w.After(w.between(time.Minute, time.Hour), func() { set(false) })
	}
}

// rewrite rewrites a branch, which changes the merge base of pull requests to it.
func (w *world) rewrite(r *repo) {
	base := oneOf(w, "main", "main", "release")
	w.log("people rewrite %s", base)
	w.forge.heads++
	for _, p := range w.forge.openPulls(r) {
		if p.Base == base {
			p.MergeBase, p.Contained = fmt.Sprintf("%s/rewritten-%d", base, w.forge.heads), false
			w.forge.recheck(p)
			w.forge.touch(&p.Updated)
		}
	}
}

// retarget changes the base of a pull request, and mostly changes it again seconds or minutes later.
func (w *world) retarget(r *repo) {
	p := w.aPull(r, anyPull)
	if p == nil {
		return
	}
	again := func() {
		if !w.calm && !p.Closed {
			to := oneOf(w, sim.Without([]string{"main", "main", "release", "evil"}, p.Base)...)
			w.log("%s turns %s to %s", p.Author, p.Ref, to)
			w.forge.retarget(p, to)
		}
	}
	again()
	if w.chance(0.8) {
		w.After(w.between(time.Second, w.size.act), again)
	}
}

func (w *world) openPull(r *repo) {
	var closes []forge.Ref
	if is := w.anIssue(r, open); is != nil && w.chance(0.7) {
		closes = append(closes, is.Ref)
	}
	p := w.forge.open(r, oneOf(w, "ada", "ada", stranger), w.chance(0.3), closes...)
	w.log("people open %s for %v", p.Ref, closes)
}

func (w *world) draftPull(r *repo) {
	if p := w.aPull(r, anyPull); p != nil {
		p.Draft = !p.Draft
		w.log("people draft %s: %v", p.Ref, p.Draft)
		w.forge.touch(&p.Updated)
	}
}

func (w *world) labelPull(r *repo) {
	p := w.aPull(r, func(p *pull) bool { return forge.SkipLabel(p.Labels) != "" })
	if p != nil && w.chance(0.8) {
		l := forge.SkipLabel(p.Labels)
		w.log("people take %s off %s", l, p.Ref)
		w.forge.labelPull(p, "", l)
		return
	}
	if p = w.aPull(r, anyPull); p != nil {
		l := oneOf(w, forge.LabelReview, forge.LabelReview, forge.LabelNeedsHuman, forge.LabelCancelled,
			forge.LabelInProgress, "needs docs")
		w.log("people label %s %s", p.Ref, l)
		w.forge.labelPull(p, l, "")
	}
}

// retry is `disinto retry` on an issue or pull request.
func (w *world) retry(r *repo) {
	if w.shell.down {
		return
	}
	var ref forge.Ref
	if is := w.anIssue(r, open); is != nil {
		ref = is.Ref
		w.forge.label(is, "", forge.LabelBlocked)
		w.forge.label(is, "", forge.LabelNeedsHuman)
	}
	if p := w.aPull(r, anyPull); p != nil && w.chance(0.5) {
		ref = p.Ref
		w.forge.labelPull(p, "", forge.LabelBlocked)
		w.forge.labelPull(p, "", forge.LabelNeedsHuman)
	}
	busy := slices.ContainsFunc(w.shell.runs, func(x *run) bool { return x.Item.Ref == ref || x.Item.Chain == ref })
	if busy || ref.IsZero() {
		return // the command is refused during a session
	}
	if p := w.aPull(r, func(p *pull) bool { return p.Ref == ref }); p != nil {
		p.unshown, w.forge.dirty = nil, true
	}
	w.log("people retry %s", ref)
	s, chain, p := w.shell.snapshot(), ref, w.forge.pull(ref)
	if p != nil {
		chain, p.retried, w.forge.dirty = threads.ChainOf(&p.Pull), true, true
	}
	opener := s.OpenerOf(chain, s.Facts.Pull(ref))
	w.shell.record(ledger.Record{Retry: &ledger.Retry{Refs: []ledger.Ref{ledger.Ref(ref)}, Opener: opener}})
	w.checks.after.retried(ref)
	w.checks.tolls.retried(ref, opener)
	delete(w.shell.books.dues, ref)
	w.shell.books.touch(w.coarse(), ref)
	w.shell.kick()
}

// sling is `disinto start`: it adds backlog, and commits the start of that issue on any thread.
func (w *world) sling(r *repo) {
	is := w.anIssue(r, open)
	if is == nil || w.shell.down {
		return
	}
	w.log("people sling %s", is.Ref)
	w.forge.label(is, forge.LabelBacklog, "")
	w.shell.pass(func(s threads.Start) bool { return s.Item.Ref == is.Ref })
	w.shell.kick()
}

// pause pauses an agent, a thread, a repository or everything, or resumes it. All but agents resume within an hour.
func (w *world) pause(r *repo) {
	if w.shell.down {
		return
	}
	thread, agent := oneOf(w, w.cfg.Threads...).Name, oneOf(w, w.cfg.Agents...).Name
	p := oneOf(w, threads.Pause{}, threads.Pause{Thread: thread}, threads.Pause{Agent: agent}, threads.Pause{Repo: r.name})
	if _, already := w.shell.books.Paused[p]; already {
		w.resume(p)
		return
	}
	w.log("people pause %+v", p)
	w.shell.record(ledger.Record{Pause: &ledger.Pause{Pause: p}})
	if p.Agent == "" {
		w.After(w.between(time.Minute, time.Hour), func() { w.resume(p) })
	}
}

func (w *world) resume(p threads.Pause) {
	w.log("people resume %+v", p)
	w.shell.record(ledger.Record{Pause: &ledger.Pause{Pause: p, Off: true}})
	w.shell.kick()
}

// revoke removes an agent's rights on the forge until the next reload.
func (w *world) revoke(*repo) {
	if a := oneOf(w, w.cfg.Agents...).Name; !w.shell.down && w.chance(0.5) {
		w.log("people revoke %s", a)
		ledger.Entry(w.shell.books.Agents, a).Hold(time.Time{}, "its token is revoked")
		delete(w.checks.after.agents, a) // this hold replaces the earlier one, and ends with the supervisor
	}
}

// reload changes the configuration while sessions run: it hires or removes an agent, or changes a thread's slots or
// overlap.
func (w *world) reload(*repo) {
	if w.shell.down {
		return
	}
	cfg := *w.cfg
	cfg.Agents, cfg.Threads = slices.Clone(cfg.Agents), slices.Clone(cfg.Threads)
	switch w.rng.IntN(4) {
	case 0:
		if len(cfg.Agents) > 2 {
			gone := w.rng.IntN(len(cfg.Agents))
			cfg.Agents = slices.Delete(cfg.Agents, gone, gone+1)
		}
	case 1:
		cfg.Agents = append(cfg.Agents, w.agent(&cfg))
	case 2:
		cfg.Threads[0].Slots = w.number(1, 3)
	case 3:
		cfg.Threads[0].Overlap = !cfg.Threads[0].Overlap
	}
	cfg.Roles = slices.Clone(w.roles)
	w.wire(&cfg)
	w.cfg = &cfg
	w.forge.dirty = true
	for _, a := range cfg.Agents {
		if known := ledger.Entry(w.shell.books.Agents, a.Name); known.HeldUntil.IsZero() {
			known.Hold(time.Time{}, "")
		}
	}
	first := &cfg.Threads[0]
	w.log("people reload: %d agents, %s has %d slots, overlap %v", len(cfg.Agents), first.Name, first.Slots, first.Overlap)
	w.shell.kick()
}
