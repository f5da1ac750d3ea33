package rules_test

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge/localforge"
	"codeberg.org/johba/disinto/forge/localforge/rules"
)

// races returns how many races for one claim are run: 25 with DISINTO_STORMS, which make check sets, else 1, because a
// race takes 40 processes.
func races() int {
	if os.Getenv("DISINTO_STORMS") != "" {
		return 25
	}
	return 1
}

// git is Server.Git. It ignores the git configuration of the machine and the user.
func git(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_TERMINAL_PROMPT=0",
		"LC_ALL=C")
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// serverGit is localforge's Options.Run.
func serverGit(ctx context.Context, c localforge.Cmd) error {
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout = c.Dir, c.Stdin, c.Stdout
	cmd.Env = append(os.Environ(), c.Env...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return nil
}

// TestLocalforge controls localforge's clock, so that no rule has to wait for the next second, and gives the effects of
// a push a lag.
func TestLocalforge(t *testing.T) {
	var ahead atomic.Int64
	f, err := localforge.New(localforge.Options{
		Dir: t.TempDir(), Run: serverGit, Lag: 50 * time.Millisecond,
		Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(f)
	t.Cleanup(func() { server.Close(); f.Close() })
	if err := f.AddUser("root", "", true); err != nil {
		t.Fatal(err)
	}
	token, err := f.AddToken("root")
	if err != nil {
		t.Fatal(err)
	}
	rules.Exercise(t, rules.Server{
		URL: server.URL, AdminToken: token, Git: git, Hooks: true, Races: races(),
		Pass: func(d time.Duration) { ahead.Add(int64(d)) },
	})
}

// TestForgejo runs the rules against a real server.
func TestForgejo(t *testing.T) {
	address, token := os.Getenv("FORGE_TEST_URL"), os.Getenv("FORGE_TEST_ADMIN_TOKEN")
	if address == "" || token == "" {
		t.Skip("needs a Forgejo: set FORGE_TEST_URL, and FORGE_TEST_ADMIN_TOKEN to an administrator's token of scope all")
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	local := u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
	rules.Exercise(t, rules.Server{URL: address, AdminToken: token, Git: git, Hooks: local, Races: races()})
}
