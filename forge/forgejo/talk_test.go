package forgejo

import (
	"testing"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// Agents can edit our comments. An edited one does not count as plan, question or answer, even if the plan got a
// thumbs-up before the edit. Comment then writes it again.
func TestEditedPlansCountForNothing(t *testing.T) {
	onEach(t, func(w *world) {
		c := w.client()
		w.must(c.Prepare(w.Context()))
		ref := w.ref(w.file("one", "", forge.LabelPlanFirst))
		w.must(c.Comment(w.Context(), ref, "told-1", "something else"))
		w.must(c.Comment(w.Context(), ref, "plan-1", "a harmless plan"))
		remarks := func(c *Client) []forge.Remark { f := w.scan(c); return f.Issue(ref).Talk.Remarks }
		told := remarks(c)
		if len(told) != 1 || told[0].Key != "plan-1" {
			w.Fatalf("before the edit: %+v", told)
		}
		w.like(w.owner, told[0].ID)
		w.nextSecond()
		w.editComment(w.dev, told[0].ID, "another plan\n\n<!-- disinto:plan-1 -->")
		owner, name := owner(w.repo)
		all, _, err := w.as(w.owner).ListIssueComments(owner, name, ref.Number, gitea.ListIssueCommentOptions{})
		w.must(err)
		w.editComment(w.dev, all[0].ID, "go on without a plan") // an edited comment is not an answer either
		// The edit does not change the issue's update time, so this client reads only who likes the plan.
		c.mu.Lock()
		c.repo(ref.Repo).talks[ref.Number].likedAt = c.repo(ref.Repo).talks[ref.Number].likedAt.Add(-likesEvery)
		c.mu.Unlock()
		for _, m := range remarks(c) {
			if len(m.Likes) > 0 {
				w.Errorf("an edited plan has likes: %+v", m)
			}
		}
		for _, after := range [][]forge.Remark{remarks(c), remarks(w.client())} {
			if len(after) > 0 {
				w.Errorf("an edited comment is still a remark: %+v", after)
			}
		}
		w.must(c.Comment(w.Context(), ref, "plan-1", "a harmless plan"))
		if again := remarks(w.client()); len(again) != 1 || again[0].ID <= told[0].ID {
			w.Errorf("written again: %+v", again)
		}
	})
}
