package file

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// env returns a lookupEnv with these pairs.
func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// anyCLI is the list of agent CLIs in an error.
var anyCLI = `"` + strings.Join(agents.CLINames(), `", "`) + `" or "acp"`

// inContainer is the environment that compose sets.
var inContainer = env("FORGE_URL", "http://forgejo:3000", "FORGE_REPO", "johba/harb", "FORGE_TOKEN", "supervisor-token",
	"FORGE_TOKEN_DEV_QWEN", "qwen-token", "FORGE_TOKEN_REVIEW_SONNET", "sonnet-token", "EMPTY", "", "SPACED", "a token\n",
	"HOOK", "hook secret")

// worker is the smallest factory. The rows of TestMistakes add text before or after it.
const worker = `[threads.llama]
backend = "local"
agents = ["dev-qwen"]
`

// anyBackend names the kinds of backends in an error.
const anyBackend = `"api" for any service that keeps nothing between two requests, such as Anthropic's or OpenAI's, ` +
	`or "local" for a server of your own, such as llama-server`

// TestMistakes has a row for each possible mistake. Each line of want is one mistake without the name of the file.
func TestMistakes(t *testing.T) {
	tests := []struct {
		name, text string
		env        func(string) (string, bool)
		want       string
	}{
		{
			name: "syntax", text: "[threads.llama]\nbackend = local",
			want: `:2: threads.llama.backend: expected value but found "local" instead`,
		},
		{name: "syntax outside a key", text: "a b = 1", want: `:1: expected '.' or '=', but got 'b' instead`},
		{
			name: "unclosed table", text: "[forge]\n\n[threads.llama\nbackend = \"local\"",
			want: `:3: [threads.llama is not closed: want ] at the end`,
		},
		{
			name: "key twice", text: "[forge]\nurl = \"http://f\"\nurl = \"http://g\"",
			want: `:3: forge.url: Key 'forge.url' has already been defined.`,
		},
		{name: "no threads", text: "", want: `: no threads: add a [threads.NAME] table with the agents that work there`},

		// Keys.
		{name: "unknown key", text: worker + "colour = 1", want: `:4: threads.llama.colour: unknown key`},
		{
			name: "unknown key, close", text: worker + "max_concurent = 2",
			want: `:4: threads.llama.max_concurent: unknown key, did you mean max_concurrent?`,
		},
		{
			name: "case of a key", text: worker + "Overlap = false",
			want: `:4: threads.llama.Overlap: unknown key, did you mean overlap?`,
		},
		{
			name: "unknown table", text: worker + "[agent.dev-qwen]\nrole = \"dev\"",
			want: `:4: agent: unknown key, did you mean agents?`,
		},
		{
			name: "unknown key of the forge", text: "[forge]\ntokens = 1\n" + worker,
			want: `:2: forge.tokens: unknown key, did you mean token?`,
		},
		{
			name: "key of another table", text: worker + "[agents.dev-qwen]\nmax_usd = 3\nlisten = \"a\"",
			want: ":5: agents.dev-qwen.max_usd: unknown key: it belongs in [roles.NAME]\n" +
				":6: agents.dev-qwen.listen: unknown key: it belongs in [factory] or [roles.NAME]",
		},
		{name: "unknown key of the factory", text: "[factory]\nlog = 1\n" + worker, want: `:2: factory.log: unknown key`},
		{
			name: "unknown key of an agent", text: worker + "[agents.dev-qwen]\nmodels = \"x\"",
			want: `:5: agents.dev-qwen.models: unknown key, did you mean model?`,
		},
		{
			name: "unknown key of a role", text: worker + "[roles.dev]\ntime_out = \"1h\"",
			want: `:5: roles.dev.time_out: unknown key, did you mean timeout?`,
		},
		{
			name: "unknown quoted key", text: worker + `"max concurrent" = 2`,
			want: `:4: threads.llama."max concurrent": unknown key, did you mean max_concurrent?`,
		},
		{name: "dotted key", text: "forge.urk = 1\n" + worker, want: `:1: forge.urk: unknown key, did you mean url?`},
		{name: "inline table", text: "forge = { urk = 1 }\n" + worker, want: `:1: forge.urk: unknown key, did you mean url?`},
		{
			name: "behind a long string", text: worker + "[roles.dev]\ncommand = [\"\"\"\na\n] \"b\" = 1\n\"\"\"]\nurk = 1",
			want: `:9: roles.dev.urk: unknown key`,
		},

		{
			name: "unknown key of stealing", text: worker + "[stealing]\nenable = true",
			want: `:5: stealing.enable: unknown key, did you mean enabled?`,
		},

		// Routes.
		{
			name: "route without agents", text: worker + "[routes]\ngo = []",
			want: `:5: routes.go: is empty, want at least one agent`,
		},
		{
			name: "route to a number", text: worker + "[routes]\ngo = 1",
			want: `:5: routes.go: is a number, want a list of strings`,
		},
		{
			name: "route to a stranger", text: worker + "[routes]\ngo = \"dev-qwem\"",
			want: `:5: routes.go: has "dev-qwem" in it, which is in no thread's agents, did you mean dev-qwen?`,
		},
		{
			name: "route without the skill", text: worker + "[routes]\ngo = [\"dev-qwen\"]",
			want: `:5: routes.go: has dev-qwen in it, which lacks the skill: add "go" to its skills`,
		},
		{
			name: "route to a reviewer",
			text: "[threads.a]\nbackend = \"anthropic\"\nagents = [\"review-x\"]\n[agents.review-x]\nskills = [\"go\"]\n" +
				"[routes]\ngo = \"review-x\"",
			want: `:7: routes.go: has review-x in it, which has no role with on = "issue"`,
		},

		// Types.
		{
			name: "number for a string", text: "[factory]\nuser = 1000\n" + worker,
			want: `:2: factory.user: is a number, want a string`,
		},
		{
			name: "string for a number", text: worker + `max_concurrent = "2"`,
			want: `:4: threads.llama.max_concurrent: is a string, want a whole number`,
		},
		{
			name: "fraction for a number", text: worker + `max_concurrent = 2.5`,
			want: `:4: threads.llama.max_concurrent: is a fraction, want a whole number`,
		},
		{
			name: "string for a truth", text: worker + `overlap = "false"`,
			want: `:4: threads.llama.overlap: is a string, want true or false`,
		},
		{
			name: "number for a duration", text: worker + `interval = 5`,
			want: `:4: threads.llama.interval: is a number, want a duration such as "30s", "15m" or "2h"`,
		},
		{
			name: "string for a list", text: "[forge]\nrepos = \"a/b\"\n" + worker,
			want: `:2: forge.repos: is a string, want a list of strings`,
		},
		{
			name: "number in a list", text: "[forge]\nbots = [1]\n" + worker,
			want: `:2: forge.bots: has a number in it, want a list of strings`,
		},
		{
			name: "empty string in a list", text: "[forge]\nbots = [\"\"]\n" + worker,
			want: `:2: forge.bots: has an empty string in it`,
		},
		{
			name: "date for a string", text: "[factory]\nstate = 2026-01-01\n" + worker,
			want: `:2: factory.state: is a date or time, want a string`,
		},
		{
			name: "truth for a secret", text: "[forge]\ntoken = true\n" + worker,
			want: `:2: forge.token: is true or false, want a string, "$NAME" for an environment variable`,
		},
		{name: "value for a table", text: "forge = 1\n" + worker, want: `:1: forge: is a number, want a table`},
		{
			name: "value for a thread", text: worker + "[threads]\nopus = 1",
			want: `:5: threads.opus: is a number, want a table`,
		},
		{
			name: "value for a budget", text: worker + "budget = 5",
			want: `:4: threads.llama.budget: is a number, want a table`,
		},
		{
			name: "value for limits", text: worker + "[agents.dev-qwen]\nlimits = 5",
			want: `:5: agents.dev-qwen.limits: is a number, want a table`,
		},
		{
			name: "array of tables", text: "[[threads]]\nname = 1\n[[threads]]\nname = 2",
			want: ": no threads: add a [threads.NAME] table with the agents that work there\n" +
				":1: threads: is a list, want a table",
		},

		// [forge]
		{
			name: "no url", text: worker, env: env("FORGE_TOKEN", "t", "FORGE_REPO", "a/b"),
			want: `: forge.url: is not set, and $FORGE_URL is not either`,
		},
		{
			name: "no url in the table", text: "\n[forge]\n" + worker, env: env("FORGE_TOKEN", "t", "FORGE_REPO", "a/b"),
			want: `:2: forge.url: is not set, and $FORGE_URL is not either`,
		},
		{
			name: "no token", text: worker, env: env("FORGE_URL", "http://f", "FORGE_REPO", "a/b"),
			want: `: forge.token: is not set, and $FORGE_TOKEN is not either`,
		},
		{
			name: "no repository", text: worker, env: env("FORGE_URL", "http://f", "FORGE_TOKEN", "t"),
			want: `: forge.repos: is not set, and $FORGE_REPO is not either`,
		},
		{
			name: "empty repositories", text: "[forge]\nrepos = []\n" + worker,
			want: `:2: forge.repos: is empty, want at least one "owner/name"`,
		},
		{
			name: "bad repository", text: "[forge]\nrepos = [\"harb\", \"a/b\"]\n" + worker,
			want: `:2: forge.repos: has "harb" in it, want "owner/name"`,
		},
		{name: "bad repository in a variable", text: worker, env: env("FORGE_URL", "http://f", "FORGE_TOKEN", "t",
			"FORGE_REPO", "a/b, http://f/c/d"), want: `: forge.repos: has "http://f/c/d" in it, want "owner/name"`},
		{
			name: "repository twice", text: "[forge]\nrepos = [\"a/b\", \"a/b\"]\n" + worker,
			want: `:2: forge.repos: has "a/b" twice`,
		},
		{
			name: "no scheme", text: "[forge]\nurl = \"forgejo:3000\"\n" + worker,
			want: `:2: forge.url: is "forgejo:3000", want an address such as "http://forgejo:3000"`,
		},
		{
			name: "a variable is no address", text: "[forge]\nurl = \"$FORGE_URL\"\n" + worker,
			want: `:2: forge.url: is "$FORGE_URL", want an address such as "http://forgejo:3000"`,
		},
		{
			name: "empty address", text: "[forge]\nurl = \"\"\n" + worker,
			want: `:2: forge.url: is "", want an address such as "http://forgejo:3000"`,
		},
		{
			name: "no address at all", text: "[forge]\nurl = \"http://[\"\n" + worker,
			want: `:2: forge.url: is "http://[", want an address such as "http://forgejo:3000"`,
		},
		{
			name: "address is a number", text: "[forge]\nurl = 3000\n" + worker,
			want: `:2: forge.url: is a number, want an address in quotes`,
		},
		{
			name: "password in the address", text: "[forge]\nurl = \"http://a:b@f\"\n" + worker,
			want: `:2: forge.url: has a password in it: logs would show it`,
		},
		{
			name: "query in the address", text: "[forge]\nurl = \"http://f/?x\"\n" + worker,
			want: `:2: forge.url: is "http://f/?x", want it without a query`,
		},
		{
			name: "bad address in a variable", text: worker, env: env("FORGE_URL", "f", "FORGE_TOKEN", "t", "FORGE_REPO", "a/b"),
			want: `: forge.url: $FORGE_URL is "f", want an address such as "http://forgejo:3000"`,
		},
		{name: "variable missing", text: "[forge]\ntoken = \"$NOPE\"\n" + worker, want: `:2: forge.token: $NOPE is not set`},
		{name: "variable empty", text: "[forge]\ntoken = \"$EMPTY\"\n" + worker, want: `:2: forge.token: $EMPTY is empty`},
		{
			name: "no variable", text: "[forge]\ntoken = \"$A-B\"\n" + worker,
			want: `:2: forge.token: starts with $, want $NAME with the name of an environment variable`,
		},
		{
			name: "white space in a token", text: "[forge]\ntoken = \"$SPACED\"\n" + worker,
			want: `:2: forge.token: has white space or other characters in it that a token cannot have`,
		},
		{
			name: "API without a token", text: "[factory]\nlisten = \"127.0.0.1:7070\"\n" + worker,
			want: `:2: factory.listen: needs listen_token, such as "$DISINTO_API_TOKEN": anyone who reaches it could end ` +
				`every session`,
		},
		{
			name: "API token not set", text: "[factory]\nlisten = \":7070\"\nlisten_token = \"$NOPE\"\n" + worker,
			want: `:3: factory.listen_token: $NOPE is not set`,
		},
		{name: "API token that can be guessed", text: "[factory]\nlisten = \":7070\"\nlisten_token = \"0123456789abcde\"\n" +
			worker, want: `:3: factory.listen_token: has 15 characters, want at least 16`},
		{
			name: "API token for nothing",
			text: "[factory]\nlisten_token = \"0123456789abcdef\"\nlisten_hosts = [\"factory\"]\n" + worker,
			want: `:1: factory.listen: is not set, and listen_token and listen_hosts have no effect without it`,
		},
		{
			name: "addresses that are none",
			text: "[factory]\nlisten = \"7070\"\nlisten_token = \"0123456789abcdef\"\n" +
				"listen_hosts = [\"a:80\", \"a b\", \"http://a\", \"good\"]\nlisten_hooks = \"http://a:80\"\n" +
				"hooks_url = \"disinto:7071\"\n" + worker,
			want: `:2: factory.listen: is "7070", want host:port such as "127.0.0.1:7070"
:4: factory.listen_hosts: has "a b" in it, want names of hosts without a port
:4: factory.listen_hosts: has "a:80" in it, want names of hosts without a port
:4: factory.listen_hosts: has "http://a" in it, want names of hosts without a port
:5: factory.listen_hooks: is "http://a:80", want host:port such as "127.0.0.1:7070"
:6: factory.hooks_url: is "disinto:7071", want an address such as "http://disinto:7071/v1/hook"`,
		},
		{name: "port out of range", text: "[factory]\nlisten_hooks = \":70710\"\n[forge]\nwebhook_secret = \"$HOOK\"\n" +
			worker, want: `:2: factory.listen_hooks: is ":70710", want host:port such as "127.0.0.1:7070"`},
		{
			name: "hooks without a secret", text: "[factory]\nlisten_hooks = \":7071\"\n" + worker,
			want: `:2: factory.listen_hooks: needs [forge] webhook_secret: without it anyone could send hooks`,
		},
		{
			name: "hooks whose secret is missing",
			text: "[forge]\nwebhook_secret = \"$NOPE\"\n[factory]\nlisten_hooks = \":7071\"\n" + worker,
			want: `:2: forge.webhook_secret: $NOPE is not set`,
		},
		{
			name: "sign-in of no page", text: "[factory]\nweb_url = \"http://a\"\nweb_client_id = \"x\"\n" + worker,
			want: `:2: factory.web_url: has no effect without listen_web
:3: factory.web_client_id: has no effect without listen_web`,
		},
		{
			name: "sign-in without an address",
			text: "[factory]\nlisten_web = \":7080\"\nlisten_token = \"0123456789abcdef\"\nweb_client_id = \"x\"\n" + worker,
			want: `:4: factory.web_client_id: needs web_url, the control room as browsers call it, such as ` +
				`"https://room.example.org"`,
		},
		{
			name: "address of a page with a path",
			text: "[factory]\nlisten_web = \":7080\"\nlisten_token = \"0123456789abcdef\"\nweb_url = \"https://a/room\"\n" +
				worker,
			want: `:4: factory.web_url: is "https://a/room", want it without a path: the control room has none`,
		},
		{
			name: "address of hooks for nothing", text: "[factory]\nhooks_url = \"http://a/b\"\n" + worker,
			want: `:1: factory.listen_hooks: is not set, and hooks_url has no effect without it`,
		},
		{
			name: "two listeners on one address",
			text: "[forge]\nwebhook_secret = \"$HOOK\"\n[factory]\nlisten = \":7070\"\nlisten_token = \"0123456789abcdef\"\n" +
				"listen_hooks = \":7070\"\n" + worker,
			want: `:6: factory.listen_hooks: is ":7070", the address of listen too: give each an address of its own`,
		},
		{
			name: "metrics on the address of the API",
			text: "[factory]\nlisten = \":7070\"\nlisten_token = \"0123456789abcdef\"\nlisten_metrics = \":7070\"\n" + worker,
			want: `:4: factory.listen_metrics: is ":7070", the address of listen too: give each an address of its own`,
		},
		{
			name: "metrics on the address of the hooks",
			text: "[forge]\nwebhook_secret = \"$HOOK\"\n[factory]\nlisten_hooks = \":7070\"\nlisten_metrics = \":7070\"\n" +
				worker,
			want: `:5: factory.listen_metrics: is ":7070", the address of listen_hooks too: give each an address of its own`,
		},
		{
			name: "metrics nowhere", text: "[factory]\nlisten_metrics = \"7072\"\n" + worker,
			want: `:2: factory.listen_metrics: is "7072", want host:port such as "127.0.0.1:7070"`,
		},
		{
			name: "token for metrics",
			text: "[factory]\nlisten_metrics = \":7072\"\nlisten_hosts = [\"disinto\"]\nlisten_token = \"0123456789abcdef\"\n" +
				worker,
			want: `:1: factory.listen: is not set, and listen_token and listen_hosts have no effect without it`,
		},
		{
			name: "hook secret missing", text: "[forge]\nwebhook_secret = \"$NOPE\"\n" + worker,
			want: `:2: forge.webhook_secret: $NOPE is not set`,
		},
		{
			name: "claim", text: "[forge]\nclaim = \"singel\"\n" + worker,
			want: `:2: forge.claim: is "singel", want "ref" or "single", did you mean single?`,
		},
		{
			name: "merge", text: "[forge]\nmerge = \"manuel\"\n" + worker,
			want: `:2: forge.merge: is "manuel", want "auto" or "manual", did you mean manual?`,
		},
		{
			name: "no unreviewed work allowed", text: "[forge]\nmax_unreviewed = 0\n" + worker,
			want: `:2: forge.max_unreviewed: is 0, want at least 1`,
		},
		{
			name: "negative rounds", text: "[forge]\nmax_review_rounds = -1\n" + worker,
			want: `:2: forge.max_review_rounds: is -1, want at least 1`,
		},
		{
			name: "negative fixes", text: "[forge]\nmax_ci_fixes = -1\n" + worker,
			want: `:2: forge.max_ci_fixes: is -1, want at least 0`,
		},
		{
			name: "bad duration", text: "[factory]\nkeep = \"5 min\"\n" + worker,
			want: `:2: factory.keep: is "5 min", want a duration such as "30s", "15m" or "2h"`,
		},
		{
			name: "sizes",
			text: "[factory]\nmin_free_memory = \"512 MB\"\nmin_free_disk = \"999999999T\"\n" + worker,
			want: `:2: factory.min_free_memory: is "512 MB", want a size such as "512M" or "8G", or "0" for none
:3: factory.min_free_disk: is "999999999T", which is more than any machine has`,
		},
		{
			name: "sandbox",
			text: "[factory]\nsandbox = \"on\"\nsandbox_read = [\"data\"]\nsandbox_connect = [0, 65536, \"ssh\"]\n" +
				worker + "[roles.dev]\nsandbox = \"off\"\nsandbox_write = [\"/a\"]\nsandbox_connect = \"all\"\n",
			want: `:2: factory.sandbox: is "on", want "auto", "strict" or "off"
:3: factory.sandbox_read: has "data" in it, want absolute paths
:4: factory.sandbox_connect: has 0 in it, want ports from 1 to 65535
:4: factory.sandbox_connect: has 65536 in it, want ports from 1 to 65535
:4: factory.sandbox_connect: has a string in it, want a list of TCP ports such as [8080], "ephemeral" or "any"
:10: roles.dev.sandbox_write: is set, and sandbox is "off": remove one of them
:11: roles.dev.sandbox_connect: is a string, want a list of TCP ports such as [8080], "ephemeral" or "any"
:11: roles.dev.sandbox_connect: is set, and sandbox is "off": remove one of them`,
		},
		{
			name: "servers of a role",
			text: "[factory]\nlisten_metrics = \"127.0.0.1:7071\"\n" + worker + "base_url = \"http://localhost:8080/v1\"\n" +
				"[roles.dev]\nlisten = [0, \"9-\", \"9-8\", true, 3100, \"7000-7100\", 8080, 3000]\n",
			want: `:8: roles.dev.listen: has "9-" in it, want a list of TCP ports and ranges such as [3000, "8000-8999"]
:8: roles.dev.listen: has 0 in it, want ports from 1 to 65535
:8: roles.dev.listen: has 3000 in it, the port of forge.url: an agent could take the place of that server
:8: roles.dev.listen: has 7071 in it, the port of factory.listen_metrics: an agent could take the place of that server
:8: roles.dev.listen: has 8080 in it, the port of threads.llama.base_url: an agent could take the place of that server
:8: roles.dev.listen: has 9-8 in it, want ports from 1 to 65535
:8: roles.dev.listen: has true or false in it, want a list of TCP ports and ranges such as [3000, "8000-8999"]`,
		},
		{
			name: "root with an account of its own",
			text: worker + "[agents.dev-qwen]\nuser = \"qwen\"\n[roles.dev]\nroot = true\n",
			want: `:7: roles.dev.root: is true, and dev-qwen has user = "qwen": remove one of them`,
		},
		{
			name: "servers without a sandbox", text: worker + "[roles.dev]\nsandbox = \"off\"\nlisten = [3100]\n",
			want: `:6: roles.dev.listen: is set, and sandbox is "off", which permits every port: remove one of them`,
		},
		{
			name: "days as a fraction", text: "[factory]\nstop_grace = \"1.5d\"\n" + worker,
			want: `:2: factory.stop_grace: is "1.5d", want a duration such as "30s", "15m" or "2h"`,
		},
		{
			name: "log without room for its ends", text: "[factory]\nmax_log = \"1K\"\n" + worker,
			want: `:2: factory.max_log: is 1K, want at least 64K`,
		},
		{
			name: "keep nothing", text: "[factory]\nkeep = \"0d\"\n" + worker,
			want: `:2: factory.keep: is 0d, want at least 1h`,
		},
		{
			name: "size as a number", text: "[factory]\nmin_free_disk = 5\n" + worker,
			want: `:2: factory.min_free_disk: is a number, want a size such as "512M" or "8G", or "0" for none`,
		},
		{
			name: "ladders",
			text: "[threads.llama]\nbackend = \"local\"\nfallback = true\n" +
				"agents = [\"dev-qwen\", \"dev-kimi\", \"planner-qwen\", \"senior-opus\"]\n" +
				"[agents.dev-qwen]\nescalate = [\"dev-kimi\", \"dev-kimi\", \"dev-kim\", \"planner-qwen\", \"dev-qwen\"]\n" +
				"escalate_after = 0\n" +
				"[agents.planner-qwen]\nescalate = [\"dev-qwen\"]\n[agents.dev-kimi]\nescalate_after = 3\n" +
				"[roles.dev]\nescalate = [\"senior-opus\"]\n[roles.senior]\non = \"issue\"\nescalate = [\"dev-kimi\"]\n" +
				"[roles.planner]\nescalate = \"dev-kimi\"\n",
			want: `:6: agents.dev-qwen.escalate: has "dev-kim" in it, which is no agent, did you mean dev-kimi?
:6: agents.dev-qwen.escalate: has "dev-kimi" twice
:6: agents.dev-qwen.escalate: has dev-qwen itself in it: want other agents
:6: agents.dev-qwen.escalate: has planner-qwen in it, which has no role with on = "issue"
:7: agents.dev-qwen.escalate_after: is 0, want at least 1
:9: agents.planner-qwen.escalate: is set, and planner-qwen has no work with on = "issue": only that goes up a ladder
:11: agents.dev-kimi.escalate_after: is set, and escalate is not: want both, or neither
:13: roles.dev.escalate: leads in a circle: dev-kimi -> senior-opus -> dev-kimi
:18: roles.planner.escalate: is a string, want a list of strings`,
		},
		{
			name: "windows",
			text: worker + "windows = [{ length = \"59m\" }, { tokens = 0 }, { length = \"8d\", usd = 0 }, { length = \"5h\", " +
				"usd = 3, dollars = 1 }, " +
				"{ length = \"300m\", usd = 4 }]\nreserve = 1\n[threads.api]\nbackend = \"api\"\n" +
				"windows = [{ length = \"1d\", tokens = 9, usd = 1 }, " +
				"{ length = \"5h\", tokens = 10, usd = 1 }]\nreserve = \"0.5\"\n[threads.more]\nbackend = \"api\"\n" +
				"reserve = 0.1\nwindows = 5\n",
			want: `:4: threads.llama.windows.dollars: unknown key
:4: threads.llama.windows.length: is "300m", as in an earlier window: want one window of each length
:4: threads.llama.windows.length: is "8d", want at most 7d
:4: threads.llama.windows.length: is 59m, want at least 1h
:4: threads.llama.windows.length: is not set, want one such as "5h" or "7d"
:4: threads.llama.windows.tokens: is 0, want at least 1
:4: threads.llama.windows.tokens: is not set, and usd is not either: want one of them, or both
:4: threads.llama.windows.usd: is 0, want more than 0
:5: threads.llama.reserve: is 1, want at least 0 and less than 1: it is a share
:8: threads.api.windows: has more in 5h than in 1d: want less in the shorter one
:9: threads.api.reserve: is a string, want a share such as 0.25
:12: threads.more.reserve: is set, and the thread has no windows: it is a share of each of them
:13: threads.more.windows: is a number, want [[threads.more.windows]] tables`,
		},
		{
			name: "what a session may use",
			text: worker + `[roles.dev]
max_tokens = 0
max_usd = { session = 0, issue = -1, day = 3 }
cli = "claude"
[roles.review]
max_tokens = { session = 2.5 }
max_usd = "5"
[roles.gardener]
max_tokens = { issue = 5 }
max_usd = {}
[roles.planner]
max_tokens = { session = 1_000_000_001 }
max_usd = 5
cli = "codex"
[roles.architect]
on = "issue"
max_tokens = { session = 3, issue = 2 }
`,
			want: `:5: roles.dev.max_tokens: is 0, want 1 to 1000000000
:6: roles.dev.max_usd.day: unknown key
:6: roles.dev.max_usd.issue: is -1, want more than 0
:6: roles.dev.max_usd.session: is 0, want more than 0
:9: roles.review.max_tokens.session: is a fraction, want a whole number
:10: roles.review.max_usd: is a string, want an amount of dollars such as 12.50
:12: roles.gardener.max_tokens: has issue in it, but on is "schedule", and such work has no issue
:13: roles.gardener.max_usd: is empty, want session or issue
:15: roles.planner.max_tokens.session: is 1000000001, want 1 to 1000000000
:16: roles.planner.max_usd: is set, and codex does not report its cost: want max_tokens
:20: roles.architect.max_tokens: allows one session more than all sessions of an issue together`,
		},
		{
			name: "budgets",
			text: worker + "budget = { tokens_per_day = 0, usd_per_day = -1, tokens_per_hour = 3 }\n[agents.dev-qwen]\n" +
				"budget = {}\n[threads.api]\nbackend = \"anthropic\"\nbudget = { usd_per_day = \"5\", tokens_per_day = 1.5 }\n",
			want: `:4: threads.llama.budget.tokens_per_day: is 0, want at least 1
:4: threads.llama.budget.tokens_per_hour: unknown key, did you mean tokens_per_day?
:4: threads.llama.budget.usd_per_day: is -1, want more than 0
:6: agents.dev-qwen.budget: is empty, want tokens_per_day or usd_per_day
:9: threads.api.budget.tokens_per_day: is a fraction, want a whole number
:9: threads.api.budget.usd_per_day: is a string, want an amount of dollars such as 12.50`,
		},
		{
			name: "limits",
			text: worker + "limits = { pids = 20 }\n[agents.dev-qwen]\nlimits = { memory = \"31M\", pids = 15, cpu = 1 }\n",
			want: `:4: threads.llama.limits: unknown key: it belongs in [agents.NAME] or [services.NAME]
:6: agents.dev-qwen.limits.cpu: unknown key
:6: agents.dev-qwen.limits.memory: is 31M, want at least 32M
:6: agents.dev-qwen.limits.pids: is 15, want 16 to 4194304`,
		},
		{name: "limits of the wrong kind", text: worker + "[agents.dev-qwen]\nlimits = { memory = 8, pids = \"512\" }\n", want: `:5: agents.dev-qwen.limits.memory: is a number, want a size such as "512M" or "8G", or "0" for none
:5: agents.dev-qwen.limits.pids: is a string, want a whole number`},
		{
			name: "empty limits", text: worker + "[agents.dev-qwen]\nlimits = {}\n",
			want: `:5: agents.dev-qwen.limits: is empty, want memory or pids`,
		},
		{
			name: "negative duration", text: "[factory]\nstop_grace = \"-1s\"\n" + worker,
			want: `:2: factory.stop_grace: is -1s, want at least 0s`,
		},

		// [threads.X]
		{
			name: "no backend", text: "[threads.llama]\nagents = [\"dev-qwen\"]",
			want: `:1: threads.llama.backend: is not set, want ` + anyBackend,
		},
		{
			name: "unknown backend", text: "[threads.llama]\nbackend = \"locale\"",
			want: `:2: threads.llama.backend: is "locale", want ` + anyBackend,
		},
		{
			name: "an API by the name of its vendor", text: "[threads.gpt]\nbackend = \"openai\"",
			want: `:2: threads.gpt.backend: is "openai", want ` + anyBackend,
		},
		{
			name: "no slots", text: worker + "max_concurrent = 0",
			want: `:4: threads.llama.max_concurrent: is 0, want at least 1`,
		},
		{
			name: "too many slots", text: worker + "max_concurrent = 100000",
			want: `:4: threads.llama.max_concurrent: is 100000, want at most 1000`,
		},
		{
			name: "no sessions", text: worker + "overlap = true\nmax_sessions = 0",
			want: `:5: threads.llama.max_sessions: is 0, want at least 1`,
		},
		{
			name: "sessions without overlap", text: worker + "max_sessions = 3",
			want: `:4: threads.llama.max_sessions: is 3, want 1 like max_concurrent: without overlap a slot has one session`,
		},
		{
			name: "interval too short", text: worker + `interval = "5ms"`,
			want: `:4: threads.llama.interval: is 5ms, want at least 100ms`,
		},
		{
			name: "idle interval", text: worker + `idle_interval = "0s"`,
			want: `:4: threads.llama.idle_interval: is 0s, want at least 100ms`,
		},
		{
			name: "breaker interval", text: worker + `breaker_interval = ""`,
			want: `:4: threads.llama.breaker_interval: is "", want a duration such as "30s", "15m" or "2h"`,
		},
		{
			name: "hold on a shared thread", text: worker + "overlap = true\nhold = \"2m\"",
			want: `:5: threads.llama.hold: is 2m0s, and with overlap no slot keeps anything: want 0s, or overlap = false`,
		},
		{
			name: "hold for the server's memory", text: worker + "cache = \"server\"\nhold = \"2m\"",
			want: `:5: threads.llama.hold: is 2m0s, and with cache = "server" no slot keeps anything: want 0s, or cache = ` +
				`"slot"`,
		},
		{
			name: "hold for an hour", text: worker + `hold = "1h"`,
			want: `:4: threads.llama.hold: is 1h, want at most 15m: it is the time to read one context again`,
		},
		{name: "negative hold", text: worker + `hold = "-1m"`, want: `:4: threads.llama.hold: is -1m, want at least 0s`},
		{
			name: "cache of another kind", text: worker + `cache = "ram"`,
			want: `:4: threads.llama.cache: is "ram", want "slot" or "server"`,
		},
		{
			name: "cache of shared slots", text: worker + "overlap = true\ncache = \"server\"",
			want: `:5: threads.llama.cache: works without overlap on a "local" backend only: elsewhere no slot keeps a ` +
				`conversation`,
		},
		{
			name: "saved by an API",
			text: "[threads.api]\nbackend = \"api\"\noverlap = false\nkv_save = \"10G\"\nkv_folder = \"/kv\"",
			want: `:4: threads.api.kv_save: works without overlap on a "local" backend only: elsewhere no slot keeps a ` +
				`conversation`,
		},
		{
			name: "a folder without a limit", text: worker + `kv_folder = "/kv"`,
			want: `:4: threads.llama.kv_folder: is set without kv_save: add kv_save = "10G", or remove it`,
		},
		{
			name: "a limit without a folder", text: worker + "base_url = \"http://x\"\nkv_save = \"10G\"",
			want: `:1: threads.llama.kv_folder: is not set, want the server's --slot-save-path as this machine sees it: files ` +
				`are deleted there to stay within kv_save`,
		},
		{name: "saved by no server", text: worker + "kv_save = \"10G\"\nkv_folder = \"kv\"", want: `:4: threads.llama.kv_save: is set without base_url: the server at that address saves conversations
:5: threads.llama.kv_folder: is "kv", want an absolute path`},
		{
			name: "room for no conversation", text: worker + "base_url = \"http://x\"\nkv_save = \"10M\"\nkv_folder = \"/kv\"",
			want: `:5: threads.llama.kv_save: is 10M, want at least 256M`,
		},
		{
			name: "unknown executor", text: worker + `executor = "docker"`,
			want: `:4: threads.llama.executor: is "docker", want "process" or "nomad"`,
		},
		{
			name: "stop here", text: worker + `stop = "end"`,
			want: `:4: threads.llama.stop: has no effect without executor = "nomad": sessions without it run on this machine, ` +
				`and end with the supervisor`,
		},
		{
			name: "nodes here", text: worker + `node = ["node.class=gpu"]`,
			want: `:4: threads.llama.node: has no effect without executor = "nomad": sessions without it run on this machine, ` +
				`and end with the supervisor`,
		},
		{
			name: "no attribute", text: worker + "executor = \"nomad\"\nnode = [\"box2\"]",
			want: `:5: threads.llama.node: has "box2" in it, want an attribute, an operator of Nomad and a value, such as ` +
				`"meta.llama=box2" or "attr.nomad.version version >= 1.9"`,
		},
		{
			name: "attribute that interpolates", text: worker + "executor = \"nomad\"\nnode = [\"meta.a=${env.X}\"]",
			want: `:5: threads.llama.node: has "meta.a=${env.X}" in it, want an attribute, an operator of Nomad and a ` +
				`value, such as "meta.llama=box2" or "attr.nomad.version version >= 1.9"`,
		},
		{
			name: "operator without a value", text: worker + "executor = \"nomad\"\nnode = [\"meta.a >=\"]",
			want: `:5: threads.llama.node: has "meta.a >=" in it, want an attribute, an operator of Nomad and a value, such ` +
				`as "meta.llama=box2" or "attr.nomad.version version >= 1.9"`,
		},
		{
			name: "pool here", text: worker + `node_pool = "gpu"`,
			want: `:4: threads.llama.node_pool: has no effect without executor = "nomad": sessions without it run on this ` +
				`machine, and end with the supervisor`,
		},
		{
			name: "driver", text: worker + "executor = \"nomad\"\ndriver = \"podman\"",
			want: `:5: threads.llama.driver: is "podman", want "raw_exec", "exec" or "docker"`,
		},
		{
			name: "docker without an image", text: worker + "executor = \"nomad\"\ndriver = \"docker\"",
			want: `:5: threads.llama.driver: is "docker", which needs an image`,
		},
		{
			name: "image without docker", text: worker + "executor = \"nomad\"\nimage = \"a:1\"",
			want: `:5: threads.llama.image: has no effect without driver = "docker"`,
		},
		{
			name: "image that interpolates",
			text: worker + "executor = \"nomad\"\ndriver = \"docker\"\nimage = \"a:${env.X}\"",
			want: `:6: threads.llama.image: is "a:${env.X}", want an image such as "registry.example.org/disinto:1.0"`,
		},
		{
			name: "cores here", text: worker + "[agents.dev-qwen]\nlimits = { cores = 2 }",
			want: `:5: agents.dev-qwen.limits.cores: has no effect without executor = "nomad" in its thread`,
		},
		{
			name: "memory_max below memory",
			text: worker + "executor = \"nomad\"\n[agents.dev-qwen]\nlimits = { memory = \"2G\", memory_max = \"1G\" }",
			want: `:6: agents.dev-qwen.limits.memory_max: is 1G, want at least memory, which is 2G`,
		},
		{
			name: "exposed sessions",
			text: worker + "executor = \"nomad\"\n[agents.dev-qwen]\n[roles.dev]\ncommand = [\"a\"]\nsandbox = \"off\"",
			want: `:5: agents.dev-qwen.user: is not set, and role dev has no sandbox: on a node of Nomad a session with neither ` +
				`could read the tokens of the others`,
		},
		{
			name: "attribute twice", text: worker + "executor = \"nomad\"\nnode = [\"meta.a=1\", \"meta.a=2\"]",
			want: `:5: threads.llama.node: has meta.a twice, but a node has only one value of it`,
		},
		{
			name: "bad base URL", text: worker + `base_url = "localhost:8080"`,
			want: `:4: threads.llama.base_url: is "localhost:8080", want an address such as "http://localhost:8080/v1"`,
		},
		{
			name: "thread name", text: "[threads.\"a b\"]\nbackend = \"local\"",
			want: `:1: threads."a b": is not a valid name: want letters and digits, with - _ . between them`,
		},
		{
			name: "agent name", text: "[threads.a]\nbackend = \"local\"\nagents = [\"dev_qwen\"]",
			want: `:3: threads.a.agents: has "dev_qwen" in it, want names of lower-case letters and digits, single hyphens ` +
				`between them`,
		},
		{
			name: "agent twice", text: "[threads.a]\nbackend = \"local\"\nagents = [\"dev-x\", \"dev-x\"]",
			want: `:3: threads.a.agents: has "dev-x" twice`,
		},
		{
			name: "agent on two threads",
			text: "[threads.z]\nbackend = \"local\"\nagents = [\"dev-x\"]\n[threads.a]\nbackend = \"local\"\n" +
				"agents = [\"dev-x\"]", want: `:6: threads.a.agents: has dev-x in it, which is on thread z already`,
		},
		{
			name: "bad glob", text: worker + `env_allow = ["A["]`,
			want: `:4: threads.llama.env_allow: has "A[" in it, want names or globs of environment variables`,
		},
		{
			name: "no variable name", text: worker + `env_deny = ["A=b"]`,
			want: `:4: threads.llama.env_deny: has "A=b" in it, want names or globs of environment variables`,
		},

		// [nomad]
		{
			name: "nomad's address", text: worker + "[nomad]\naddress = \"box:4646\"",
			want: `:5: nomad.address: is "box:4646", want an address such as "http://127.0.0.1:4646"`,
		},
		{name: "nomad's token", text: worker + "[nomad]\ntoken = \"$NO_SUCH\"", want: `:5: nomad.token: $NO_SUCH is not set`},
		{
			name: "namespace", text: worker + "[nomad]\nnamespace = \"a/b\"",
			want: `:5: nomad.namespace: is "a/b", want letters, digits, dashes and underscores`,
		},
		{
			name: "datacenter", text: worker + "[nomad]\ndatacenters = [\"a b\"]",
			want: `:5: nomad.datacenters: has "a b" in it, want names; * stands for any text`,
		},
		{
			name: "ca by a relative path", text: worker + "[nomad]\naddress = \"https://a:4646\"\nca_cert = \"ca.pem\"",
			want: `:6: nomad.ca_cert: is "ca.pem", want the absolute path of a PEM file`,
		},
		{
			name: "ca without https", text: worker + "[nomad]\nca_cert = \"/ca.pem\"",
			want: `:5: nomad.ca_cert: has no effect without an address that starts with https`,
		},
		{
			name: "certificate without a key", text: worker + "[nomad]\naddress = \"https://a:4646\"\nclient_cert = \"/c.pem\"",
			want: `:6: nomad.client_cert: is set without client_key, or client_key without it: set both, or neither`,
		},
		{
			name: "program by name", text: worker + "[nomad]\nprogram = \"disinto\"",
			want: `:5: nomad.program: is "disinto", want the absolute path of disinto on the nodes`,
		},

		// [agents.X]
		{
			name: "agent on no thread", text: worker + "[agents.dev-gpt]\nrole = \"dev\"",
			want: `:4: agents.dev-gpt: is in no thread's agents: in line 3, below [threads.llama], want agents = ["dev-qwen", ` +
				`"dev-gpt"]`,
		},
		{
			name: "agent that names its thread",
			text: worker + "[threads.api]\nbackend = \"api\"\n[agents.dev-gpt]\nthread = \"api\"",
			want: `:6: agents.dev-gpt: is in no thread's agents: add agents = ["dev-gpt"] below [threads.api], line 4`,
		},
		{
			name: "thread in the table of an agent", text: worker + "[agents.dev-qwen]\nthread = \"llama\"",
			want: `:5: agents.dev-qwen.thread: is not a key of an agent: threads list their agents, and dev-qwen is on llama`,
		},
		{
			name: "agent misspelt", text: worker + "[agents.dev-qwne]\nrole = \"dev\"",
			want: `:4: agents.dev-qwne: is in no thread's agents, did you mean dev-qwen?`,
		},
		{
			name: "upstream's schedule", text: worker + "[agents.schedule]\nplanner_interval = 1",
			want: `:4: agents.schedule: is upstream's table of intervals, not an agent: write every = "6h" in the table of ` +
				`a role`,
		},
		{
			name: "role and roles", text: worker + "[agents.dev-qwen]\nrole = \"dev\"\nroles = [\"dev\"]",
			want: `:5: agents.dev-qwen.role: is set, and roles is too: want one of them`,
		},
		{
			name: "no roles", text: worker + "[agents.dev-qwen]\nroles = []",
			want: `:5: agents.dev-qwen.roles: is empty, want at least one role`,
		},
		{name: "empty role", text: worker + "[agents.dev-qwen]\nrole = \"\"", want: `:5: agents.dev-qwen.role: is empty`},
		{
			name: "role twice", text: worker + "[agents.dev-qwen]\nroles = [\"dev\", \"dev\"]",
			want: `:5: agents.dev-qwen.roles: has "dev" twice`,
		},
		{
			name: "role misspelt", text: worker + "[agents.dev-qwen]\nrole = \"deb\"",
			want: `:5: agents.dev-qwen.role: "deb" is not a built-in role and has no table, did you mean dev?`,
		},
		{
			name: "unknown roles", text: worker + "[agents.dev-qwen]\nroles = [\"dev\", \"writer\"]",
			want: `:5: agents.dev-qwen.roles: "writer" is not a built-in role and has no table: add [roles.writer] with on = ` +
				`"issue", "review" or "schedule"`,
		},
		{
			name: "unknown role by name", text: "[threads.a]\nbackend = \"local\"\nagents = [\"writer-x\"]",
			want: `:3: agents.writer-x.role: "writer" is not a built-in role and has no table: add [roles.writer] with on = ` +
				`"issue", "review" or "schedule"`,
		},
		{
			name: "no role by name", text: "[threads.a]\nbackend = \"local\"\nagents = [\"qwen\"]",
			want: `:3: agents.qwen.role: is not set, and qwen does not start with a role, as dev-qwen does`,
		},
		{
			name: "no role in the table", text: "[threads.a]\nbackend = \"local\"\nagents = [\"qwen\"]\n[agents.qwen]",
			want: `:4: agents.qwen.role: is not set, and qwen does not start with a role, as dev-qwen does`,
		},
		{
			name: "agent's variable missing", text: worker + "[agents.dev-qwen]\ntoken = \"$NOPE\"",
			want: `:5: agents.dev-qwen.token: $NOPE is not set`,
		},
		{
			name: "login", text: worker + "[agents.dev-qwen]\nforge_user = \"../qwen\"",
			want: `:5: agents.dev-qwen.forge_user: is "../qwen", which cannot be a login`,
		},
		{
			name: "login of two",
			text: "[threads.a]\nbackend = \"local\"\nagents = [\"dev-x\", \"dev-y\"]\n[agents.dev-y]\nforge_user = \"Dev-X\"",
			want: `:5: agents.dev-y.forge_user: is "Dev-X", which dev-x has too: give each agent an account of its own`,
		},
		{
			name: "login of one without a key",
			text: "[threads.a]\nbackend = \"local\"\nagents = [\"dev-x\", \"dev-a\"]\n[agents.dev-a]\nforge_user = \"dev-x\"",
			want: `:3: agents.dev-x.forge_user: is "dev-x", which dev-a has too: give each agent an account of its own`,
		},
		{
			name: "agent is a bot", text: "[forge]\nbots = [\"dev-qwen\"]\n" + worker,
			want: `:2: forge.bots: has "dev-qwen" in it, the account of dev-qwen here: bots are the agents of other hosts`,
		},
		{
			name: "agent's base URL", text: worker + "[agents.dev-qwen]\nbase_url = \"x\"",
			want: `:5: agents.dev-qwen.base_url: is "x", want an address such as "http://localhost:8080/v1"`,
		},

		// [roles.X]
		{
			name: "no trigger", text: worker + "[agents.dev-qwen]\nrole = \"writer\"\n[roles.writer]\nlabel = \"docs\"",
			want: `:6: roles.writer.on: is not set, want "issue", "review" or "schedule"`,
		},
		{
			name: "unknown trigger", text: worker + "[roles.dev]\non = \"issues\"",
			want: `:5: roles.dev.on: is "issues", want "issue", "review" or "schedule", did you mean issue?`,
		},
		{
			name: "renamed from a thread that is there", text: worker + "renamed_from = \"llama\"",
			want: `:4: threads.llama.renamed_from: is "llama", and the file still has [threads.llama]: want a name that is gone`,
		},
		{
			name: "two with one old name", text: worker + "renamed_from = \"old\"\n[threads.b]\nbackend = \"local\"\n" +
				"renamed_from = \"old\"\nagents = [\"dev-b\"]",
			want: `:4: threads.llama.renamed_from: is "old", which is that of b too: want one of them`,
		},
		{
			name: "fallback to an unknown thread", text: worker + "fallback = [\"lama\"]",
			want: `:4: threads.llama.fallback: names "lama", which is no thread, did you mean llama?`,
		},
		{
			name: "fallback in a circle", text: worker + "fallback = [\"b\"]\n[threads.b]\nbackend = \"local\"\n" +
				"fallback = [\"llama\"]\nagents = [\"dev-b\"]",
			want: `:4: threads.llama.fallback: names "b", which falls back to llama: want no circle` + "\n" +
				`:7: threads.b.fallback: names "llama", which falls back to b: want no circle`,
		},
		{
			name: "schedule without every",
			text: worker + "[agents.dev-qwen]\nrole = \"writer\"\n[roles.writer]\non = \"schedule\"",
			want: `:6: roles.writer.every: is not set, but on is "schedule": want a duration such as "6h", or cron`,
		},
		{
			name: "cron beside every", text: worker + "[roles.planner]\nevery = \"6h\"\ncron = \"@daily\"",
			want: `:6: roles.planner.cron: is set, and every is too: want one of them`,
		},
		{
			name: "cron of six fields", text: worker + "[roles.planner]\ncron = \"* * * * * *\"",
			want: `:5: roles.planner.cron: is "* * * * * *", which cannot be read (expected exactly 5 fields, found 6: ` +
				`[* * * * * *]): want five fields such as "0 3 * * 1-5", or a word such as "@daily"`,
		},
		{
			name: "cron with an interval", text: worker + "[roles.planner]\ncron = \"@every 6h\"",
			want: `:5: roles.planner.cron: is "@every 6h", which is an interval, for the key every: want five fields such ` +
				`as "0 3 * * 1-5", or a word such as "@daily"`,
		},
		{
			name: "cron that never comes", text: worker + "[roles.planner]\ncron = \"0 3 31 2 *\"",
			want: `:5: roles.planner.cron: is "0 3 31 2 *", which never falls due: want five fields such as "0 3 * * 1-5", ` +
				`or a word such as "@daily"`,
		},
		{
			name: "unknown time zone", text: worker + "[roles.planner]\ncron = \"@daily\"\ntimezone = \"Europe/Bonn\"",
			want: `:6: roles.planner.timezone: is "Europe/Bonn", want a time zone such as "Europe/Berlin"`,
		},
		{
			name: "time zone without cron", text: worker + "[roles.planner]\ntimezone = \"UTC\"",
			want: `:5: roles.planner.timezone: is set, and cron is not: it belongs to cron's times`,
		},
		{
			name: "cron without schedule", text: worker + "[roles.dev]\ncron = \"@daily\"",
			want: `:5: roles.dev.cron: is set, but on is "issue": only a role with on = "schedule" has it`,
		},
		{
			name: "every without schedule", text: worker + "[roles.dev]\nevery = \"6h\"",
			want: `:5: roles.dev.every: is set, but on is "issue": only a role with on = "schedule" has it`,
		},
		{
			name: "every too short", text: worker + "[roles.planner]\nevery = \"1ms\"",
			want: `:5: roles.planner.every: is 1ms, want at least 1s`,
		},
		{
			name: "label on a schedule", text: worker + "[roles.planner]\nlabel = \"x\"",
			want: `:5: roles.planner.label: is set, but on is "schedule": such work has no labels`,
		},
		{
			name: "waiting reviewer", text: worker + "[roles.review]\nwaits_for_review = true",
			want: `:5: roles.review.waits_for_review: is set, but on is "review": only a role with on = "issue" has work to ` +
				`be reviewed`,
		},
		{
			name: "priority too low", text: worker + "[roles.dev]\npriority = 0",
			want: `:5: roles.dev.priority: is 0, want at least 1`,
		},
		{
			name: "priority too high", text: worker + "[roles.dev]\npriority = 11",
			want: `:5: roles.dev.priority: is 11, want 1 (first) to 10 (last)`,
		},
		{
			name: "role without an agent", text: worker + "[roles.writer]\non = \"issue\"",
			want: `:4: roles.writer: no agent has this role`,
		},
		{
			name: "role misspelt in its table", text: worker + "[roles.dve]\non = \"issue\"",
			want: `:4: roles.dve: no agent has this role, did you mean dev?`,
		},
		{
			name: "role name", text: worker + "[agents.dev-qwen]\nrole = \"a b\"\n[roles.\"a b\"]\non = \"issue\"",
			want: `:6: roles."a b": is not a valid name: want letters and digits, with - _ . between them`,
		},
		{
			name: "command is a string", text: worker + "[roles.dev]\ncommand = \"dev-agent.sh\"",
			want: `:5: roles.dev.command: is a string, want a list such as ["dev/dev-agent.sh", "{{.Number}}"]`,
		},
		{
			name: "unknown cli", text: worker + "[roles.dev]\ncli = \"claud\"",
			want: `:5: roles.dev.cli: is "claud", want ` + anyCLI + `, did you mean claude?`,
		},
		{
			name: "cli and command", text: worker + "[roles.dev]\ncli = \"qwen\"\ncommand = [\"x\"]",
			want: `:6: roles.dev.command: is set, and cli is too: want one of them`,
		},
		{
			name: "unknown prompt", text: worker + "[roles.dev]\ncommand = [\"x\"]\nprompt = \"stdn\"",
			want: `:6: roles.dev.prompt: is "stdn", want "stdin" or "file", did you mean stdin?`,
		},
		{
			name: "acp without its agent", text: worker + "[roles.dev]\ncli = \"acp\"\nmax_tokens = 5",
			want: `:5: roles.dev.cli: is "acp", and acp is not set: want the agent with its arguments, such as ` +
				`acp = ["gemini", "--acp"]
:6: roles.dev.max_tokens: is set, and cli is "acp": such agents report no tokens: want max_usd, if it reports its cost`,
		},
		{
			name: "acp without cli", text: worker + "[roles.dev]\nacp = [\"gemini\", \"--acp\"]",
			want: `:5: roles.dev.acp: is set, and cli is not: want cli = "acp"`,
		},
		{
			name: "acp reviews", text: worker + "[roles.dev]\non = \"review\"\ncli = \"acp\"\nacp = [\"gemini\", 1, \"{{.X}}\"]",
			want: `:6: roles.dev.cli: is "acp", and on is "review": nothing would keep the agent from the settings of a ` +
				`stranger's branch
:7: roles.dev.acp: "{{.X}}": unknown field .X, want one of .Repo .Number .Issue .Agent .Role .Thread ` +
				`.Model .Kind
:7: roles.dev.acp: has a number in it, want a list such as ["dev/dev-agent.sh", "{{.Number}}"]`,
		},
		{
			name: "prompt and cli", text: worker + "[roles.dev]\ncli = \"qwen\"\nprompt = \"stdin\"",
			want: `:6: roles.dev.prompt: is set, and cli is too: want prompt beside command`,
		},
		{
			name: "prompt without command", text: worker + "[roles.dev]\nprompt = \"stdin\"",
			want: `:5: roles.dev.prompt: is set, and command is not: want the program that gets the prompt`,
		},
		{
			name: "prompt and cwd", text: worker + "[roles.dev]\ncommand = [\"x\"]\nprompt = \"file\"\ncwd = \"/x\"",
			want: `:7: roles.dev.cwd: is set, and prompt is too: the built-in program works in the workspace of its item`,
		},
		{
			name: "cli and cwd", text: worker + "[roles.dev]\ncli = \"qwen\"\ncwd = \"/x\"",
			want: `:6: roles.dev.cwd: is set, and cli is too: the built-in program works in the workspace of its item`,
		},
		{
			name: "cli waits for review", text: worker + "[roles.dev]\ncli = \"qwen\"\nwaits_for_review = true",
			want: `:6: roles.dev.waits_for_review: is set, and cli is too: the built-in program ends when its pull request ` +
				`is open`,
		},
		{
			name: "command is empty", text: worker + "[roles.dev]\ncommand = []",
			want: `:5: roles.dev.command: is empty, want a list such as ["dev/dev-agent.sh", "{{.Number}}"]`,
		},
		{
			name: "program is empty", text: worker + "[roles.dev]\ncommand = [\" \", \"x\"]",
			want: `:5: roles.dev.command: has an empty program`,
		},
		{
			name: "number in a command", text: worker + "[roles.dev]\ncommand = [\"x\", 1]",
			want: `:5: roles.dev.command: has a number in it, want a list such as ["dev/dev-agent.sh", "{{.Number}}"]`,
		},
		{
			name: "unknown field", text: worker + "[roles.dev]\ncommand = [\"x\", \"{{.Num}}\"]",
			want: `:5: roles.dev.command: "{{.Num}}": unknown field .Num, want one of .Repo .Number .Issue .Agent .Role ` +
				`.Thread .Model .Kind`,
		},
		{
			name: "template syntax", text: worker + "[roles.dev]\ncommand = [\"{{.Number\"]",
			want: `:5: roles.dev.command: "{{.Number": unclosed action`,
		},
		{
			name: "timeout", text: worker + "[roles.dev]\ntimeout = \"0s\"",
			want: `:5: roles.dev.timeout: is 0s, want at least 1ms`,
		},
		{
			name: "stall", text: worker + "[roles.dev]\nstall = \"soon\"",
			want: `:5: roles.dev.stall: is "soon", want a duration such as "30s", "15m" or "2h"`,
		},
		{
			name: "role's patterns", text: worker + "[roles.dev]\nenv_allow = [\"[\"]\nenv_deny = [\"[\"]",
			want: ":5: roles.dev.env_allow: has \"[\" in it, want names or globs of environment variables\n" +
				":6: roles.dev.env_deny: has \"[\" in it, want names or globs of environment variables",
		},

		// Sessions that wait for each other.
		{
			name: "reviewer on the thread of the waiting agent",
			want: `:4: threads.a.agents: dev-x would wait for a review in its only slot, and only agents of the same thread ` +
				`may review: put a reviewer on another thread`,
			text: "[threads.a]\nbackend = \"anthropic\"\noverlap = false\nagents = [\"dev-x\", \"review-x\"]\n[roles.dev]\n" +
				"waits_for_review = true",
		},
		{
			name: "two waiting agents and two slots",
			want: `:5: threads.a.agents: dev-x and dev-y would wait for a review in all of its 2 slots, and only agents of ` +
				`the same thread may review: put a reviewer on another thread`,
			text: "[threads.a]\nbackend = \"anthropic\"\noverlap = false\nmax_concurrent = 2\n" +
				"agents = [\"dev-x\", \"dev-y\", \"review-x\"]\n[roles.dev]\nwaits_for_review = true",
		},
		{
			name: "one session on an overlapping thread",
			want: `:4: threads.a.agents: dev-x would wait for a review in its only slot, and only agents of the same thread ` +
				`may review: put a reviewer on another thread`,
			text: "[threads.a]\nbackend = \"anthropic\"\nmax_sessions = 1\nagents = [\"dev-x\", \"review-x\"]\n[roles.dev]\n" +
				"waits_for_review = true",
		},

		{
			name: "everything at once, in the order of the file",
			text: "[threads.b]\nbackend = \"cloud\"\nagents = [\"dev-x\"]\nmax_concurrent = 0\n\n[forge]\nrepos = [\"x\"]\n" +
				"token = \"$NOPE\"\n\n[agents.dev-x]\nrole = \"deb\"\n",
			env: env(),
			want: `:2: threads.b.backend: is "cloud", want ` + anyBackend + "\n" +
				`:4: threads.b.max_concurrent: is 0, want at least 1` + "\n" +
				`:6: forge.url: is not set, and $FORGE_URL is not either` + "\n" +
				`:7: forge.repos: has "x" in it, want "owner/name"` + "\n" +
				`:8: forge.token: $NOPE is not set` + "\n" +
				`:11: agents.dev-x.role: "deb" is not a built-in role and has no table, did you mean dev?`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lookup := tt.env
			if lookup == nil {
				lookup = inContainer
			}
			config, err := Decode("factory.toml", tt.text, lookup)
			if err == nil {
				t.Fatal("Decode returned no error")
			}
			if config != nil {
				t.Error("Decode returned a configuration and an error")
			}
			want := "factory.toml" + strings.ReplaceAll(tt.want, "\n", "\nfactory.toml")
			if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("mistakes of\n%s\n(-want +got):\n%s", tt.text, diff)
			}
		})
	}
}

