package agents

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// session returns a session of dev-qwen on a local thread, in a factory with other agents and a web hook.
func session() *Env {
	return &Env{
		RunID:      "f00d-17",
		Agent:      Agent{Name: "dev-qwen", Login: "qwen", Model: "qwen3.5", Token: "token-of-dev-qwen"},
		Role:       Role{Name: "dev"},
		Kind:       KindIssue,
		Repo:       "johba/harb",
		Number:     12,
		Attempt:    2,
		Thread:     "llama",
		Backend:    "local",
		BaseURL:    "http://localhost:8080/v1",
		Slot:       1,
		ForgeURL:   "http://forgejo:3000",
		ForgeAPI:   "http://forgejo:3000/api/v1/repos/johba/harb",
		Home:       "/var/lib/disinto/home/dev-qwen",
		Workspace:  "/var/lib/disinto/work/harb-12",
		ResultPath: "/var/lib/disinto/runs/f00d-17.json",
		Cause:      "plan", Comments: []int64{7, 12}, MaxUnseen: 4096,
		Secrets: []SecretVar{
			{Name: "FORGE_TOKEN", Value: "token-of-supervisor"},
			{Name: "HOOK", Value: "hook-secret"},
			{Name: "QWEN", Value: "token-of-dev-qwen", Agent: "dev-qwen"},
			{Name: "SONNET", Value: "token-of-review", Agent: "review-sonnet"},
			{Value: "literal-of-planner", Agent: "planner-sonnet"},
			{Name: "PIN", Value: "1234", Agent: "review-sonnet"},
		},
	}
}

func TestEnvironContract(t *testing.T) {
	want := []string{
		"DISINTO_AGENT=dev-qwen",
		"DISINTO_ATTEMPT=2",
		"DISINTO_BACKEND=local",
		"DISINTO_BASE_URL=http://localhost:8080/v1",
		"DISINTO_CAUSE=plan",
		"DISINTO_COMMENTS=7,12",
		"DISINTO_INBOX=/var/lib/disinto/runs/f00d-17.inbox",
		"DISINTO_KIND=issue",
		"DISINTO_MAX_UNSEEN=4096",
		"DISINTO_MODEL=qwen3.5",
		"DISINTO_NUMBER=12",
		"DISINTO_READERS=collaborators",
		"DISINTO_REPO=johba/harb",
		"DISINTO_RESULT=/var/lib/disinto/runs/f00d-17.json",
		"DISINTO_ROLE=dev",
		"DISINTO_RUN_ID=f00d-17",
		"DISINTO_SLOT=1",
		"DISINTO_THREAD=llama",
		"DISINTO_WORKSPACE=/var/lib/disinto/work/harb-12",
		"FORGE_API=http://forgejo:3000/api/v1/repos/johba/harb",
		"FORGE_REPO=johba/harb",
		"FORGE_TOKEN=token-of-dev-qwen",
		"FORGE_URL=http://forgejo:3000",
		"GIT_AUTHOR_EMAIL=qwen@noreply.forgejo",
		"GIT_AUTHOR_NAME=dev-qwen",
		"GIT_COMMITTER_EMAIL=qwen@noreply.forgejo",
		"GIT_COMMITTER_NAME=dev-qwen",
		"GIT_HTTP_LOW_SPEED_LIMIT=1",
		"GIT_HTTP_LOW_SPEED_TIME=300",
		"HOME=/var/lib/disinto/home/dev-qwen",
		"PWD=/var/lib/disinto/work/harb-12",
	}
	if diff := cmp.Diff(want, Environ(nil, session())); diff != "" {
		t.Errorf("Environ without a base (-want +got):\n%s", diff)
	}

	if got := Environ([]string{"GIT_HTTP_LOW_SPEED_TIME=9"}, session()); Getenv(got, "GIT_HTTP_LOW_SPEED_TIME") != "9" {
		t.Errorf("Environ with a patience of git = %q, want it kept", got)
	}
	limited := session()
	limited.Left = Budget{Tokens: 900, USD: 0.25}
	got := Environ([]string{"DISINTO_MAX_TOKENS=1", "DISINTO_MAX_USD=1"}, limited)
	if Getenv(got, "DISINTO_MAX_TOKENS") != "900" || Getenv(got, "DISINTO_MAX_USD") != "0.25" {
		t.Errorf("Environ with limits = %q, want them to replace those of base", got)
	}
	if got := Environ([]string{"DISINTO_MAX_TOKENS=1", "DISINTO_MAX_USD=1"}, session()); len(got) != len(want) {
		t.Errorf("Environ without limits = %q, want those of base removed", got)
	}

	climbed := session()
	for i := range 20 {
		climbed.Tried = append(climbed.Tried, Tried{
			Agent: "dev-kimi", Kind: KindIssue, Outcome: Failed, Reason: fmt.Sprintf("%d\x1b[2J\n", i) +
				strings.Repeat("ä", 4000),
		})
	}
	text := Getenv(Environ([]string{"DISINTO_TRIED=[]"}, climbed), "DISINTO_TRIED")
	tried := ParseTried(text)
	if len(tried) != 8 || len(text) > 8<<10 || !strings.HasPrefix(tried[0].Reason, "12 [2J ä") ||
		tried[7].Agent != "dev-kimi" {
		t.Errorf("DISINTO_TRIED has %d bytes and holds %+v, want the newest 8 sessions in at most 8 KiB", len(text), tried)
	}
	if got := Environ([]string{"DISINTO_TRIED=[]"}, session()); len(got) != len(want) {
		t.Errorf("Environ without earlier attempts = %q, want no DISINTO_TRIED", got)
	}
	for _, text := range []string{"", "x", `{"agent":1}`, strings.Repeat("[", MaxResult+1)} {
		if got := ParseTried(text); len(got) != 0 {
			t.Errorf("ParseTried(%.20q) = %+v, want an empty list", text, got)
		}
	}

	// The contract's variables are set whatever base contains and whatever is denied.
	var base []string
	for _, entry := range want {
		name, _, _ := strings.Cut(entry, "=")
		base = append(base, name+"=wrong")
	}
	e := session()
	e.EnvDeny = []string{"*"}
	if diff := cmp.Diff(want, Environ(base, e)); diff != "" {
		t.Errorf("Environ with a contradicting base (-want +got):\n%s", diff)
	}
}

