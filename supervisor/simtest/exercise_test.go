package simtest

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/forgetest"
)

// TestForge: the forge of these tests keeps the contract of a real one. It has a single repository, no commits, and no
// accounts of different rights other than a stranger's, so it is not asked about those.
func TestForge(t *testing.T) {
	forgetest.Exercise(t, func(t *testing.T, check forgetest.Check) {
		synctest.Test(t, func(t *testing.T) {
			check(t, &site{f: NewForge(), heads: map[string]string{}, said: map[forge.Ref][]string{}})
		})
	}, forgetest.Issues, forgetest.Claims, forgetest.Talk, forgetest.Pulls)
}

// site is a Forge for the rules. The methods of Coders that are missing belong to the part Code.
type site struct {
	forgetest.Coders

	f     *Forge
	heads map[string]string      // by branch
	said  map[forge.Ref][]string // by others than the supervisor
}

// Account returns the accounts that a Forge knows by their names.
func (s *site) Account(name string) (login, token string) {
	switch name {
	case "boss":
		login = us
	case "human":
		return "stranger", ""
	case "colleague":
		return name, ""
	default:
		login = name
	}
	token = "token of " + login
	s.f.Tokens[token] = login
	return login, token
}

func (s *site) Repo(...string) string { return Repo }

func (s *site) Supervisor(v forgetest.Supervisor) forgetest.Forge {
	return newClient(s.f, v.Instance, v.Host, func(_ string, do func() error) error { return do() })
}

func (s *site) Assign(ref forge.Ref, logins ...string) {
	if s.f.issues[ref.Number] != nil {
		s.f.Edit(ref.Number, func(is *forge.Issue) { is.Assignees = logins })
		return
	}
	s.f.EditPull(ref.Number, func(p *forge.Pull) { p.Assignees = logins })
}

func (s *site) Say(login string, ref forge.Ref, body string) {
	s.said[ref] = append(s.said[ref], body)
	s.f.Say(ref.Number, login)
	if _, ok := forge.CommandIn(body); ok {
		s.f.Command(ref.Number, login, body)
		return
	}
	s.f.Answer(ref.Number, login)
}

func (s *site) Like(login string, ref forge.Ref, _ int64) { s.f.Like(ref.Number, login) }

func (s *site) Tag(login string, ref forge.Ref, label string) {
	if label == forge.LabelPlanApproved {
		s.f.Approve(ref.Number, login)
		return
	}
	s.f.Edit(ref.Number, func(is *forge.Issue) { is.Labels = with(is.Labels, label) })
}

// Comments returns other accounts' comments first.
func (s *site) Comments(ref forge.Ref) []string {
	texts := append([]string(nil), s.said[ref]...)
	for _, c := range s.f.Comments() {
		if c.Ref == ref {
			texts = append(texts, c.Body)
		}
	}
	kept, _ := s.f.CommentsSet()
	for of, body := range kept {
		if of[:len(ref.Short())+1] == ref.Short()+" " {
			texts = append(texts, body)
		}
	}
	return texts
}

func (s *site) Push(_, _, branch, _, _ string) (head string) {
	for _, p := range s.f.Pulls() {
		if p.Head == branch {
			s.f.Push(p.Number)
			return s.f.pulls[p.Number].HeadSHA
		}
	}
	s.heads[branch] = fmt.Sprintf("%040d", len(s.heads)+1)
	return s.heads[branch]
}

func (s *site) Open(login, repo, branch, title, body string) forge.Ref {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.f.last++
	ref := Ref(s.f.last)
	s.f.pulls[s.f.last] = &forge.Pull{
		Ref: ref, Title: title, Body: body, Author: login, Head: branch, HeadSHA: s.heads[branch], HeadRepo: repo,
		Base: "main", Draft: forge.IsDraft(title, false), Closes: forge.Closes(branch, title, body, repo),
		Mergeable: forge.MergeClean, Created: time.Now(), Updated: time.Now(),
	}
	return ref
}

func (s *site) Review(login string, ref forge.Ref, _ string, verdict forge.Verdict) {
	s.f.Review(ref.Number, login, verdict)
}

func (s *site) Report(_, head, _, state string) {
	for _, p := range s.f.Pulls() {
		if p.HeadSHA == head {
			s.f.EditPull(p.Number, func(p *forge.Pull) {
				p.CI = forge.CombineCI(nil, []forge.Status{{ID: 1, Context: "ci", State: state}})
			})
		}
	}
}
