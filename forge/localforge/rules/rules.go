// Package rules states, as tests, what disinto relies on in Forgejo's REST API and git server. localforge passes them,
// and a real Forgejo must pass them before disinto can rely on it. The Go client above the API has its own suite,
// forge/forgetest.
//
// # Usage
//
// Exercise runs all rules against one server. The package's tests run them against localforge, and against the server
// that FORGE_TEST_URL and FORGE_TEST_ADMIN_TOKEN name:
//
//	FORGE_TEST_URL=http://forgejo:3000 FORGE_TEST_ADMIN_TOKEN=... go test ./forge/localforge/rules/
//
// # Rules
//
// A rule consists of a sentence about the server, the code that would be wrong if the sentence were false, and a check.
// The suite covers only surprising behaviour, because Forgejo reliably behaves as documented. A check asserts only what
// the code needs, and leaves open what differs between versions of Forgejo, such as whether a refusal is a 404 or a
// 500. Surprising behaviour that no code relies on has no rule.
//
// # What it leaves behind
//
// Each rule has its own accounts and repositories with random names, and all are removed after the last rule. So the
// suite can run on a server that is in use, and twice at the same time. It creates accounts, which requires an
// administrator's token.
//
// # Time
//
// Forgejo's times are whole seconds, and it does some work after its answer. So some rules wait for the next second and
// some poll. No rule asserts how long something takes.
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
	// Git runs git with args in dir, and returns its output on both streams. Its environment is env plus one without
	// the user's configuration. When git exits with a non-zero status, an error in the returned chain must have a
	// method ExitCode() int. Git is called from many goroutines. The caller supplies it because only agents/process can
	// start programs.
	Git func(ctx context.Context, dir string, env []string, args ...string) (string, error)
	// Pass lets time pass on the server's clock; nil sleeps. A test that controls the server's clock moves that clock
	// instead.
	Pass func(time.Duration)
	// Hooks is false for a server that cannot send web hooks to this process's loopback address. The rules about hooks
	// are then skipped.
	Hooks bool
	// Races is the number of races for one claim. Each takes half a second on a real server.
	Races int
}

// rule is one property of the server that our code relies on.
type rule struct {
	name string
	// used names that code, and how the code relies on the rule. It is logged when the check fails.
	used  string
	check func(*world)
}

// groups lists all rules, by subject.
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
	made := &cleanup{server: server, tempDir: t.TempDir, checkouts: map[string]string{}}
	t.Cleanup(func() { made.remove(t) })
	t.Cleanup(func() { made.waitForPushes(t) })
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