// keysOfThreads gives the session's thread a key, and another thread as well.
func keysOfThreads(e *Env) {
	e.Vars = []Var{{"API_KEY", "key-of-llama"}}
	e.Secrets = append(e.Secrets, SecretVar{Name: "KEY_A", Value: "key-of-llama", Thread: "llama"},
		SecretVar{Name: "KEY_B", Value: "key-of-thread-b", Thread: "api-b"})
}

func TestEnviron(t *testing.T) {
	tests := []struct {
		name   string
		base   string // one variable, NAME=value
		change func(*Env)
		want   string // the entry to expect; empty if base must be removed
	}{
		{name: "everything else passes", base: "PATH=/bin", want: "PATH=/bin"},
		{name: "an equals sign in a value", base: "OPTS=a=b", want: "OPTS=a=b"},
		{name: "an empty value", base: "EMPTY=", want: "EMPTY="},
		{name: "claude's directory", base: "CLAUDE_CONFIG_DIR=/c", want: "CLAUDE_CONFIG_DIR=/c"},
		{name: "no name", base: "=x"},
		{
			name: "own base URL first", base: "", change: func(e *Env) { e.Agent.BaseURL = "http://own" },
			want: "DISINTO_BASE_URL=http://own",
		},
		{
			name: "all readers", base: "DISINTO_READERS=x", change: func(e *Env) { e.ReadAll = true },
			want: "DISINTO_READERS=all",
		},
		{name: "user", base: "USER=root", change: func(e *Env) { e.User = "agent" }, want: "USER=agent"},
		{name: "login name", base: "LOGNAME=root", change: func(e *Env) { e.User = "agent" }, want: "LOGNAME=agent"},
		{name: "user unknown", base: "USER=root", want: "USER=root"},
		{
			name: "forge without a host", base: "", change: func(e *Env) { e.ForgeURL = "" },
			want: "GIT_AUTHOR_EMAIL=qwen@noreply.localhost",
		},

		// Configured secrets.
		{name: "another agent's by name", base: "SONNET=changed-since"},
		{name: "another agent's by value", base: "COPY=token-of-review"},
		{name: "another agent's inside a value", base: "REMOTE=http://x:token-of-review@forgejo/"},
		{name: "another agent's literal", base: "COPY=literal-of-planner"},
		{name: "the supervisor's by name", base: "HOOK=changed-since"},
		{name: "the supervisor's by value", base: "COPY=hook-secret"},
		{name: "a short secret as the whole value", base: "COPY=1234"},
		{name: "a short secret inside a value", base: "PORT=12345", want: "PORT=12345"},
		{name: "its own by name", base: "QWEN=token-of-dev-qwen", want: "QWEN=token-of-dev-qwen"},
		{name: "its own by value", base: "COPY=token-of-dev-qwen", want: "COPY=token-of-dev-qwen"},
		{
			name: "an empty secret is none", base: "EMPTY=",
			change: func(e *Env) { e.Secrets = append(e.Secrets, SecretVar{Agent: "review-sonnet"}) }, want: "EMPTY=",
		},
		{
			name: "shared with another agent", base: "SHARED=token-of-two",
			change: func(e *Env) {
				e.Secrets = append(e.Secrets, SecretVar{Name: "SHARED", Value: "token-of-two", Agent: "review-sonnet"},
					SecretVar{Name: "SHARED", Value: "token-of-two", Agent: "dev-qwen"})
			},
			want: "SHARED=token-of-two",
		},

		// Secrets and variables of threads.
		{name: "a key of another thread", base: "KEY_B=key-of-thread-b", change: keysOfThreads, want: "API_KEY=key-of-llama"},
		{
			name: "a key of another thread that is allowed", base: "KEY_B=key-of-thread-b", want: "API_KEY=key-of-llama",
			change: func(e *Env) { keysOfThreads(e); e.EnvAllow = []string{"KEY_B"} },
		},
		{
			name: "its value under another name", base: "HEADER=bearer key-of-thread-b", change: keysOfThreads,
			want: "API_KEY=key-of-llama",
		},
		{
			name: "a variable of the thread replaces the supervisor's", base: "API_KEY=of-all", change: keysOfThreads,
			want: "API_KEY=key-of-llama",
		},
		{
			name: "two threads with one key", base: "KEY_B=key-of-thread-b", want: "KEY_B=key-of-thread-b",
			change: func(e *Env) {
				keysOfThreads(e)
				e.Vars[0].Value = "key-of-thread-b"
				e.Secrets = append(e.Secrets, SecretVar{Name: "KEY_B", Value: "key-of-thread-b", Thread: "llama"})
			},
		},
		{
			name: "no variable of a thread replaces ours", base: "", want: "DISINTO_RUN_ID=f00d-17",
			change: func(e *Env) { e.Vars = []Var{{"DISINTO_RUN_ID", "forged"}} },
		},

		// Names.
		{name: "a forge token", base: "FORGE_TOKEN_DEV_GPT=t"},
		{name: "a forge token of upstream's", base: "FORGE_REVIEW_TOKEN=t"},
		{name: "a forge password", base: "FORGE_PASS_DEV=p"},
		{name: "a forge administrator", base: "FORGE_ADMIN_USER=root"},
		{name: "the control API of a supervisor", base: "DISINTO_TOKEN=s"},
		{name: "headers of a collector", base: "OTEL_EXPORTER_OTLP_HEADERS=authorization=s"},
		{name: "headers of its traces", base: "OTEL_EXPORTER_OTLP_TRACES_HEADERS=authorization=s"},
		{
			name: "headers that the role allows", base: "OTEL_EXPORTER_OTLP_HEADERS=a=b", want: "OTEL_EXPORTER_OTLP_HEADERS=a=b",
			change: func(e *Env) { e.Role.EnvAllow = []string{"OTEL_*"} },
		},
		{
			name: "address of a collector", base: "OTEL_EXPORTER_OTLP_ENDPOINT=http://c",
			want: "OTEL_EXPORTER_OTLP_ENDPOINT=http://c",
		},
		{name: "the supervisor's own trace", base: "TRACEPARENT=00-a", want: "TRACEPARENT=00-a"},
		{
			name: "the session's trace", base: "TRACEPARENT=00-a", change: func(e *Env) { e.TraceParent = "00-b" },
			want: "TRACEPARENT=00-b",
		},
		{name: "a web hook", base: "WEBHOOK_SECRET=s"},
		{name: "any web hook", base: "MY_WEBHOOK_SECRET_2=s"},
		{name: "something of the forge", base: "FORGE_BOT_USERNAMES=a,b", want: "FORGE_BOT_USERNAMES=a,b"},

		// Credentials of other services.
		{name: "a token", base: "GITHUB_TOKEN=t"},
		{name: "a token, in lower case", base: "npm_config_token=t"},
		{name: "a secret", base: "EVIL_SECRET_KEY=k"},
		{name: "a key's name", base: "AWS_ACCESS_KEY_ID=k"},
		{name: "a key", base: "AWS_SECRET_ACCESS_KEY=k"},
		{name: "a key of an API", base: "STRIPE_APIKEY=k"},
		{name: "a password", base: "PGPASSWORD=p"},
		{name: "a short password", base: "DB_PASS=p"},
		{name: "a shorter password", base: "MYSQL_PWD=p"},
		{name: "a passphrase", base: "BORG_PASSPHRASE=p"},
		{name: "a credential", base: "GOOGLE_APPLICATION_CREDENTIALS=/key.json"},
		{name: "a personal access token", base: "AZURE_PAT=t"},
		{name: "an address with a password", base: "DATABASE_URL=postgres://u:pass@h/db"},
		{name: "no user, a password", base: "REDIS_URL=redis://:pa?ss@h:6379"},
		{name: "the second address of a list", base: "GOPROXY=https://proxy.golang.org,https://u:p@goproxy.example.org"},
		{
			name: "a secret that the role allows", base: "GITHUB_TOKEN=t", want: "GITHUB_TOKEN=t",
			change: func(e *Env) { e.Role.EnvAllow = []string{"GITHUB_TOKEN"} },
		},
		{
			name: "an address that the thread allows", base: "DATABASE_URL=postgres://u:pass@h/db",
			change: func(e *Env) { e.EnvAllow = []string{"DATABASE_*"} }, want: "DATABASE_URL=postgres://u:pass@h/db",
		},
		{
			name: "its own secret", base: "DEV_TOKEN=token-of-dev-qwen", want: "DEV_TOKEN=token-of-dev-qwen",
		},
		{
			name: "an address with its own", base: "REMOTE=http://x:token-of-dev-qwen@forgejo/",
			want: "REMOTE=http://x:token-of-dev-qwen@forgejo/",
		},

		// Names that only resemble a credential's.
		{name: "an agent of ssh", base: "SSH_AUTH_SOCK=/s"},
		{name: "an agent of gpg", base: "GPG_AGENT_INFO=/s:1:1"},
		{name: "a desktop's session", base: "DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1/bus"},
		{name: "a display's key", base: "XAUTHORITY=/home/ada/.Xauthority"},
		{name: "a Kerberos ticket", base: "KRB5CCNAME=FILE:/tmp/krb5cc_1"},
		{name: "a cluster's sign-in", base: "KUBECONFIG=/root/.kube/config"},
		{name: "a registry's sign-in", base: `DOCKER_AUTH_CONFIG={"auths":{}}`},
		{name: "a folder with a registry's sign-in", base: "DOCKER_CONFIG=/root/.docker"},
		{name: "a file of passwords", base: "PGPASSFILE=/root/.pgpass"},
		{name: "a header", base: "HTTP_AUTHORIZATION=Basic eDp5"},
		{name: "npm's sign-in", base: "npm_config__auth=eDp5"},
		{name: "a cookie", base: "SESSION_COOKIE=c"},
		{name: "a bearer", base: "API_BEARER=b"},
		{name: "a connection string by name", base: "AZURE_STORAGE_CONNECTION_STRING=x"},
		{name: "a data source", base: "SENTRY_DSN=https://k@sentry/1"},
		{name: "a connection string", base: "DB=Server=db;User Id=sa;Password=x;"},
		{name: "a connection string of blanks", base: "PG=host=db user=u password=x"},
		{name: "a connection string of a storage", base: "BLOB=AccountName=a;AccountKey=eA=="},
		{name: "a connection string of Go's", base: "SHOP=shop:x@tcp(db:3306)/shop"},
		{
			name: "an agent of ssh that the thread allows", base: "SSH_AUTH_SOCK=/s",
			change: func(e *Env) { e.EnvAllow = []string{"SSH_AUTH_SOCK"} }, want: "SSH_AUTH_SOCK=/s",
		},
		{
			name: "a desktop's session that the role allows", base: "DBUS_SESSION_BUS_ADDRESS=unix:path=/b",
			change: func(e *Env) { e.Role.EnvAllow = []string{"DBUS_*"} }, want: "DBUS_SESSION_BUS_ADDRESS=unix:path=/b",
		},
		{name: "a connection string without a password", base: "PG=host=db user=u", want: "PG=host=db user=u"},
		{name: "an author", base: "AUTHOR=ada", want: "AUTHOR=ada"},
		{name: "a host", base: "DOCKER_HOST=unix:///run/d", want: "DOCKER_HOST=unix:///run/d"},
		{name: "tokenizers", base: "TOKENIZERS_PARALLELISM=false", want: "TOKENIZERS_PARALLELISM=false"},
		{name: "a limit in tokens", base: "CLAUDE_CODE_MAX_OUTPUT_TOKENS=9", want: "CLAUDE_CODE_MAX_OUTPUT_TOKENS=9"},
		{name: "another limit", base: "MAX_THINKING_TOKENS=9", want: "MAX_THINKING_TOKENS=9"},
		{name: "a program that prompts for a password", base: "GIT_ASKPASS=/bin/ask", want: "GIT_ASKPASS=/bin/ask"},
		{name: "a path", base: "PYTHONPATH=/p", want: "PYTHONPATH=/p"},
		{name: "a path after a word", base: "LD_LIBRARY_PATH=/p", want: "LD_LIBRARY_PATH=/p"},
		{name: "a public key", base: "SIGNING_PUBLIC_KEY=k", want: "SIGNING_PUBLIC_KEY=k"},
		{name: "a keyboard", base: "KEYBOARD=de", want: "KEYBOARD=de"},
		{name: "a bypass", base: "CACHE_BYPASS=1", want: "CACHE_BYPASS=1"},
		{name: "an address with a port", base: "REGISTRY=http://h:5000/a@b:c", want: "REGISTRY=http://h:5000/a@b:c"},
		{name: "an address with a user", base: "REMOTE=ssh://git@h:22/r", want: "REMOTE=ssh://git@h:22/r"},
		{name: "an address, then a mail address", base: "ABOUT=see http://h:80 or a@b", want: "ABOUT=see http://h:80 or a@b"},
		{name: "a proxy", base: "https_proxy=http://u:pass@proxy:3128", want: "https_proxy=http://u:pass@proxy:3128"},

		// Local backends.
		{name: "API key", base: "ANTHROPIC_API_KEY=k"},
		{name: "API token", base: "ANTHROPIC_AUTH_TOKEN=k"},
		{name: "subscription", base: "CLAUDE_CODE_OAUTH_TOKEN=k"},
		{name: "other API", base: "OPENAI_API_KEY=k"},
		{
			name: "API key on an API thread", base: "ANTHROPIC_API_KEY=k",
			change: func(e *Env) { e.Backend = "anthropic" }, want: "ANTHROPIC_API_KEY=k",
		},
		{
			name: "another API's key on an API thread", base: "GEMINI_API_KEY=k",
			change: func(e *Env) { e.Backend = "anthropic" }, want: "GEMINI_API_KEY=k",
		},
		{name: "another API's key", base: "GEMINI_API_KEY=k"},
		{
			name: "another service's key on an API thread", base: "STRIPE_API_KEY=k",
			change: func(e *Env) { e.Backend = "anthropic" },
		},
		{
			name: "API key, allowed", base: "OPENAI_API_KEY=k",
			change: func(e *Env) { e.Role.EnvAllow = []string{"OPENAI_API_KEY"} }, want: "OPENAI_API_KEY=k",
		},

		// Deny and allow.
		{name: "denied by the thread", base: "AWS_REGION=k", change: func(e *Env) { e.EnvDeny = []string{"AWS_*"} }},
		{name: "denied by the role", base: "AWS_REGION=k", change: func(e *Env) { e.Role.EnvDeny = []string{"AWS_REGION"} }},
		{
			name: "denied by a glob of another name", base: "AWS_REGION=k",
			change: func(e *Env) { e.EnvDeny = []string{"AWS", "aws_*"} }, want: "AWS_REGION=k",
		},
		{
			name: "allow wins over deny", base: "AWS_REGION=k",
			change: func(e *Env) { e.EnvDeny = []string{"*"}; e.Role.EnvAllow = []string{"AWS_REGION"} }, want: "AWS_REGION=k",
		},
		{
			name: "the thread allows what the role denies", base: "AWS_REGION=k",
			change: func(e *Env) { e.Role.EnvDeny = []string{"*"}; e.EnvAllow = []string{"AWS_*"} }, want: "AWS_REGION=k",
		},
		{
			name: "allow wins over names", base: "FORGE_REVIEW_TOKEN=t",
			change: func(e *Env) { e.EnvAllow = []string{"FORGE_REVIEW_TOKEN"} }, want: "FORGE_REVIEW_TOKEN=t",
		},
		{
			name: "allow wins over the supervisor's secrets", base: "HOOK=hook-secret",
			change: func(e *Env) { e.Role.EnvAllow = []string{"HOOK"} }, want: "HOOK=hook-secret",
		},
		{
			name: "allow does not hand out another agent's", base: "SONNET=token-of-review",
			change: func(e *Env) { e.EnvAllow = []string{"*"} },
		},
		{
			name: "another agent's and the supervisor's", base: "BOTH=two-owners",
			change: func(e *Env) {
				e.EnvAllow = []string{"*"}
				e.Secrets = append(e.Secrets, SecretVar{Name: "BOTH", Value: "two-owners", Agent: "a"},
					SecretVar{Name: "BOTH", Value: "two-owners"})
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := session()
			if tt.change != nil {
				tt.change(e)
			}
			got := Environ([]string{tt.base}, e)
			if tt.want != "" && !slices.Contains(got, tt.want) {
				t.Errorf("got %q, want %q in it", got, tt.want)
			}
			if tt.want != tt.base && slices.Contains(got, tt.base) {
				t.Errorf("got %q, want no %q in it", got, tt.base)
			}
		})
	}
}

