package forgetest

import (
	"errors"
	"fmt"
	"sync"

	"codeberg.org/johba/disinto/forge"
)

func claimRules() []rule {
	return []rule{
		{Claims, "a claim sets a label and an assignee, and shows in a scan", claim},
		{Claims, "an item held by another supervisor is not claimed, released or hidden", claimHeld},
		{Claims, "an item that is not free is not claimed", claimRefused},
		{Claims, "an item that changed since the last scan is not claimed", claimOutdated},
		{Claims, "one of several concurrent claims succeeds", claimRace},
		{Claims, "a restarted supervisor can release its claims", claimRestart},
		{Claims, "a person can free the claim of a supervisor that is gone", free},
		{Claims, "a waiting issue can be moved to another agent", reassign},
		{Claims, "one of several concurrent moves and claims succeeds", reassignRace},
	}
}

// state describes a claim as people see it on the forge: the item's labels and assignees.
func (w *world) state(ref forge.Ref) string {
	w.Helper()
	i := w.issue(ref)
	state := fmt.Sprint(i.Labels)
	for _, login := range i.Assignees {
		for name, is := range map[string]string{"dev": w.dev, "review": w.review, "human": w.human} {
			if login == is {
				state += " @" + name
			}
		}
	}
	return state
}

const free1, held1 = "[backlog]", "[backlog in-progress] @dev"

func claim(w *world) {
	ref := w.file("one")
	w.scan(w.here)
	var commit string
	for n := range 2 {
		w.must("Claim", w.here.Claim(w.ctx, ref, w.dev, "here-1"))
		if n == 0 {
			commit = w.here.ClaimCommit(ref)
		}
		same(w, "commit of the claim", w.here.ClaimCommit(ref), commit)
		same(w, "commit as another supervisor sees it", w.there.ClaimCommit(ref), "")
		same(w, "claimed", w.state(ref), held1)
		same(w, "holder", w.issue(ref).HeldBy, "")
	}
	w.tick()
	for range 2 {
		w.must("Release", w.here.Release(w.ctx, ref, w.dev))
		same(w, "released", w.state(ref), free1)
		same(w, "commit after the release", w.here.ClaimCommit(ref), "")
	}
	w.tick()
	w.must("Label", w.here.Label(w.ctx, ref, []string{"priority"}, nil))
	w.scan(w.there)
	w.must("Claim by the other", w.there.Claim(w.ctx, ref, w.dev, "there-1"))
	w.must("Release by the other", w.there.Release(w.ctx, ref, w.dev))
	same(w, "released", w.state(ref), "[backlog priority]")
	w.must("Release of a missing issue", w.here.Release(w.ctx, w.missing(), w.dev))

	pull, _ := w.work("topic", "")
	w.Assign(pull, w.human)
	w.must("Claim of a pull request", w.here.Claim(w.ctx, pull, w.dev, "here-2"))
	p := w.pull(pull)
	same(w, "in-progress", p.Has(forge.LabelInProgress), true)
	same(w, "assignees", len(p.Assignees), 2)
	w.must("Release of a pull request", w.here.Release(w.ctx, pull, w.dev))
	equal(w, "assignees", w.pull(pull).Assignees, []string{w.human})
}

func claimHeld(w *world) {
	ref := w.file("one")
	w.scan(w.there)
	w.must("Claim", w.here.Claim(w.ctx, ref, w.dev, "here-1"))
	w.refused("Claim by the other, for the same account", w.there.Claim(w.ctx, ref, w.dev, "there-1"), forge.ErrTaken)
	w.refused("Claim by the other, for another account", w.there.Claim(w.ctx, ref, w.review, "there-2"), forge.ErrTaken)
	w.tick()
	facts := w.scan(w.there)
	if i := facts.Issue(ref); i == nil || i.HeldBy == "" {
		w.Errorf("the other supervisor sees %+v, want an issue with a holder", i)
	}
	w.refused("Claim by the other, after a scan", w.there.Claim(w.ctx, ref, w.dev, "there-3"), forge.ErrTaken)
	w.refused("Release by the other", w.there.Release(w.ctx, ref, w.dev), forge.ErrTaken)
	same(w, "still claimed", w.state(ref), held1)
	w.must("Claim again", w.here.Claim(w.ctx, ref, w.dev, "here-1"))
}

