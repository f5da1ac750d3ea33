package hire

import (
	"context"
	"errors"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/forge/forgejo"
	"codeberg.org/johba/disinto/forge/rest"
)

// retired retires the agent and checks the result.
func (w *world) retired(as forgejo.AdminOptions) {
	w.Helper()
	token := w.secret()
	r := w.retire(as)
	w.must(r.Check(w.Context()))
	w.must(r.Run(w.Context()))
	w.gone(token)
}

func (w *world) gone(token string) {
	w.Helper()
	expect(w.T, w.config, before, 0o644)
	if w.lives(token) || len(w.tokens()) > 0 {
		w.Errorf("the agent's token is still valid, or tokens are left: %v", w.tokens())
	}
	if w.secret() != "" {
		w.Error("the agent's token is still in the secrets file")
	}
	err := w.admin.Get(w.Context(), "/repos/"+w.repo+"/collaborators/"+w.name, nil)
	if !errors.Is(err, forge.ErrNotFound) {
		w.Errorf("the agent is still a collaborator: %v", err)
	}
	for _, path := range []string{"/users/" + w.name, "/repos/" + w.name + "/" + w.name + "-profile"} {
		if err := w.admin.Get(w.Context(), path, nil); err != nil {
			w.Errorf("retiring removed %s: %v", path, err)
		}
	}
}

func TestRetire(t *testing.T) {
	onEach(t, func(w *world) {
		mustWrite(w.T, w.where, "OTHER=stays\n", 0o600)
		w.do(w.hire(w.withToken))
		own, theirs := rest.API{URL: w.url, Token: w.secret()}, strings.TrimSuffix(w.repo, "/harb")
		claimed := w.work([]string{"backlog", forge.LabelInProgress}, w.name)
		shared := w.work([]string{"priority"}, theirs, w.name)
		foreign := w.work([]string{"skill/go"}, theirs)
		w.must(own.Call(w.Context(), "GET", "/repos/"+w.repo, nil, nil))
		w.retired(w.withToken)
		for ref, want := range map[forge.Ref]string{
			claimed: "[] [backlog}]", shared: "[" + theirs + "}] [priority}]", foreign: "[" + theirs + "}] [skill/go}]",
		} {
			if got := w.state(ref); got != want {
				w.Errorf("%s has %s, want %s", ref, got, want)
			}
		}
		if w.read(w.where) != "OTHER=stays\n"+retiredMark+w.name+"\n" {
			w.Errorf("the secrets file holds %q, want only the other secret", w.read(w.where))
		}
		r := w.retire(w.withPassword) // again: nothing to do, and no error
		w.must(r.Check(w.Context()))
		w.must(r.Run(w.Context()))

		w.do(w.hire(w.withToken)) // and hire it again
		w.hired()
	})
}

// TestRetireBreaksOff stops retiring after each step and retires again. make test stops after every second one, and
// TestRetireOtherAccount after the others.
func TestRetireBreaksOff(t *testing.T) {
	w := onLocal(t)
	steps := len(w.retire(w.withToken).steps())
	for n := 0; n < steps; n += sized(1, 2) {
		w.do(w.hire(w.withToken))
		token := w.secret()
		ref := w.work(nil, w.name)
		r := w.retire(w.withToken)
		w.must(perform(t.Context(), r.steps()[:n], false, r.Report))
		again := w.retire(w.withToken)
		w.must(again.Check(t.Context()))
		w.must(again.Run(t.Context()))
		w.gone(token)
		if got := w.state(ref); got != "[] []" {
			t.Errorf("after step %d the issue is %s", n, got)
		}
	}
}

func TestRetireRefuses(t *testing.T) {
	w := onLocal(t)
	if err := w.retire(w.withToken).Check(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "there is no agent "+w.name) {
		t.Errorf("Check of an unknown agent: %v, want an error that there is none", err)
	}
	r := w.retire(w.withToken)
	r.Login = "root"
	if err := r.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "is an administrator's") {
		t.Errorf("Check of an administrator's account: %v, want a refusal", err)
	}
}

