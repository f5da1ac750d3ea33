package forgejo

import (
	"errors"
	"slices"
	"testing"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// Inspect returns the labels that Prepare would create, and creates none.
func TestInspect(t *testing.T) {
	onEach(t, func(w *world) {
		c := w.client()
		owner, name := owner(w.repo)
		count := func() int {
			w.Helper()
			all, _, err := w.as(w.owner).ListRepoLabels(owner, name, gitea.ListLabelsOptions{})
			w.must(err)
			return len(all)
		}
		before := count()
		missing, err := c.Inspect(w.Context())
		w.must(err)
		if !slices.Contains(missing, MissingLabel{w.repo, forge.LabelBlocked}) { // newRepo creates the other labels
			w.Errorf("Inspect returned %v, want %s among them", missing, forge.LabelBlocked)
		}
		if n := count(); n != before {
			w.Errorf("the repository has %d labels after Inspect, %d before", n, before)
		}
		w.must(c.Prepare(w.Context()))
		if missing, err := c.Inspect(w.Context()); err != nil || len(missing) > 0 {
			w.Errorf("missing after Prepare: %v, %v", missing, err)
		}
		reads := w.client(func(o *Options) {
			o.Token = w.token(w.boss, w.tokens[w.boss+" password"], "read:issue", "write:repository", "read:user")
		})
		if _, err := reads.Inspect(w.Context()); !errors.Is(err, forge.ErrForbidden) {
			w.Errorf("with a read-only token: got %v, want forbidden", err)
		}
	})
}

// SetHook leaves one working hook to its address, whatever hooks existed before; hooks to other addresses stay.
func TestSetHook(t *testing.T) {
	onEach(t, func(w *world) {
		const url = "http://127.0.0.1:1/v1/hook"
		c := w.client(func(o *Options) { o.Token = w.tokens[w.owner] })
		owner, name := owner(w.repo)
		sdk := w.as(w.owner)
		has := func(want bool) {
			w.Helper()
			if got, err := c.HasHook(w.Context(), w.repo, url); err != nil || got != want {
				w.Errorf("HasHook returned %v, %v; want %v", got, err, want)
			}
		}
		add := func(to string, active bool, events ...string) {
			w.Helper()
			_, _, err := sdk.CreateRepoHook(owner, name, gitea.CreateHookOption{
				Type: "gitea", Active: active, Events: events, Config: map[string]string{"url": to, "content_type": "json"},
			})
			w.must(err)
		}
		has(false)
		add(url+"/other", true, "issues", "pull_request", "push")
		has(false)
		add(url, false, "issues", "pull_request", "push")
		add(url, true, "push")
		has(false)
		for range 2 {
			w.must(c.SetHook(w.Context(), w.repo, url, "secret"))
			has(true)
		}
		all, _, err := sdk.ListRepoHooks(owner, name, gitea.ListHooksOptions{})
		w.must(err)
		var ours *gitea.Hook
		for _, h := range all {
			if h.Config["url"] == url {
				ours = h
			}
		}
		if len(all) != 2 || ours == nil {
			w.Fatalf("the repository has %d hooks, want ours and one other: %v", len(all), all)
		}
		if ours.Config["content_type"] != "json" || !slices.Contains(ours.Events, "issue_label") ||
			!slices.Contains(ours.Events, "pull_request_review_approved") && // Gitea names the group only
				!slices.Contains(ours.Events, "pull_request_review") {
			w.Errorf("hook %+v", ours)
		}
		// An account that has only write access cannot see the hooks.
		plain := w.client()
		_, err = plain.HasHook(w.Context(), w.repo, url)
		if set := plain.SetHook(w.Context(), w.repo, url, "secret"); !errors.Is(err, forge.ErrForbidden) ||
			!errors.Is(set, forge.ErrForbidden) {
			w.Errorf("without admin rights: HasHook %v, SetHook %v; want forbidden", err, set)
		}
	})
}
