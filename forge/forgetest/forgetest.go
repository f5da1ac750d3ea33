// Package forgetest says what disinto takes a Forgejo to be, as tests: one
// suite that forge/localforge always passes and that every real Forgejo has to
// pass before disinto may rely on it.
//
// # Usage
//
// Exercise runs all rules against a server. The package's own test does so
// against localforge, and against the server that FORGE_TEST_URL and
// FORGE_TEST_ADMIN_TOKEN name, when they are set:
//
//	FORGE_TEST_URL=http://forgejo:3000 FORGE_TEST_ADMIN_TOKEN=... go test ./forge/forgetest/
//
// # Rules
//
// Each rule is a sentence about the server, the code that would be wrong if it
// were not so, and a check. The odd ones are the reason for the suite: what
// Forgejo documents it keeps anyway. A rule asserts only what that code needs,
// and leaves open what versions of Forgejo disagree about (whether a refusal is
// a 404 or a 500, say). Where nothing relies on an oddity there is no rule.
//
// # What it leaves behind
//
// Every rule works with accounts and repositories of its own, with random
// names, and all are removed when the last rule is through, so that the suite
// may run on a server that is in use, and twice at a time. It needs an
// administrator's token, as it makes accounts.
//
// # Time
//
// Forgejo keeps whole seconds, so some rules have to let one pass, and it does
// some of its work late, so some poll. Nothing asserts how long a thing takes.
package forgetest

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
	// Git runs git with the arguments in dir, with env added to an otherwise
	// harmless environment, and returns what it printed on both streams. When
	// git ran and failed, the error's chain has a method ExitCode() int. It is
	// called from many goroutines. The caller brings it, because this package,
	// which is no test file, must not start programs.
	Git func(ctx context.Context, dir string, env []string, args ...string) (string, error)
	// Pass lets time pass on the server's clock; nil sleeps. A server whose
	// clock the test holds needs not wait.
	Pass func(time.Duration)
	// Hooks is false for a server that cannot send web hooks to this process's
	// loopback address. The rules about them are skipped then.
	Hooks bool
	// Races is how many races for one claim are run; 0 means a handful.
	Races int
}

// rule is one thing that some of our code takes for granted.
type rule struct {
	name string
	// used names that code and says what it does with it. It is shown when the
	// rule does not hold.
	used  string
	check func(*world)
}

// rules are all rules by what they are about.
var rules = []struct {
	noun  string
	rules []rule
}{
	{"settings", settingRules},
	{"lists", listRules},
	{"issues", issueRules},
	{"labels", labelRules},
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
	{"permissions", permissionRules},
	{"hooks", hookRules},
}

// Exercise checks all rules as subtests of t, side by side.
func Exercise(t *testing.T, server Server) {
	made := &leavings{server: server}
	t.Cleanup(func() { made.remove(t) })
	t.Cleanup(func() { made.settle(t) })
	for _, group := range rules {
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