// TestRetireWhileAtWork keeps the token of a running session, but ends the session's write access.
func TestRetireWhileAtWork(t *testing.T) {
	w := onLocal(t)
	w.do(w.hire(w.withToken))
	token := w.secret()
	r := w.retire(w.withToken)
	r.StillInUse = func(context.Context) (string, error) { return "it works on #11", nil }
	w.must(r.Run(t.Context()))
	if !r.TokensKept || !w.lives(token) {
		t.Errorf("TokensKept is %v, the token valid %v; want both", r.TokensKept, w.lives(token))
	}
	r = w.retire(w.withToken)
	w.must(r.Check(t.Context()))
	w.must(r.Run(t.Context()))
	w.gone(token)
}

// TestRetireSharedToken keeps a variable in the secrets file that another agent uses too.
func TestRetireSharedToken(t *testing.T) {
	w := onLocal(t)
	w.do(w.hire(w.withToken))
	r := w.retire(w.withToken)
	mustWrite(t, w.config, w.after()+"[agents.dev-glm]\ntoken = \"$"+r.TokenVar+"\"\n", 0o644)
	w.must(r.Check(t.Context()))
	w.must(r.Run(t.Context()))
	if w.secret() == "" {
		t.Error("retiring removed the token of dev-glm")
	}
}

// TestRetireTheLast turns the table of a role without agents into a comment, because it would make the file invalid.
func TestRetireTheLast(t *testing.T) {
	w := onLocal(t)
	mustWrite(t, w.config, before+"\n# what they write\n[roles.docs] # no program yet\non = \"issue\"\n", 0o644)
	h := w.hire(w.withToken)
	h.Entry.Role = "docs"
	w.do(h) // the file was invalid until now, because no agent had the role
	r := w.retire(w.withToken)
	w.must(r.Check(t.Context()))
	w.must(r.Run(t.Context()))
	expect(t, w.config, before+"\n# what they write\n# [roles.docs] # no program yet\n# on = \"issue\"\n", 0o644)
}

// TestRetireOtherAccount stops retiring after each step, for an agent whose account and variable do not follow from its
// name: the table that names them is removed first.
func TestRetireOtherAccount(t *testing.T) {
	w := onLocal(t)
	account := w.name
	w.name = "dev-other"
	hired := before + "\n[agents.dev-other]\nforge_user = \"" + account + "\"\ntoken = \"$OTHER\"\n"
	hired = strings.Replace(hired, "    \"dev-glm\", # 32B\n", "    \"dev-glm\", # 32B\n    \"dev-other\",\n", 1)
	retire := func() *Retire {
		_, s, err := w.retire(w.withToken).survey()
		w.must(err)
		r := &Retire{Factory: w.factory(w.withToken), Name: "dev-other"}
		r.Login, r.TokenVar = s.Retiring("dev-other")
		r.Email = agents.NoReply(r.Login, w.url)
		return r
	}
	steps := len(retire().steps())
	for n := sized(0, 1); n < steps; n += sized(1, 2) {
		mustWrite(t, w.config, hired, 0o644)
		h := w.hire(w.withToken)
		h.Login, h.Email = account, agents.NoReply(account, w.url)
		h.Entry = Entry{Name: "dev-other", Thread: "llama", Role: "dev", TokenVar: "OTHER"}
		w.do(h)
		token := Secrets(w.read(w.where))["OTHER"]
		ref := w.work(nil, account)
		r := retire()
		w.must(perform(t.Context(), r.steps()[:n], false, r.Report))
		again := retire()
		w.must(again.Check(t.Context()))
		w.must(again.Run(t.Context()))
		expect(t, w.config, before, 0o644)
		var me struct{ Login string }
		if err := (&rest.API{URL: w.url, Token: token}).Get(t.Context(), "/user", &me); err == nil {
			t.Errorf("after step %d the token is still valid", n)
		}
		if secrets := w.read(w.where); strings.Contains(secrets, "OTHER") {
			t.Errorf("after step %d the token is in the secrets file", n)
		}
		if got := w.state(ref); got != "[] []" {
			t.Errorf("after step %d the issue is %s", n, got)
		}
	}
}