func claimRefused(w *world) {
	for _, tc := range []struct {
		name, label, login string
		closed             bool
		want               string
	}{
		{name: "assigned to a person", login: w.human, want: free1 + " @human"},
		{name: "pinned to another", login: w.review, want: free1 + " @review"},
		{name: "skipped", label: forge.LabelNeedsHuman, want: "[backlog needs-human]"},
		{name: "cancelled", label: forge.LabelCancelled, want: "[backlog cancelled]"},
		{name: "half-claimed", label: forge.LabelInProgress, want: "[backlog in-progress]"},
		{name: "closed", closed: true, want: free1},
	} {
		ref := w.file(tc.name)
		w.scan(w.here)
		if tc.label != "" {
			w.must("Label", w.here.Label(w.ctx, ref, []string{tc.label}, nil))
		}
		if tc.login != "" {
			w.Assign(ref, tc.login)
		}
		if tc.closed {
			w.must("Close", w.here.Close(w.ctx, ref))
		}
		w.scan(w.here)
		w.refused(tc.name, w.here.Claim(w.ctx, ref, w.dev, "here-"+tc.name), forge.ErrTaken)
		same(w, tc.name, w.state(ref), tc.want)
	}
	pinned := w.file("pinned to it")
	w.Assign(pinned, w.dev)
	w.scan(w.here)
	w.must("Claim of an issue pinned to the agent", w.here.Claim(w.ctx, pinned, w.dev, "here-pinned"))
	w.refused("Claim of a missing issue", w.here.Claim(w.ctx, w.missing(), w.dev, "here-2"), forge.ErrNotFound)
}

// claimOutdated: since our scan another supervisor did the work and released the issue, so that it looks free.
func claimOutdated(w *world) {
	ref := w.file("one")
	w.scan(w.here)
	w.tick()
	w.must("Claim by the other", w.there.Claim(w.ctx, ref, w.dev, "there-1"))
	w.must("Release by the other", w.there.Release(w.ctx, ref, w.dev))
	w.refused("Claim", w.here.Claim(w.ctx, ref, w.dev, "here-1"), forge.ErrTaken)
	same(w, "free", w.state(ref), free1)
	w.must("Claim after a scan", w.here.Claim(w.ctx, ref, w.dev, "here-2"))
}

// race runs all tries concurrently and returns the index of the one that succeeded. The others must fail with ErrTaken.
func (w *world) race(tries ...func() error) int {
	w.Helper()
	errs := make([]error, len(tries))
	var running sync.WaitGroup
	for n, try := range tries {
		running.Go(func() { errs[n] = try() })
	}
	running.Wait()
	winner, winners := -1, 0
	for n, err := range errs {
		switch {
		case err == nil:
			winner, winners = n, winners+1
		case !errors.Is(err, forge.ErrTaken):
			w.Errorf("try %d: got %v, want %v", n, err, forge.ErrTaken)
		}
	}
	if winners != 1 {
		w.Fatalf("%d of %d tries succeeded, want one; errors: %v", winners, len(tries), errs)
	}
	return winner
}

func claimRace(w *world) {
	all := []Forge{w.here, w.there, w.supervisor("elsewhere")}
	for race := range races() {
		ref := w.file(fmt.Sprint("race ", race))
		var tries []func() error
		for n, f := range all {
			w.scan(f)
			tries = append(tries, func() error { return f.Claim(w.ctx, ref, w.dev, fmt.Sprintf("racer%d-%d", n, race)) })
		}
		won := w.race(tries...)
		same(w, "claimed", w.state(ref), held1)
		w.must("Release by the winner", all[won].Release(w.ctx, ref, w.dev))
		same(w, "released", w.state(ref), free1)
	}
}

