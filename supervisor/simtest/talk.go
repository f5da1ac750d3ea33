package simtest

import (
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// Answer posts a comment by an account below an issue or pull request, and returns the comment's number. stranger may
// not write to the repository.
func (f *Forge) Answer(n int64, login string) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.remarkLocked(n, login, "")
}

// Like gives the last plan of an issue a thumbs-up, which does not bump the issue's update time.
func (f *Forge) Like(n int64, login string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := slices.Clone(f.remarks[n])
	for i := range slices.Backward(list) {
		if strings.HasPrefix(list[i].Key, forge.PlanKey) {
			if login != "stranger" {
				list[i].Likes = with(list[i].Likes, login)
			}
			break
		}
	}
	f.remarks[n] = list
}

// Approve labels an issue plan-approved as the given account.
func (f *Forge) Approve(n int64, login string) {
	f.Edit(n, func(is *forge.Issue) { is.Labels = with(is.Labels, forge.LabelPlanApproved) })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.approved[n] = login
}

// Unsaid deletes a comment.
func (f *Forge) Unsaid(n, comment int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var key string
	f.remarks[n] = slices.DeleteFunc(slices.Clone(f.remarks[n]), func(r forge.Remark) bool {
		if r.ID == comment {
			key = r.Key
		}
		return r.ID == comment
	})
	f.comments = slices.DeleteFunc(f.comments, func(c Comment) bool { return c.Key == key && key != "" })
}

// Remarks returns the questions and plans below an issue or pull request, and other accounts' comments.
func (f *Forge) Remarks(n int64) []forge.Remark {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.remarks[n])
}

func (f *Forge) remarkLocked(n int64, login, key string) int64 {
	f.lastRemark++
	f.remarks[n] = append(slices.Clone(f.remarks[n]), forge.Remark{
		ID: f.lastRemark, Author: login, Key: key, Writer: login != "stranger",
	})
	if is := f.issues[n]; is != nil {
		is.Updated = time.Now()
	} else {
		f.pulls[n].Updated = time.Now()
	}
	return f.lastRemark
}

// talkLocked returns the comments of an item as a scan shows them.
func (f *Forge) talkLocked(n int64, labels []string) (t forge.Talk) {
	asks := func(l string) bool {
		return l == forge.LabelNeedsAnswer || l == forge.LabelPlanFirst || l == forge.LabelPlanApproved
	}
	if !slices.ContainsFunc(labels, asks) {
		return t
	}
	t.Known, t.Remarks = true, forge.Relevant(slices.DeleteFunc(slices.Clone(f.remarks[n]), f.unheardLocked))
	if slices.Contains(labels, forge.LabelPlanApproved) {
		t.ApprovedBy = f.approved[n]
	}
	return t
}

// unheardLocked reports whether a comment is of an account that cannot answer: an agent's, or one that may not write.
func (f *Forge) unheardLocked(r forge.Remark) bool {
	return !r.Writer || r.Author != us && f.agentLocked(r.Author)
}

func (f *Forge) agentLocked(login string) bool {
	for _, agent := range f.Tokens {
		if agent == login {
			return true
		}
	}
	return false
}
