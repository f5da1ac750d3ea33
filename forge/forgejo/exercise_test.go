package forgejo

import (
	"net/http"
	"testing"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/forgetest"
)

// TestExercise: a Client is a forge that disinto can work on.
func TestExercise(t *testing.T) {
	forgetest.Exercise(t, func(t *testing.T, check forgetest.Check) {
		onEachEmpty(t, func(w *world) { check(w.T, site{w}) })
	})
}

// site is the forge of a world; the world's owner acts for people.
type site struct{ w *world }

func (s site) Account(name string) (login, token string) {
	s.w.Helper()
	login = s.w.account(name)
	return login, s.w.tokens[login]
}

func (s site) Repo(writers ...string) string {
	s.w.Helper()
	s.w.repo = s.w.newRepo("harb", writers...)
	return s.w.repo
}

func (s site) Supervisor(v forgetest.Supervisor) forgetest.Forge {
	s.w.Helper()
	return s.w.client(func(o *Options) {
		o.Token, o.Repos, o.Claims = v.Token, v.Repos, claimsOf(v.Instance, v.Host)
		o.Ours, o.HTTP = oneOf(v.Agents), &http.Client{Transport: s.w.transport}
	})
}

func (s site) Assign(ref forge.Ref, logins ...string) {
	s.w.Helper()
	s.w.assign(ref.Number, logins...)
}

func (s site) Say(login string, ref forge.Ref, body string) {
	s.w.Helper()
	owner, name := owner(ref.Repo)
	_, _, err := s.w.as(login).CreateIssueComment(owner, name, ref.Number, gitea.CreateIssueCommentOption{Body: body})
	s.w.must(err)
}

func (s site) Like(login string, ref forge.Ref, comment int64) {
	s.w.Helper()
	s.w.like(login, comment)
}

func (s site) Tag(login string, ref forge.Ref, label string) {
	s.w.Helper()
	owner, name := owner(ref.Repo)
	as := s.w.as(login)
	labels, _, err := as.ListRepoLabels(owner, name, gitea.ListLabelsOptions{})
	s.w.must(err)
	var ids []int64
	for _, l := range labels {
		if l.Name == label {
			ids = append(ids, l.ID)
		}
	}
	_, _, err = as.AddIssueLabels(owner, name, ref.Number, gitea.IssueLabelsOption{Labels: ids})
	s.w.must(err)
}

func (s site) Comments(ref forge.Ref) []string {
	s.w.Helper()
	owner, name := owner(ref.Repo)
	all, _, err := s.w.as(s.w.owner).ListIssueComments(owner, name, ref.Number, gitea.ListIssueCommentOptions{})
	s.w.must(err)
	var texts []string
	for _, c := range all {
		texts = append(texts, c.Body)
	}
	return texts
}

func (s site) Push(login, repo, branch, file, text string) (head string) {
	s.w.Helper()
	owner, name := owner(repo)
	from := ""
	if _, _, err := s.w.as(s.w.owner).GetRepoBranch(owner, name, branch); err != nil {
		from = "main"
	}
	return s.w.commitAs(login, branch, from, file, text)
}

func (s site) Open(login, repo, branch, title, body string) forge.Ref {
	s.w.Helper()
	owner, name := owner(repo)
	form := gitea.CreatePullRequestOption{Head: branch, Base: "main", Title: title, Body: body}
	in, resp, err := s.w.as(login).CreatePullRequest(owner, name, form)
	if resp != nil && resp.StatusCode == http.StatusForbidden { // Gitea lets only collaborators open one without a fork
		s.w.collaborator(repo, login, gitea.AccessModeRead)
		in, _, err = s.w.as(login).CreatePullRequest(owner, name, form)
	}
	s.w.must(err)
	return forge.Ref{Repo: repo, Number: in.Index}
}

func (s site) Branch(login, repo, branch, from string) {
	s.w.Helper()
	owner, name := owner(repo)
	_, _, err := s.w.as(login).CreateBranch(owner, name, gitea.CreateBranchOption{BranchName: branch, OldBranchName: from})
	s.w.must(err)
}

func (s site) Retarget(login string, ref forge.Ref, base string) {
	s.w.Helper()
	owner, name := owner(ref.Repo)
	_, _, err := s.w.as(login).EditPullRequest(owner, name, ref.Number, gitea.EditPullRequestOption{Base: base})
	s.w.must(err)
}

func (s site) Review(login string, ref forge.Ref, head string, verdict forge.Verdict) {
	s.w.Helper()
	s.w.verdict(login, ref.Number, head, map[forge.Verdict]gitea.ReviewStateType{
		forge.Approved: gitea.ReviewStateApproved, forge.ChangesRequested: gitea.ReviewStateRequestChanges,
		forge.Commented: gitea.ReviewStateComment,
	}[verdict])
}

func (s site) Report(_, head, check, state string) {
	s.w.Helper()
	s.w.status(head, check, gitea.StatusState(state))
}
