// Package rules states what disinto relies on in Forgejo's REST API and git server, as tests. localforge passes them,
// and a real Forgejo has to pass them before disinto relies on it. The Go client above the API has a suite of its own,
// forge/forgetest.
//
// # Usage
//
// Exercise runs all rules against one server. The package's test runs them against localforge, and against the server
// that FORGE_TEST_URL and FORGE_TEST_ADMIN_TOKEN name:
//
//	FORGE_TEST_URL=http://forgejo:3000 FORGE_TEST_ADMIN_TOKEN=... go test ./forge/localforge/rules/
//
// # Rules
//
// A rule is a sentence about the server, the code that would be wrong if the sentence were not true, and a check. The
// suite exists for the surprising ones: Forgejo keeps the behaviour that it documents. A check asserts only what that
// code needs and leaves open what differs between versions of Forgejo, such as whether a refusal is a 404 or a 500. A
// surprise that no code relies on has no rule.
//
// # What it leaves behind
//
// Each rule has accounts and repositories of its own with random names, all removed after the last rule. So the suite
// may run on a server that is in use, and twice at the same time. It creates accounts, which takes an administrator's
// token.
//
// # Time
//
// Forgejo's times are whole seconds, and some of its work is done after the answer. So some rules wait for the next
// second and some poll. No rule asserts how long something takes.
package rules

import (
	"context"
	"testing"
	"time"
)

// Server is the forge to exercise. URL, AdminToken and Git are required.
type Server struct {
	// URL is the address without /api/v1, such as http://forgejo:3000.
	URL string
	// AdminToken belongs to an administrator and has the scope "all".
	AdminToken string
	// Git runs git with the arguments in dir, with env added to an environment without the user's configuration, and
	// returns what it printed on both streams. When git ran and failed, the error's chain has a method ExitCode() int. It
	// is called from many goroutines. The caller supplies it because only agents/process may start programs.
	Git func(ctx context.Context, dir string, env []string, args ...string) (string, error)
	// Pass lets time pass on the server's clock; nil sleeps. A test that controls the server's clock moves it instead.
	Pass func(time.Duration)
	// Hooks is false for a server that cannot send web hooks to this process's loopback address. Their rules are skipped
	// then.
	Hooks bool
	// Races is the number of races for one claim; 0 means defaultRaces.
	Races int
}

// rule is one property of the server that our code relies on.
type rule struct {
	name string
	// used names that code and how it relies on the rule; it is logged when the check fails.
	used  string
	check func(*world)
}

// groups are all rules, by subject.
var groups = []struct {
	noun  string
	rules []rule
}{
	{"settings", settingRules},
	{"lists", listRules},
	{"issues", issueRules},
	{"labels", labelRules},
	{"reactions", reactionRules},
	{"assignees", assigneeRules},
	{"updates", updateRules},
	{"dependencies", dependencyRules},
	{"pulls", pullRules},
	{"merge", mergeRules},
	{"reviews", reviewRules},
	{"statuses", statusRules},
	{"branches", branchRules},
	{"git", gitRules},
	{"claims", claimRules},
	{"contents", contentRules},
	{"users", userRules},
	{"tokens", tokenRules},
	{"applications", applicationRules},
	{"permissions", permissionRules},
	{"hooks", hookRules},
}

// Exercise checks all rules as parallel subtests of t.
func Exercise(t *testing.T, server Server) {
	made := &leavings{server: server}
	t.Cleanup(func() { made.remove(t) })
	t.Cleanup(func() { made.settle(t) })
	for _, group := range groups {
		t.Run(group.noun, func(t *testing.T) {
			t.Parallel()
			for _, r := range group.rules {
				t.Run(r.name, func(t *testing.T) {
					t.Parallel()
					t.Cleanup(func() {
						if t.Failed() {
							t.Logf("relied on by %s", r.used)
						}
					})
					r.check(newWorld(t, server, made))
				})
			}
		})
	}
}