func TestEnvironTwice(t *testing.T) {
	got := Environ([]string{"EDITOR=ed", "EDITOR=vi"}, session())
	if !slices.Contains(got, "EDITOR=vi") || slices.Contains(got, "EDITOR=ed") {
		t.Errorf("got %q, want only the last of two values", got)
	}
}

// TestEnvironKeepsSecrets generates random factories. In none of them does a program see another agent's secret,
// whatever is allowed.
func TestEnvironKeepsSecrets(t *testing.T) {
	pick := func(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }
	names := []string{"A", "B", "FORGE_TOKEN_A", "WEBHOOK_SECRET", "OPENAI_API_KEY", "PATH", "DISINTO_AGENT"}
	agents := []string{"", "dev-qwen", "review-sonnet", "planner-sonnet"}
	patterns := []string{"*", "A", "FORGE_*", "PATH", "[AB]"}
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 1))
		e := session()
		e.Secrets = nil
		var values []string
		for i := range 1 + r.IntN(6) {
			s := SecretVar{
				Name: pick(r, names), Value: Secret("secret-" + strconv.Itoa(i) + strings.Repeat("x", r.IntN(3))),
				Agent: pick(r, agents),
			}
			e.Secrets = append(e.Secrets, s)
			values = append(values, s.Value.Reveal(), "pre"+s.Value.Reveal()+"post")
		}
		for range r.IntN(3) {
			e.EnvAllow = append(e.EnvAllow, pick(r, patterns))
			e.Role.EnvAllow = append(e.Role.EnvAllow, pick(r, patterns))
			e.EnvDeny = append(e.EnvDeny, pick(r, patterns))
		}
		var base []string
		for range r.IntN(12) {
			base = append(base, pick(r, names)+"="+pick(r, values))
		}
		got := strings.Join(Environ(base, e), "\n")
		for _, s := range e.Secrets {
			if s.Agent != "" && s.Agent != e.Agent.Name && !e.owns(s) && strings.Contains(got, s.Value.Reveal()) {
				t.Fatalf("seed %d: secret %s of %s is in the environment of %s:\n%s", seed, s.Name, s.Agent, e.Agent.Name, got)
			}
		}
	}
}
