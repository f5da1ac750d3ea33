package hire

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge/forgejo"
	"codeberg.org/johba/disinto/forge/localforge/faults"
	"codeberg.org/johba/disinto/forge/rest"
)

func TestHire(t *testing.T) {
	onEach(t, func(w *world) {
		began := time.Now()
		w.do(w.hire(w.withToken))
		w.hired()
		profile := w.name + "/" + w.name + "-profile"
		if n := w.commits(profile); n != 1 {
			w.Errorf("the profile has %d commits, want one", n)
		}
		w.Logf("hired in %s:\n%s", time.Since(began), w.said.String())

		first := w.secret()
		admin, err := forgejo.NewAdmin(w.withPassword)
		w.must(err)
		own, err := admin.CreateToken(w.Context(), w.name, "mine")
		w.must(err)
		w.do(w.hire(w.withPassword)) // again, as an administrator who needs no password of the agent
		w.hired()
		if w.secret() == first || w.lives(first) {
			w.Error("the token is not new, or the old one is still valid")
		}
		if !w.lives(own) {
			w.Error("a token that a person created was revoked")
		}
		if n := w.commits(profile); n != 1 {
			w.Errorf("the profile has %d commits after the second run, want one", n)
		}
	})
}

// TestBreaksOff stops hiring after each step and hires again, also for an agent that has a token already. make test
// stops after every second one.
func TestBreaksOff(t *testing.T) {
	onEach(t, func(w *world) {
		steps := len(w.hire(w.withToken).steps())
		for n := 0; n <= steps; n += sized(1, 2) {
			w.name = fmt.Sprintf("dev-%d-%s", n, w.suffix)
			mustWrite(w.T, w.config, before, 0o644)
			w.must(os.RemoveAll(w.where))
			for range 2 { // from nothing, and for a hired agent
				last := ""
				if _, err := os.Stat(w.where); err == nil {
					last = w.secret()
				}
				h := w.hire(w.withToken)
				w.must(perform(w.Context(), h.steps()[:n], false, h.Report))
				if now, err := os.ReadFile(w.where); err == nil && last != "" && !w.lives(Secrets(string(now))[h.Entry.TokenVar]) {
					w.Errorf("after step %d the token in the file is invalid", n)
				}
				w.do(w.hire(w.withToken))
				w.hired()
			}
		}
	})
}

// TestLostAnswers breaks the connection at each request in turn, once before the forge executes it and once after.
// Hiring again completes it. make test plays every sixth request of each.
func TestLostAnswers(t *testing.T) {
	for name, fault := range map[string]faults.Fault{"before": faults.Drop, "after": faults.Lose} {
		t.Run(name, func(t *testing.T) { t.Parallel(); breakEach(onLocal(t), fault) })
	}
}

func breakEach(w *world, fault faults.Fault) {
	first := 1
	if fault == faults.Lose {
		first = sized(1, 4)
	}
	for broken, n := true, first; broken; n += sized(1, 6) {
		w.name = fmt.Sprintf("dev-%d-%s", n, w.suffix)
		mustWrite(w.T, w.config, before, 0o644)
		w.must(os.RemoveAll(w.where))
		h := w.hire(w.withToken)
		w.must(h.Check(w.Context()))
		asked := 0
		broken = false
		w.breakWith(func(r *http.Request) faults.Fault {
			// The transport itself retries requests that only read.
			if asked++; asked == n || broken && r.Method == http.MethodGet && asked == n+1 {
				broken = true
				return fault
			}
			return faults.None
		})
		err := h.Run(w.Context())
		w.breakWith(nil)
		if err != nil && !strings.Contains(err.Error(), "run it again") {
			w.Errorf("request %d broken: the error does not say what to do: %v", n, err)
		}
		w.do(w.hire(w.withToken))
		w.hired()
		if n > 100 {
			w.Fatal("hiring still fails after 100 requests")
		}
	}
}