func claimRestart(w *world) {
	ref, again := w.file("one"), w.file("two")
	w.must("Claim", w.here.Claim(w.ctx, ref, w.dev, "here-1"))
	w.must("Claim", w.here.Claim(w.ctx, again, w.review, "here-2"))
	w.here = w.supervisor("here")
	facts := w.scan(w.here)
	if i := facts.Issue(ref); i == nil || i.HeldBy != "" {
		w.Errorf("after a restart the supervisor sees %+v, want an issue that no other supervisor holds", i)
	}
	w.must("Release after a restart", w.here.Release(w.ctx, ref, w.dev))
	same(w, "released", w.state(ref), free1)
	w.must("Claim after a restart", w.here.Claim(w.ctx, again, w.review, "here-3"))
	w.must("Release after a restart", w.here.Release(w.ctx, again, w.review))
	w.scan(w.there)
	w.must("Claim by the other", w.there.Claim(w.ctx, ref, w.dev, "there-1"))
}

func free(w *world) {
	ref := w.file("one")
	was, err := w.here.Free(w.ctx, ref)
	w.must("Free of an issue without a claim", err)
	same(w, "holder of an issue without a claim", was, "")
	w.must("Claim", w.there.Claim(w.ctx, ref, w.dev, "there-1"))
	was, err = w.here.Free(w.ctx, ref)
	w.must("Free", err)
	same(w, "Free names the holder", was != "", true)
	same(w, "label and assignee after Free", w.state(ref), held1)
	was, err = w.here.Free(w.ctx, ref)
	w.must("Free again", err)
	same(w, "holder afterwards", was, "")
	w.must("Release", w.here.Release(w.ctx, ref, w.dev))
	same(w, "released", w.state(ref), free1)
	w.must("Claim", w.here.Claim(w.ctx, ref, w.dev, "here-1"))
}

func reassign(w *world) {
	ref := w.file("one")
	w.Assign(ref, w.dev)
	w.scan(w.here)
	labels := []string{forge.LabelStolen, forge.StolenFrom("here")} // the repository does not have the second label yet
	for range 2 {
		w.must("Reassign", w.here.Reassign(w.ctx, ref, w.dev, w.review, labels, "here-1"))
		same(w, "moved", w.state(ref), "[backlog fleet:here:stolen stolen] @review")
	}
	err := w.here.Reassign(w.ctx, ref, w.dev, w.human, nil, "here-2")
	w.refused("Reassign from an account that is not the assignee", err, forge.ErrTaken)
	none := w.file("two")
	w.must("Reassign of an issue without an assignee", w.here.Reassign(w.ctx, none, "", w.dev, nil, "here-3"))
	same(w, "pinned", w.state(none), free1+" @dev")
	w.must("Claim of a moved issue", w.here.Claim(w.ctx, none, w.dev, "here-4"))
	w.refused("Reassign of a claimed issue", w.here.Reassign(w.ctx, none, w.dev, w.review, nil, "here-5"), forge.ErrTaken)
	same(w, "still claimed", w.state(none), held1)
	gone := w.file("three")
	w.Assign(gone, w.dev)
	w.must("Close", w.here.Close(w.ctx, gone))
	w.refused("Reassign of a closed issue", w.here.Reassign(w.ctx, gone, w.dev, w.review, nil, "here-6"), forge.ErrTaken)
	err = w.here.Reassign(w.ctx, w.missing(), w.dev, w.review, nil, "here-7")
	w.refused("Reassign of a missing issue", err, forge.ErrNotFound)
}

// reassignRace: one supervisor moves an issue while another claims it for the account it was pinned to.
func reassignRace(w *world) {
	for race := range races() {
		ref := w.file(fmt.Sprint("race ", race))
		w.Assign(ref, w.dev)
		w.scan(w.here)
		w.scan(w.there)
		won := w.race(
			func() error { return w.here.Claim(w.ctx, ref, w.dev, fmt.Sprint("here-", race)) },
			func() error { return w.there.Reassign(w.ctx, ref, w.dev, w.review, nil, fmt.Sprint("there-", race)) },
		)
		same(w, "after the race", w.state(ref), []string{held1, free1 + " @review"}[won])
	}
}