func TestMistakesAsErrors(t *testing.T) {
	_, err := Decode("f.toml", "a = 1\nb = 2", inContainer)
	var one Mistake
	var all Mistakes
	if !errors.As(err, &all) || len(all) != 3 || !errors.As(err, &one) || one != all[0] {
		t.Fatalf("got %d mistakes, want 3; the first is %v, of %v", len(all), one, err)
	}
	if joined := errors.Join(err, errors.New("more")); !errors.Is(joined, all[2]) {
		t.Errorf("%v is not in %v", all[2], joined)
	}
}

// TestNotMistakes decodes valid texts that resemble those of TestMistakes.
func TestNotMistakes(t *testing.T) {
	for name, text := range map[string]string{
		"thread without agents":     "[threads.a]\nbackend = \"local\"",
		"sessions as many as slots": worker + "max_concurrent = 2\nmax_sessions = 2",
		"table of a built-in role":  worker + "[roles.planner]\nevery = \"1h\"",
		"empty base URL":            worker + "base_url = \"\"",
		"upstream's agent": worker +
			"[agents.dev-qwen]\nbase_url = \"http://x\"\napi_key = \"sk-no-key-required\"\nroles = [\"dev\"]\n" +
			"forge_user = \"dev-qwen\"\ncompact_pct = 60\npoll_interval = 60",
		"no CI fixes":             "[forge]\nmax_ci_fixes = 0\n" + worker,
		"no grace":                "[factory]\nstop_grace = \"0s\"\n" + worker,
		"days":                    "[factory]\nkeep = \"1d\"\nkeep_workspaces = \"0s\"\nmax_log = \"0\"\n" + worker,
		"hook secret with spaces": "[forge]\nwebhook_secret = \"$HOOK\"\n" + worker,
		"reviewer on another thread": "[threads.a]\nbackend = \"local\"\nagents = [\"dev-x\"]\n[threads.b]\n" +
			"backend = \"anthropic\"\nagents = [\"review-x\"]\n[roles.dev]\nwaits_for_review = true",
		"a slot beside the one that waits": "[threads.a]\nbackend = \"anthropic\"\noverlap = false\nmax_concurrent = 2\n" +
			"agents = [\"dev-x\", \"review-x\"]\n[roles.dev]\nwaits_for_review = true",
		"people review":       worker + "[roles.dev]\nwaits_for_review = true",
		"byte order mark":     "\ufeff" + worker,
		"windows":             strings.ReplaceAll(worker, "\n", "\r\n"),
		"a custom role":       worker + "[agents.dev-qwen]\nrole = \"writer\"\n[roles.writer]\non = \"issue\"",
		"inline agents":       "agents = { dev-qwen = { model = \"x\" } }\n" + worker,
		"role turned around":  worker + "[roles.dev]\non = \"schedule\"\nevery = \"1h\"",
		"planner from issues": worker + "[roles.planner]\non = \"issue\"\nlabel = \"plan\"",
	} {
		if _, err := Decode("factory.toml", text, inContainer); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDefaults checks the defaults of section 9 of the design.
func TestDefaults(t *testing.T) {
	text := "[threads.llama]\nbackend = \"local\"\nagents = [\"dev-qwen\", \"gardener-qwen\"]\nmax_concurrent = 3\n" +
		"[threads.opus]\nbackend = \"anthropic\"\nagents = [\"review-opus\", \"planner-opus\"]\n[threads.spare]\n" +
		"backend = \"anthropic\""
	got, err := Decode("factory.toml", text, env("FORGE_URL", "http://forgejo:3000/", "FORGE_REPO", "johba/harb, a/b,a/b",
		"FORGE_TOKEN", "s", "FORGE_TOKEN_DEV_QWEN", "q"))
	if err != nil {
		t.Fatal(err)
	}
	role := func(name string, on agents.On, every time.Duration) agents.Role {
		return agents.Role{
			Name: name, On: on, Every: every, Priority: 5, Timeout: 2 * time.Hour, Stall: 15 * time.Minute,
			Sandbox: agents.Sandbox{Mode: agents.SandboxAuto},
		}
	}
	thread := func(th threads.Thread) threads.Thread {
		th.Interval, th.IdleInterval, th.BreakerInterval = 5*time.Second, 30*time.Second, 5*time.Minute
		th.Fallback = true
		return th
	}
	want := &threads.Config{
		Name: "factory.toml",
		Forge: threads.Forge{
			URL: "http://forgejo:3000", Token: "s", Repos: []string{"a/b", "johba/harb"}, MergeAuto: true,
			MaxUnreviewed: 3, MaxUnseen: 1 << 20, MaxReviewRounds: 5, MaxCIFixes: 3,
			MaxReviewsHour: 6, MaxSessionsDay: 100,
		},
		Factory: threads.Factory{
			StopGrace: 7 * time.Second, MinFreeMemory: 512 << 20, MinFreeDisk: 1 << 30,
			MaxLog: 64 << 20, Keep: 30 * 24 * time.Hour, KeepWorkspaces: 2 * 24 * time.Hour,
		},
		Threads: []threads.Thread{
			thread(threads.Thread{
				Name: "llama", Backend: threads.Local, Slots: 3, MaxSessions: 3,
				Agents: []string{"dev-qwen", "gardener-qwen"},
			}),
			thread(threads.Thread{
				Name: "opus", Backend: threads.API, Slots: 1, Overlap: true, MaxSessions: 2,
				Agents: []string{"planner-opus", "review-opus"},
			}),
			thread(threads.Thread{Name: "spare", Backend: threads.API, Slots: 1, Overlap: true, MaxSessions: 1}),
		},
		Agents: []agents.Agent{
			{Name: "dev-qwen", Login: "dev-qwen", Roles: []string{"dev"}, Thread: "llama", Token: "q"},
			{Name: "gardener-qwen", Login: "gardener-qwen", Roles: []string{"gardener"}, Thread: "llama"},
			{Name: "planner-opus", Login: "planner-opus", Roles: []string{"planner"}, Thread: "opus"},
			{Name: "review-opus", Login: "review-opus", Roles: []string{"review"}, Thread: "opus"},
		},
		Roles: []agents.Role{
			role("dev", agents.OnIssue, 0), role("gardener", agents.OnSchedule, time.Hour),
			role("planner", agents.OnSchedule, 12*time.Hour), role("review", agents.OnReview, 0),
		},
		Notify: threads.Notify{On: []threads.Topic{"budget", "down", "needs-human", "parked"}},
		Nomad: threads.Nomad{
			Address: "http://127.0.0.1:4646", Namespace: "default", Datacenters: []string{"*"},
			Program: "/usr/local/bin/disinto",
		},
		Stealing: true,
		Secrets: []agents.SecretVar{
			{Name: "FORGE_TOKEN", Value: "s"},
			{Name: "FORGE_TOKEN_DEV_QWEN", Value: "q", Agent: "dev-qwen"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A key of an older version is not refused, whatever its value. It is listed, with its line.
func TestRemovedKeys(t *testing.T) {
	for key, text := range map[string]string{
		"factory.decide": "[factory]\ndecide = \"shadow:/opt/new\"",
		"factory.eta":    "[factory]\neta = true",
		// rework that went to another agent earlier than now, or at the same time
		"threads.llama.affinity_wait": "affinity_wait = \"0s\"",
		"forge.rework_wait":           "[forge]\nrework_wait = \"30m\"",
		// numbers that moved as many issues as now, or more
		"stealing.every":        "[stealing]\nevery = \"5m\"",
		"stealing.idle":         "[stealing]\nidle = \"2m\"",
		"stealing.busy":         "[stealing]\nbusy = 5",
		"stealing.priority":     "[stealing]\npriority = 5",
		"stealing.any_priority": "[stealing]\nany_priority = 8",
	} {
		name, _, _ := strings.Cut(text, " = ")
		for _, text := range []string{text, name + ` = ""`, name + " = 1"} {
			c, err := Decode("factory.toml", worker+text, inContainer)
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			if len(c.Removed) != 1 || c.Removed[0].Key != key || c.Removed[0].Line < 4 ||
				!strings.Contains(c.Removed[0].Advice, "remove it") {
				t.Errorf("%s: got %+v, want %s in line 5", text, c.Removed, key)
			}
		}
	}
}

// A key of an older version that restricted more than its absence does is a mistake.
func TestRemovedRestrictions(t *testing.T) {
	for text, want := range map[string]string{
		"[forge]\nrework_wait = \"31m\"":            "goes to another agent after 30m, earlier than this key asks; remove",
		"affinity_wait = \"1m\"":                    "takes an issue at once, earlier than this key asks; remove",
		"[stealing]\nevery = \"6m\"":                "issues move every 5m, more than this key allows; remove it, or",
		"[stealing]\nidle = \"121s\"":               "an agent is idle after 2m without a session, more",
		"[stealing]\nbusy = 6":                      "an agent is busy with more than 5 issues that",
		"[stealing]\npriority = 6":                  "issues of priority 5 and less urgent ones move, more",
		"[stealing]\nany_priority = 9":              "issues without a skill label move from priority 8 on, more",
		"[stealing]\nper_agent = 2":                 "up to 3 issues at a time move to an agent, more",
		"[stealing]\nper_cycle = 9":                 "up to 10 issues move at a time, more",
		"[stealing]\nenabled = true\nper_cycle = 0": "stealing.per_cycle: no longer used: up to 10 issues",
		"[agents.dev-qwen]\napi_key = \"$SECRET\"":  "no longer keeps $SECRET from other agents: remove it, and",
	} {
		if _, err := Decode("factory.toml", worker+text, inContainer); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// The old numbers of [stealing] are no mistakes where they allowed more than now, or where nothing moves.
func TestRemovedStealing(t *testing.T) {
	const numbers = "every = %q\nidle = %q\nbusy = %d\npriority = %d\nany_priority = %d\nper_agent = %d\nper_cycle = %d"
	for text, enabled := range map[string]bool{
		fmt.Sprintf(numbers, "1m", "1s", 0, 1, 1, 4, 11):                        true,
		fmt.Sprintf(numbers, "5m", "2m", 5, 5, 8, 3, 10):                        true,
		"enabled = false\n" + fmt.Sprintf(numbers, "1h", "1h", 9, 10, 10, 1, 0): false,
	} {
		c, err := Decode("factory.toml", worker+"[stealing]\n"+text, inContainer)
		if err != nil {
			t.Error(err)
			continue
		}
		if c.Stealing != enabled || len(c.Removed) != 7 || strings.HasPrefix(c.Removed[0].Advice, "no issue") == enabled {
			t.Errorf("%s: got stealing %t, removed keys %+v", text, c.Stealing, c.Removed)
		}
	}
}

// TestUnreviewedDefault checks that the limit is higher where people review: they have more patience than tokens.
func TestUnreviewedDefault(t *testing.T) {
	const reviewer = "[threads.opus]\nbackend = \"anthropic\"\nagents = [\"review-opus\"]\n"
	for text, want := range map[string]int{
		worker:                                   10,
		worker + reviewer:                        3,
		"[forge]\nmax_unreviewed = 2\n" + worker: 2,
		worker + "[roles.dev]\non = \"review\"":  3,
	} {
		got, err := Decode("factory.toml", text, inContainer)
		if err != nil {
			t.Fatal(err)
		}
		if got.Forge.MaxUnreviewed != want {
			t.Errorf("max_unreviewed is %d, want %d, in\n%s", got.Forge.MaxUnreviewed, want, text)
		}
	}
}

// TestSandboxKeys decodes a sandbox in [factory], and roles that extend it, change its mode or turn it off.
func TestSandboxKeys(t *testing.T) {
	text := worker + "[factory]\nsandbox_read = [\"/srv/data/\"]\nsandbox_connect = [5432]\n" +
		"[roles.dev]\nsandbox = \"strict\"\nsandbox_write = [\"/cache\"]\nsandbox_connect = \"any\"\n" +
		"[agents.dev-qwen]\nroles = [\"dev\", \"planner\", \"tester\"]\n[roles.planner]\nsandbox = \"off\"\n" +
		"[roles.tester]\non = \"issue\"\ncli = \"claude\"\nsandbox_connect = \"ephemeral\"\nlisten = [3100, \"8000-8999\"]\n"
	c, err := Decode("factory.toml", text, inContainer)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]agents.Sandbox{
		"dev": {
			Mode: agents.SandboxStrict, Read: []string{"/srv/data"}, Write: []string{"/cache"}, Connect: []int{5432},
			AnyPort: true,
		},
		"tester": {
			Mode: agents.SandboxAuto, Read: []string{"/srv/data"}, Connect: []int{5432}, Ephemeral: true,
			Listen: []agents.Ports{{First: 3100, Last: 3100}, {First: 8000, Last: 8999}},
		},
		"planner": {Mode: agents.SandboxOff, Read: []string{"/srv/data"}, Connect: []int{5432}},
	} {
		if diff := cmp.Diff(want, c.Role(name).Sandbox); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestSecrets checks the owners of the secrets that the file names.
func TestSecrets(t *testing.T) {
	text := "[forge]\ntoken = \"literal\"\nwebhook_secret = \"$HOOK\"\n" + worker +
		"[agents.dev-qwen]\ntoken = \"$MINE\""
	got, err := Decode("factory.toml", text, env("FORGE_URL", "http://f", "FORGE_REPO", "a/b", "HOOK", "h", "MINE", "m"))
	if err != nil {
		t.Fatal(err)
	}
	want := []agents.SecretVar{
		{Value: "literal"},
		{Name: "HOOK", Value: "h"},
		{Name: "MINE", Value: "m", Agent: "dev-qwen"},
	}
	if diff := cmp.Diff(want, got.Secrets); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Agents[0].Token != "m" || got.Forge.WebhookSecret != "h" || got.Forge.Token != "literal" {
		t.Errorf("tokens %q %q %q", got.Agents[0].Token.Reveal(), got.Forge.WebhookSecret.Reveal(), got.Forge.Token.Reveal())
	}
}