// TestAdopt adopts an agent of upstream's, whose account must change its password and has a .profile and a token.
func TestAdopt(t *testing.T) {
	onEach(t, func(w *world) {
		password := w.account(w.name)
		repo := w.name + "/.profile"
		w.must(w.admin.Post(w.Context(), "/admin/users/"+w.name+"/repos",
			map[string]any{"name": ".profile", "private": true}, nil))
		b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
		w.must(w.admin.Post(w.Context(), "/repos/"+repo+"/contents", map[string]any{
			"branch": "main", "message": "upstream",
			"files": []map[string]string{
				{"operation": "create", "path": upstreamLessons, "content": b64("Look before you leap.\n")},
				{"operation": "create", "path": readmeFile, "content": b64("mine\n")},
				{"operation": "create", "path": "journal/.gitkeep", "content": ""},
				{
					"operation": "create", "path": profileFile,
					"content": b64("# own words\nname = \"" + w.name + "\"\nrole = \"planner\"\n"),
				},
			},
		}, nil))
		root := &rest.API{URL: w.url, User: w.withPassword.User, Password: w.withPassword.Password}
		var theirs struct{ SHA1 string }
		w.must(root.Post(w.Context(), "/users/"+w.name+"/tokens",
			map[string]any{"name": "disinto-theirs", "scopes": []string{"all"}}, &theirs))
		h := w.hire(w.withPassword)
		h.Formula, h.Adopt = "[formula]\n", true
		w.do(h)
		person := &rest.API{URL: w.url, User: w.name, Password: password}
		if err := person.Get(w.Context(), "/user", nil); err != nil || !w.lives(theirs.SHA1) {
			w.Errorf("adopting changed the password (%v) or revoked a token (%v)", err, !w.lives(theirs.SHA1))
		}
		agent := &rest.API{URL: w.url, Token: w.secret()}
		w.profiled(agent, repo)
		for path, want := range map[string]string{
			lessonsFile: "Look before you leap.\n", readmeFile: "mine\n",
			formulaFile: "[formula]\n",
		} {
			var raw []byte
			w.must(agent.Get(w.Context(), "/repos/"+repo+"/raw/"+path, &raw))
			if string(raw) != want {
				w.Errorf("%s is %q, want %q", path, raw, want)
			}
		}
		if err := agent.Get(w.Context(), "/repos/"+w.name+"/"+w.name+"-profile", nil); err == nil {
			w.Error("hiring created a second profile")
		}
		if n := w.commits(repo); n != 2 {
			w.Errorf("the profile has %d commits, want upstream's and ours", n)
		}
	})
}

// TestCheck checks that all problems are reported at once and nothing changes.
func TestCheck(t *testing.T) {
	onEach(t, func(w *world) {
		h := w.hire(w.withToken)
		h.Entry.Name, h.Entry.Thread = "Dev_Qwen", "lama"
		h.Repos = []string{w.repo, w.repo + "-gone"}
		err := h.Check(w.Context())
		for _, want := range []string{`cannot call an agent "Dev_Qwen"`, "no thread lama", w.repo + "-gone: "} {
			if err == nil || !strings.Contains(err.Error(), want) {
				w.Errorf("Check: %v\nwant %q in it", err, want)
			}
		}
		if err != nil && strings.Count(err.Error(), "\n") != 2 {
			w.Errorf("Check returned %v, want three lines", err)
		}
		h = w.hire(w.withToken)
		h.Entry.Role, h.Entry.Thread = "deb", "lama"
		if err := h.Check(w.Context()); err == nil || !strings.Contains(err.Error(), "did you mean dev?") ||
			!strings.Contains(err.Error(), "no thread lama") {
			w.Errorf("Check of an unknown role and thread: %v", err)
		}
		h = w.hire(w.withToken)
		h.Entry.Name, h.Entry.Thread = "dev-glm", "opus"
		if err := h.Check(w.Context()); err == nil || !strings.Contains(err.Error(), "it is on llama") {
			w.Errorf("Check of an agent on another thread: %v", err)
		}
		h = w.hire(w.withToken)
		h.Login = w.withPassword.User
		if err := h.Check(w.Context()); err == nil || !strings.Contains(err.Error(), "is an administrator's") {
			w.Errorf("Check of an administrator's account: %v, want a refusal", err)
		}
		expect(w.T, w.config, before, 0o644)
		if err := w.admin.Get(w.Context(), "/users/"+w.name, nil); err == nil {
			w.Error("Check created an account")
		}
	})
}

