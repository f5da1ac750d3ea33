package main

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"codeberg.org/johba/disinto/supervisor/control"
)

// A factory that scans the forge once an hour starts an issue when the forge reports it through a hook. check --fix
// registered the hook, the forge signs its calls, and they go over a real network.
func TestHookEndToEnd(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	state, hooks, api := t.TempDir(), deadAddress(t), deadAddress(t)
	const token = "0123456789abcdef"
	path := f.file(state, append(unscheduled,
		"[forge]", "[forge]\nwebhook_secret = \"$WEBHOOK_SECRET\"",
		"[factory]", fmt.Sprintf("[factory]\nlisten = %q\nlisten_token = \"$DISINTO_API_TOKEN\"\nlisten_hooks = %q", api,
			hooks),
		`interval = "1s"`, `interval = "1h"`, `idle_interval = "2s"`, `idle_interval = "1h"`,
		"[roles.dev]", "[roles.dev]\nlabel = \"picked\"", // no issue has the label yet
		`"demo-agent"`, `"demo-agent", "--think", "1h"`)...)
	environ := f.environ(map[string]string{
		"FORGE_TOKEN": f.adminToken(), "WEBHOOK_SECRET": "a secret",
		"DISINTO_API_TOKEN": token,
	})
	if got := disinto(t.Context(), environ, "check", "--fix", "--config", path); got.code != exitDone {
		t.Fatalf("check --fix: got exit code %d\n%s", got.code, got.stdout)
	}
	startDisinto(t, environ, "run", "--yes", "--config", path)
	// From here on the supervisor has no reason to scan: no waiting item is for an agent.
	status(t, state, "the forge was read", func(d *control.Document) bool {
		return d.Forge.OK && len(d.Problems) == 0 && len(d.Queue) > 0
	})
	f.pick(8)
	status(t, state, "the issue is worked on", func(d *control.Document) bool {
		return slices.ContainsFunc(d.Sessions, func(s control.SessionDocument) bool { return s.Number == 8 && s.PID > 0 })
	})
	why := f.say(f.HumanToken, 8, "/disinto why")
	eventually(t, "an answer to a command, at once", func() bool { return len(f.answers(8, why)) == 1 })
	// The hook says who wrote a command, so a person's is carried out without a question, and an agent's is not.
	retry := f.say(f.HumanToken, 8, "/disinto retry")
	eventually(t, "an answer to a command, without a question", func() bool { return len(f.answers(8, retry)) == 1 })
	forged := f.forgeCommand(8)
	f.asked(8, forged)
	if got := f.answers(8, forged); len(got) > 0 {
		t.Errorf("a command that an agent wrote into a person's comment: got answers %q, want none", got)
	}
	// The same supervisor answers over TCP, if the client sends the token.
	for auth, want := range map[string]int{"": 401, "Bearer " + token: 200} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+api+"/v1/state", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", auth)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("over TCP with %q: got %d, want %d", auth, resp.StatusCode, want)
		}
	}
}
