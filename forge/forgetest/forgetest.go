// Package forgetest states what disinto asks of a forge, as tests against the Go interface that the supervisor uses. A
// package whose client passes Exercise is a forge that disinto can work on. The rules know nothing of how the forge is
// reached: how Forgejo behaves over REST is forge/localforge/rules.
//
// # Usage
//
// A forge's own test calls Exercise with a Host, which gives every rule a Site of its own:
//
//	forgetest.Exercise(t, func(t *testing.T, check forgetest.Check) { check(t, newSite(t)) })
//
// Forges make claims by several means and keep times in several granularities, so the rules let seconds pass, and up to
// two minutes where a forge may answer late. A Host that runs check in a bubble of testing/synctest waits for none of
// it.
package forgetest

import (
	"os"
	"slices"
	"testing"

	"codeberg.org/johba/disinto/forge"
)

// Host makes a Site and calls check with it, once, before it returns.
type Host func(t *testing.T, check Check)

// Check is a rule at work: it reports to t, which it may end.
type Check func(t testing.TB, s Site)

// Site is a forge as the rules need it beside Forge. When the forge refuses one of its calls, the Site ends the test.
type Site interface {
	Ground
	People
	Coders
}

// Ground makes what a rule works on. Names are unlike those of other rules.
type Ground interface {
	// Account makes an account whose login begins with name, and a token of it with all rights.
	Account(name string) (login, token string)
	// Repo makes a repository owner/name that everybody may read, with a commit on its default branch main. The writers
	// may push to it and write to its issues.
	Repo(writers ...string) string
	// Supervisor returns a new client, which has read nothing yet.
	Supervisor(Supervisor) Forge
}

// Supervisor says whose client a Forge is.
type Supervisor struct {
	// Instance is the id of the state directory: two clients with one Instance are a supervisor before and after a
	// restart.
	Instance string
	Host     string   // for people
	Token    string   // of its own account
	Repos    []string // owner/name
	Agents   []string // logins of our agents
}

// People do what the interface has no method for.
type People interface {
	// Assign replaces the assignees of an item.
	Assign(ref forge.Ref, logins ...string)
	// Say writes a comment as an account.
	Say(login string, ref forge.Ref, body string)
	// Like gives a comment below an item a thumbs-up as an account.
	Like(login string, ref forge.Ref, comment int64)
	// Tag adds a label to an item as an account.
	Tag(login string, ref forge.Ref, label string)
	// Comments are the texts of all comments, oldest first.
	Comments(ref forge.Ref) []string
}

// Coders work on branches.
type Coders interface {
	// Push commits a file to a branch as an account. A branch that is not there begins at main. head is the commit.
	Push(login, repo, branch, file, text string) (head string)
	// Open opens a pull request from a branch to main.
	Open(login, repo, branch, title, body string) forge.Ref
	// Branch makes a branch that begins, and for now ends, at the head of another one.
	Branch(login, repo, branch, from string)
	// Retarget has a pull request go to another branch.
	Retarget(login string, ref forge.Ref, base string)
	// Review gives a verdict on a head.
	Review(login string, ref forge.Ref, head string, verdict forge.Verdict)
	// Report sets the status of a check, as forge.Status has it, on a commit.
	Report(repo, head, check, state string)
}

// rule is one thing that the supervisor takes for granted of every forge.
type rule struct {
	name  string
	check func(*world)
}

func rules() []rule {
	return slices.Concat(scanRules(), talkRules(), claimRules(), writeRules(), mergeRules(), saidRules())
}

// Exercise checks all rules as subtests.
func Exercise(t *testing.T, host Host) {
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			host(t, func(t testing.TB, s Site) { r.check(newWorld(t, s)) })
		})
	}
}

// races is how many races for one claim are run: ten times as many with DISINTO_STORMS, which make check sets.
func races() int {
	if os.Getenv("DISINTO_STORMS") != "" {
		return 30
	}
	return 3
}
