// Package forgetest states what disinto expects of a forge, as tests of the Go interface that the supervisor uses.
// disinto can work on any forge whose client passes Exercise. The rules do not depend on how the client reaches the
// forge; forge/localforge/rules tests Forgejo's behaviour over REST.
//
// # Usage
//
// A forge's own test calls Exercise with a Host, which makes a separate Site for every rule:
//
//	forgetest.Exercise(t, func(t *testing.T, check forgetest.Check) { check(t, newSite(t)) })
//
// A stand-in that lacks an ability of forges names the parts that it passes.
//
// Forges implement claims in different ways, and their timestamps differ in granularity. The rules therefore sleep for
// seconds, and poll for up to two minutes where a forge answers late. A Host that runs check in a testing/synctest
// bubble spends no real time on it.
package forgetest

import (
	"os"
	"slices"
	"testing"

	"codeberg.org/johba/disinto/forge"
)

// Host creates a Site and calls check with it exactly once, before it returns.
type Host func(t *testing.T, check Check)

// Check runs one rule. It reports failures to t, and can end t.
type Check func(t testing.TB, s Site)

// Site is the forge that a rule tests, with the actions that Forge has no method for. If the forge refuses an action,
// the Site ends the test.
type Site interface {
	Ground
	People
	Coders
}

// Ground creates what a rule works on. Every name is unique across rules.
type Ground interface {
	// Account creates an account whose login begins with name, and a token with all rights for it.
	Account(name string) (login, token string)
	// Repo creates a repository owner/name that everyone can read, with a commit on its default branch main. The
	// writers can push to it and write to its issues.
	Repo(writers ...string) string
	// Supervisor returns a new client that has not read anything yet.
	Supervisor(Supervisor) Forge
}

// Supervisor describes the supervisor that a client belongs to.
type Supervisor struct {
	// Instance is the id of the state directory. Two clients with the same Instance are one supervisor before and after
	// a restart.
	Instance string
	Host     string   // name of the host, shown to people
	Token    string   // token of the supervisor's own account
	Repos    []string // owner/name
	Agents   []string // logins of the supervisor's agents
}

// People are actions of people, for which Forge has no method.
type People interface {
	// Assign replaces the assignees of an item.
	Assign(ref forge.Ref, logins ...string)
	// Say writes a comment as the account login.
	Say(login string, ref forge.Ref, body string)
	// Like gives a comment on an item a thumbs-up as the account login.
	Like(login string, ref forge.Ref, comment int64)
	// Tag adds a label to an item as the account login.
	Tag(login string, ref forge.Ref, label string)
	// Comments returns the texts of all comments on an item, oldest first.
	Comments(ref forge.Ref) []string
}

// Coders are actions on branches and pull requests.
type Coders interface {
	// Push commits a file to a branch as the account login, and returns the commit. A missing branch is created from
	// main.
	Push(login, repo, branch, file, text string) (head string)
	// Open opens a pull request from a branch to main as the account login.
	Open(login, repo, branch, title, body string) forge.Ref
	// Branch creates a branch at the head of the branch from.
	Branch(login, repo, branch, from string)
	// Retarget changes the base branch of a pull request.
	Retarget(login string, ref forge.Ref, base string)
	// Review posts a review with a verdict on the head commit.
	Review(login string, ref forge.Ref, head string, verdict forge.Verdict)
	// Report sets the status of a check on a commit; state is one of forge.Status.State.
	Report(repo, head, check, state string)
}

// Part groups the rules by what a forge needs for them. A stand-in for tests can lack some of it.
type Part int

// The parts of Exercise.
const (
	Issues Part = iota // issues, their labels, comments and blockers
	Claims             // claims and moves, of several supervisors at once
	Talk               // questions, plans and commands in comments
	Pulls              // pull requests with their reviews, checks and merges
	Code               // branches with commits, which have authors and conflict
	Rights             // accounts with different rights, and several repositories
)

// rule is one behaviour that the supervisor relies on in every forge.
type rule struct {
	part  Part
	name  string
	check func(*world)
}

func rules() []rule {
	return slices.Concat(scanRules(), talkRules(), claimRules(), writeRules(), mergeRules(), commandRules())
}

// Exercise checks the rules of the parts, each in a subtest; without parts it checks every rule.
func Exercise(t *testing.T, host Host, parts ...Part) {
	for _, r := range rules() {
		if len(parts) > 0 && !slices.Contains(parts, r.part) {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			host(t, func(t testing.TB, s Site) { r.check(newWorld(t, s)) })
		})
	}
}

// races returns how many races for one claim a rule runs: 2, or 30 with DISINTO_STORMS, which make check sets.
func races() int {
	if os.Getenv("DISINTO_STORMS") != "" {
		return 30
	}
	return 2
}