// TestCheckRights checks that missing rights are reported before the first step.
func TestCheckRights(t *testing.T) {
	onEach(t, func(w *world) {
		person := "person-" + w.suffix
		password := w.account(person)
		w.must(w.admin.Call(w.Context(), http.MethodPatch, "/admin/users/"+person,
			map[string]any{"source_id": 0, "login_name": person, "must_change_password": false}, nil))
		token := func(api *rest.API, login string, scopes ...string) string {
			var made struct{ SHA1 string }
			w.must(api.Post(w.Context(), "/users/"+login+"/tokens", map[string]any{"name": rand.Text(), "scopes": scopes},
				&made))
			return made.SHA1
		}
		root := &rest.API{URL: w.url, User: w.withPassword.User, Password: w.withPassword.Password}
		for _, tt := range []struct {
			name string
			as   forgejo.AdminOptions
			want string
		}{
			{
				"no forge",
				forgejo.AdminOptions{URL: "http://127.0.0.1:1", Token: "t"},
				"cannot reach the forge at http://127.0.0.1:1",
			},
			{
				"a wrong token",
				forgejo.AdminOptions{URL: w.url, Token: strings.Repeat("0", 40)},
				"the forge does not know this token",
			},
			{
				"a wrong password",
				forgejo.AdminOptions{URL: w.url, User: root.User, Password: "wrong-password"},
				"the password is wrong",
			},
			{
				"no administrator",
				forgejo.AdminOptions{URL: w.url, User: person, Password: password},
				person + " is not an administrator",
			},
			{"no scope for accounts", forgejo.AdminOptions{URL: w.url, Token: token(root, root.User, "read:user", "read:admin",
				"write:repository")}, "lacks admin scope"},
			{
				"no scope for repositories",
				forgejo.AdminOptions{URL: w.url, Token: token(root, root.User, "read:user", "write:admin")},
				"lacks the scope write:repository",
			},
			{
				"no scope to read",
				forgejo.AdminOptions{URL: w.url, Token: token(root, root.User, "write:admin")},
				"make one with all scopes",
			},
			{"enough", forgejo.AdminOptions{URL: w.url, Token: token(root, root.User, "read:user", "write:admin",
				"write:repository", "write:issue")}, ""},
		} {
			err := w.hire(tt.as).Check(w.Context())
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				w.Errorf("%s: Check = %v, want %q", tt.name, err, tt.want)
			}
			if err != nil && (strings.Contains(err.Error(), password) ||
				strings.Contains(err.Error(), strings.Repeat("0", 40))) {
				w.Errorf("%s: the error contains a secret: %v", tt.name, err)
			}
		}
		w.do(w.hire(forgejo.AdminOptions{URL: w.url, Token: token(root, root.User, "read:user", "write:admin",
			"write:repository", "write:issue")}))
		w.hired()
		w.retired(forgejo.AdminOptions{URL: w.url, Token: token(root, root.User, "read:user", "write:admin",
			"write:repository", "write:issue")})
	})
}

// TestDryRun checks that every step is reported and nothing is written, except the two requests that probe our rights.
func TestDryRun(t *testing.T) {
	w := onLocal(t)
	var writes []string
	w.breakWith(func(r *http.Request) faults.Fault {
		if r.Method != http.MethodGet {
			writes = append(writes, r.Method+" "+strings.TrimPrefix(r.URL.Path, "/api/v1"))
		}
		return faults.None
	})
	h := w.hire(w.withToken)
	h.DryRun = true
	w.do(h)
	if got := strings.Join(writes, ", "); got != "POST /admin/users, PUT /repos/"+w.repo+"/collaborators/no.such.user." {
		t.Errorf("the dry run sent %s, want only the two probes", got)
	}
	expect(t, w.config, before, 0o644)
	if _, err := os.Stat(w.where); err == nil {
		t.Error("the dry run created a secrets file")
	}
	if n := strings.Count(w.said.String(), ": would "); n != len(h.steps()) {
		t.Errorf("%d of %d steps say what they would do:\n%s", n, len(h.steps()), w.said.String())
	}
	w.do(w.hire(w.withToken))
	r := w.retire(w.withToken)
	r.DryRun = true
	writes = nil
	w.must(r.Check(t.Context()))
	w.must(r.Run(t.Context()))
	if len(writes) != 2 {
		t.Errorf("the dry run of retiring sent %s, want only the two probes", writes)
	}
	w.hired()
}

// TestStillInUse checks that an old token in use by a session is kept, and revoked by the next run.
func TestStillInUse(t *testing.T) {
	w := onLocal(t)
	w.do(w.hire(w.withToken))
	old := w.secret()
	h := w.hire(w.withToken)
	h.StillInUse = func(context.Context) (string, error) { return "dev works on #11 with it", nil }
	w.do(h)
	kept := strings.Contains(w.said.String(), "kept: dev works on #11")
	if !h.TokensKept || !w.lives(old) || !w.lives(w.secret()) || !kept {
		t.Errorf("TokensKept is %v, the old token valid %v; want both\n%s", h.TokensKept, w.lives(old), w.said.String())
	}
	w.do(w.hire(w.withToken))
	w.hired()
	if w.lives(old) {
		t.Error("the next run did not revoke the old token")
	}
}

// TestProofFails changes the secrets file between two steps: the old token must stay valid.
func TestProofFails(t *testing.T) {
	w := onLocal(t)
	w.do(w.hire(w.withToken))
	old := w.secret()
	h := w.hire(w.withToken)
	say := h.Report
	h.Report = func(step, text string) {
		say(step, text)
		if step == "secrets" {
			mustWrite(t, w.where, SetSecret("", h.Entry.TokenVar, old), 0o600)
		}
	}
	if err := h.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "changed while this command ran") {
		t.Errorf("Run: %v, want an error about the changed file", err)
	}
	if !w.lives(old) {
		t.Error("the old token was revoked although the new one is not in the file")
	}
}
