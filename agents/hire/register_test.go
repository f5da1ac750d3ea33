package hire

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var newcomer = Entry{Name: "dev-kimi", Thread: "llama", Role: "dev", Model: "kimi", TokenVar: "FORGE_TOKEN_DEV_KIMI"}

// table is the text that Register writes for newcomer.
const table = "[agents.dev-kimi]\nrole = \"dev\"\nmodel = \"kimi\"\ntoken = \"$FORGE_TOKEN_DEV_KIMI\"\n"

func TestRegister(t *testing.T) {
	tests := []struct {
		name, before, after string
		// once says that removing the agent does not restore the original text.
		once bool
	}{
		{
			name:   "one line",
			before: "[threads.llama]\nagents = [\"dev-qwen\", \"gardener-qwen\"] # the two\nmax_concurrent = 2\n",
			after: "[threads.llama]\nagents = [\"dev-qwen\", \"gardener-qwen\", \"dev-kimi\"] # the two\nmax_concurrent = 2\n" +
				"\n" + table,
		},
		{
			name:   "one line, trailing comma",
			before: "[threads.llama]\nagents = [ 'dev-qwen', ]\n",
			after:  "[threads.llama]\nagents = [ 'dev-qwen', \"dev-kimi\", ]\n\n" + table,
		},
		{
			name: "a line each",
			before: "[threads.llama]\nagents = [\n  # fast\n  \"dev-qwen\", # 27B\n  \"dev-glm\",  # 32B\n  # slow: none\n]\n" +
				"max_concurrent = 2\n",
			after: "[threads.llama]\nagents = [\n  # fast\n  \"dev-qwen\", # 27B\n  \"dev-glm\",  # 32B\n  \"dev-kimi\",\n" +
				"  # slow: none\n]\nmax_concurrent = 2\n\n" +
				table,
		},
		{
			name:   "a line each, no trailing comma",
			before: "[threads.llama]\nagents = [\n\t\"dev-qwen\",\n\t\"dev-glm\" # 32B\n]\n",
			after:  "[threads.llama]\nagents = [\n\t\"dev-qwen\",\n\t\"dev-glm\", # 32B\n\t\"dev-kimi\"\n]\n\n" + table,
		},
		{
			name:   "comma on a line of its own",
			before: "[threads.llama]\nagents = [\n  \"dev-qwen\" # 27B\n  , # here\n]\n",
			after:  "[threads.llama]\nagents = [\n  \"dev-qwen\" # 27B\n  , # here\n  \"dev-kimi\",\n]\n\n" + table,
		},
		{
			name:   "hanging",
			before: "[threads.llama]\nagents = [\"dev-qwen\",\n          \"dev-glm\"]\n",
			after:  "[threads.llama]\nagents = [\"dev-qwen\",\n          \"dev-glm\",\n          \"dev-kimi\"]\n\n" + table,
		},
		{
			name:   "several on a line",
			before: "[threads.llama]\nagents = [\n  \"dev-qwen\", \"dev-glm\",\n]\n",
			after:  "[threads.llama]\nagents = [\n  \"dev-qwen\", \"dev-glm\", \"dev-kimi\",\n]\n\n" + table,
		},
		{
			name:   "empty",
			before: "[threads.llama]\nagents = []\n",
			after:  "[threads.llama]\nagents = [\"dev-kimi\"]\n\n" + table,
		},
		{
			name:   "empty with a comment",
			before: "[threads.llama]\nagents = [\n    # nobody yet\n]\n",
			after:  "[threads.llama]\nagents = [\n    # nobody yet\n    \"dev-kimi\",\n]\n\n" + table,
		},
		{
			name: "no agents at all",
			before: "# mine\n[threads.llama] # local\nbackend = \"local\" # a\n\n# the API\n[threads.opus]\n" +
				"backend = \"anthropic\"\n",
			after: "# mine\n[threads.llama] # local\nbackend = \"local\" # a\nagents = [\"dev-kimi\"]\n\n# the API\n" +
				"[threads.opus]\nbackend = \"anthropic\"\n\n" +
				table,
			once: true,
		},
		{
			name:   "empty thread",
			before: "[threads.llama]",
			after:  "[threads.llama]\nagents = [\"dev-kimi\"]\n\n" + table,
			once:   true,
		},
		{
			name:   "indented",
			before: "[threads]\n  [threads.llama]\n    backend = \"local\"\n",
			after:  "[threads]\n  [threads.llama]\n    backend = \"local\"\n    agents = [\"dev-kimi\"]\n\n" + table,
			once:   true,
		},
		{
			name:   "windows",
			before: "[threads.llama]\r\nagents = [\r\n  \"dev-qwen\",\r\n]\r\n",
			after: "[threads.llama]\r\nagents = [\r\n  \"dev-qwen\",\r\n  \"dev-kimi\",\r\n]\r\n\r\n" +
				strings.ReplaceAll(table, "\n", "\r\n"),
		},
		{
			name:   "byte order mark",
			before: "\ufeffthreads.llama.agents = [\"dev-qwen\"]\n",
			after:  "\ufeffthreads.llama.agents = [\"dev-qwen\", \"dev-kimi\"]\n\n" + table,
		},
		{
			name:   "no line break at the end",
			before: "[threads.llama]\nagents = [\"dev-qwen\"]",
			after:  "[threads.llama]\nagents = [\"dev-qwen\", \"dev-kimi\"]\n\n" + table,
		},
		{
			name:   "dotted thread",
			before: "[threads]\nllama.backend = \"local\" # here\nllama.max_concurrent = 2\n",
			after: "[threads]\nllama.backend = \"local\" # here\nllama.max_concurrent = 2\nllama.agents = [\"dev-kimi\"]\n\n" +
				table,
			once: true,
		},
		{
			name:   "inline threads",
			before: "threads = { llama = { backend = \"local\" } } # all\n",
			after:  "threads = { llama = { backend = \"local\", agents = [\"dev-kimi\"] } } # all\n\n" + table,
			once:   true,
		},
		{
			name:   "inline agents",
			before: "agents = { dev-qwen = { role = \"dev\" } }\n[threads.llama]\nagents = [\"dev-qwen\"]\n",
			after: "agents = { dev-qwen = { role = \"dev\" }, dev-kimi = { role = \"dev\", model = \"kimi\", token = " +
				"\"$FORGE_TOKEN_DEV_KIMI\" } }\n" +
				"[threads.llama]\nagents = [\"dev-qwen\", \"dev-kimi\"]\n",
		},
		{
			name:   "empty inline agents",
			before: "agents = {}\n[threads.llama]\nagents = [\"dev-qwen\"]\n",
			after: "agents = { dev-kimi = { role = \"dev\", model = \"kimi\", token = \"$FORGE_TOKEN_DEV_KIMI\" } }\n" +
				"[threads.llama]\nagents = [\"dev-qwen\", \"dev-kimi\"]\n",
			once: true,
		},
		{
			name: "dotted agents",
			before: "[threads.llama]\nagents = [\"dev-kimi\"]\n[agents]\ndev-kimi.skills = [\"go\"] # all it knows\n" +
				"writer.role = \"docs\"\n",
			after: "[threads.llama]\nagents = [\"dev-kimi\"]\n[agents]\ndev-kimi.skills = [\"go\"] # all it knows\n" +
				"dev-kimi.role = \"dev\"\ndev-kimi.model = \"kimi\"\n" +
				"dev-kimi.token = \"$FORGE_TOKEN_DEV_KIMI\"\nwriter.role = \"docs\"\n",
			once: true,
		},
		{
			name: "an existing table",
			before: "[threads.llama]\nagents = [\"dev-kimi\"]\n\n[agents.dev-kimi]\n# what it does\n" +
				"role = \"planner\"   # for now\n  budget = { tokens = 5 }\n\n" +
				"# not yet\n#user = \"\"\n\n[roles.dev]\ntimeout = \"1h\"\n",
			after: "[threads.llama]\nagents = [\"dev-kimi\"]\n\n[agents.dev-kimi]\n# what it does\n" +
				"role = \"dev\"   # for now\n  budget = { tokens = 5 }\n" +
				"  model = \"kimi\"\n  token = \"$FORGE_TOKEN_DEV_KIMI\"\n\n# not yet\n#user = \"\"\n\n[roles.dev]\n" +
				"timeout = \"1h\"\n",
			once: true,
		},
		{
			name: "quoted keys",
			before: "[\"threads\".'llama']\n\"agents\" = [\"dev-kimi\"]\n[ agents . \"dev-kimi\" ]\n\"role\" = 'dev'\n" +
				"\"mod\\u0065l\" = \"\"\"kimi\"\"\"\n",
			after: "[\"threads\".'llama']\n\"agents\" = [\"dev-kimi\"]\n[ agents . \"dev-kimi\" ]\n\"role\" = 'dev'\n" +
				"\"mod\\u0065l\" = \"\"\"kimi\"\"\"\n" +
				"token = \"$FORGE_TOKEN_DEV_KIMI\"\n",
			once: true,
		},
		{
			name: "upstream's roles",
			before: "[threads.llama]\nagents = [\"dev-kimi\"]\n[agents.dev-kimi]\nroles = [\"planner\"]\nmodel = \"kimi\"\n" +
				"token = \"literal\"\n",
			after: "[threads.llama]\nagents = [\"dev-kimi\"]\n[agents.dev-kimi]\nroles = [\"planner\", \"dev\"]\n" +
				"model = \"kimi\"\ntoken = \"$FORGE_TOKEN_DEV_KIMI\"\n",
			once: true,
		},
		{
			name: "lookalikes in comments and strings",
			before: "# [threads.llama]\n# agents = [\"x\"]\n[roles.dev]\ncommand = [\"\"\"\n[threads.llama]\nagents = []\n" +
				"\\\"\"\"\"\"\", '[agents.dev-kimi]', '''\n[agents.dev-kimi]\n''']\n[threads.llama]\nagents = [\"dev-qwen\"]\n",
			after: "# [threads.llama]\n# agents = [\"x\"]\n[roles.dev]\ncommand = [\"\"\"\n[threads.llama]\nagents = []\n" +
				"\\\"\"\"\"\"\", '[agents.dev-kimi]', '''\n[agents.dev-kimi]\n''']\n[threads.llama]\n" +
				"agents = [\"dev-qwen\", \"dev-kimi\"]\n\n" +
				table,
		},
		{
			name: "arrays of tables",
			before: "[[x]]\nagents = 1\n[x.sub.agents]\ndev-kimi = 1\n[[x]]\nlist = [{ a = 1 }, { a = 2 }]\n[threads.llama]\n" +
				"agents = [\"dev-qwen\"]\n",
			after: "[[x]]\nagents = 1\n[x.sub.agents]\ndev-kimi = 1\n[[x]]\nlist = [{ a = 1 }, { a = 2 }]\n[threads.llama]\n" +
				"agents = [\"dev-qwen\", \"dev-kimi\"]\n\n" + table,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Register(tt.before, newcomer)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.after, got); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			again, err := Register(got, newcomer)
			if err != nil || again != got {
				t.Errorf("second Register: %v (-want +got):\n%s", err, cmp.Diff(got, again))
			}
			back, err := Unregister(got, newcomer.Name)
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.TrimRight(tt.before, "\r\n"); !tt.once && strings.TrimRight(back, "\r\n") != want {
				t.Errorf("Unregister (-want +got):\n%s", cmp.Diff(want, back))
			}
			if strings.Contains(back, `"dev-kimi"`) || strings.Contains(back, "$FORGE_TOKEN") {
				t.Errorf("Unregister left something of the agent:\n%s", back)
			}
		})
	}
}

func TestRegisterValues(t *testing.T) {
	e := Entry{Name: "dev-x", Thread: "a", BaseURL: "http://x/v1", Skills: []string{"go", `a"b\`}}
	got, err := Register("[threads.a]\n", e)
	if err != nil {
		t.Fatal(err)
	}
	want := "[threads.a]\nagents = [\"dev-x\"]\n\n[agents.dev-x]\nbase_url = \"http://x/v1\"\n" +
		"skills = [\"go\", \"a\\\"b\\\\\"]\n"
	if got != want {
		t.Errorf("Register (-want +got):\n%s", cmp.Diff(want, got))
	}
	s, err := ParseSurvey(got)
	if err != nil || !reflect.DeepEqual(s.Skills("dev-x"), e.Skills) || s.ThreadOf("dev-x") != "a" || !s.Has("dev-x") ||
		s.Has("dev-y") {
		t.Errorf("Look = %v, %+v", err, s)
	}
}

func TestSurvey(t *testing.T) {
	s, err := ParseSurvey(`[forge]
url = "http://f"
token = "$BOSS"
[threads.a]
base_url = "http://a/v1"
agents = ["dev-x", "y", "dev-z", "dev-v", "dev-w"]
[threads.b]
[agents.dev-x]
forge_user = "xaver"
token = "$X"
model = "m"
[agents.y]
roles = ["docs", "dev"]
token = "literal"
[agents.dev-v]
token = "$BOSS"
[agents.dev-w]
token = "$FORGE_TOKEN"
role = "planner"
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, login, role, variable string }{
		{"dev-x", "xaver", "dev", "X"},
		{"y", "y", "docs", "FORGE_TOKEN_Y"},
		{"dev-z", "dev-z", "dev", "FORGE_TOKEN_DEV_Z"},
		{"dev-v", "dev-v", "dev", "FORGE_TOKEN_DEV_V"},
		{"dev-w", "dev-w", "planner", "FORGE_TOKEN_DEV_W"},
		{"new", "new", "", "FORGE_TOKEN_NEW"},
	} {
		if s.Login(tt.name) != tt.login || s.Role(tt.name) != tt.role || s.TokenVar(tt.name) != tt.variable {
			t.Errorf("%s: login %s, role %s, variable %s", tt.name, s.Login(tt.name), s.Role(tt.name), s.TokenVar(tt.name))
		}
	}
	if got := strings.Join(s.Logins(), " "); got != "xaver y dev-z dev-v dev-w" || s.ForgeURL != "http://f" ||
		s.Model("dev-x") != "m" {
		t.Errorf("logins %s, url %s, model %s", got, s.ForgeURL, s.Model("dev-x"))
	}
	if on, err := s.ChooseThread("http://a/v1/"); on != "a" || err != nil {
		t.Errorf("ChooseThread by address = %s, %v, want a", on, err)
	}
	if _, err := s.ChooseThread("http://else"); err == nil || !strings.Contains(err.Error(), "--thread a or --thread b") {
		t.Errorf("ChooseThread of two: %v, want both names", err)
	}
	if on, err := (Survey{Threads: s.Threads[1:]}).ChooseThread(""); on != "b" || err != nil {
		t.Errorf("ChooseThread of one = %s, %v, want b", on, err)
	}
	if _, err := (Survey{}).ChooseThread(""); err == nil {
		t.Error("ChooseThread without threads returned no error")
	}
}

func TestRegisterRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"x = ":                           "expected value",
		"[threads.opus]\n":               "there is no thread llama",
		"threads = 1\n":                  "there is no thread llama",
		"[threads.llama]\nagents = 1\n":  "write [agents.dev-kimi]",
		"agents = 1\n[threads.llama]\n":  "write [agents.dev-kimi]",
		"[[agents]]\n[threads.llama]\n":  "write [agents.dev-kimi]",
		"[threads.llama]\nagents = \"\"": "by hand",
	} {
		if got, err := Register(text, newcomer); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Register(%q): %v, want %q\n%s", text, err, want, got)
		}
	}
}

func TestUnregister(t *testing.T) {
	tests := []struct{ name, before, after string }{
		{"unknown agent", "[threads.a]\nagents = [\"y\"]\n", "[threads.a]\nagents = [\"y\"]\n"},
		{"first of a line", "[threads.a]\nagents = [\"x\", \"y\"]\n", "[threads.a]\nagents = [\"y\"]\n"},
		{"the only one", "[threads.a]\nagents = [\"x\"] # one\n", "[threads.a]\nagents = [] # one\n"},
		{"the only one with a comma", "[threads.a]\nagents = [ \"x\", ]\n", "[threads.a]\nagents = [  ]\n"},
		{
			"its comment is removed too", "[threads.a]\nagents = [\n  \"x\", # fast\n  # about y\n  \"y\",\n]\n",
			"[threads.a]\nagents = [\n  # about y\n  \"y\",\n]\n",
		},
		{"first, closing bracket behind", "[threads.a]\nagents = [\"x\",\n  \"y\"]\n", "[threads.a]\nagents = [\n  \"y\"]\n"},
		{
			"last, closing bracket behind", "[threads.a]\nagents = [\"y\", # why\n  \"x\"]\n",
			"[threads.a]\nagents = [\"y\" # why\n  ]\n",
		},
		{
			"two threads", "[threads.a]\nagents = [\"x\", \"y\", \"x\"]\n[threads.b]\nagents = [\"x\"]\n",
			"[threads.a]\nagents = [\"y\"]\n[threads.b]\nagents = []\n",
		},
		{
			"table in the middle",
			"# a\n\n[agents.w]\nk = 1\n\n# about x\n[agents.x]\n# role\nrole = \"r\"\n[agents.x.budget]\nn = 1\n\n# about y\n" +
				"[agents.y]\nk = 1\n",
			"# a\n\n[agents.w]\nk = 1\n\n# about x\n\n# about y\n[agents.y]\nk = 1\n",
		},
		{"gap", "[a]\n\n[agents.x]\nk = 1\n\n[b]\n", "[a]\n\n[b]\n"},
		{"dotted", "agents.x.a = 1\nagents.x.b = { c = 1 }\nagents.y.a = 1\n", "agents.y.a = 1\n"},
		{"inline first", "agents = { x = { a = 1 }, y = { a = 1 } }\n", "agents = { y = { a = 1 } }\n"},
		{"inline last", "agents = { y = { a = 1 }, x = { a = 1 } }\n", "agents = { y = { a = 1 } }\n"},
		{"inline only", "agents = { x.a = 1 }\n", "agents = { }\n"},
		{
			"names that begin with the agent's", "[agents.xy]\nk = 1\n[threads.a]\nagents = [\"xy\"]\n",
			"[agents.xy]\nk = 1\n[threads.a]\nagents = [\"xy\"]\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Unregister(tt.before, "x")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.after, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRegisterExample adds an agent to the documented example, whose lines all stay in order.
func TestRegisterExample(t *testing.T) {
	raw, err := os.ReadFile("../../factory.toml.example")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Register(string(raw), newcomer)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(raw), `agents = ["dev-qwen", "gardener-qwen", "writer"]`,
		`agents = ["dev-qwen", "gardener-qwen", "writer", "dev-kimi"]`, 1)
	if diff := cmp.Diff(changed+"\n"+table, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	back, err := Unregister(got, newcomer.Name)
	if err != nil || back != string(raw) {
		t.Errorf("Unregister: %v (-want +got):\n%s", err, cmp.Diff(string(raw), back))
	}
}

// FuzzRegister edits any TOML. Register itself checks the values. This test checks that no comment is lost, that a
// second edit changes nothing, and that Unregister undoes the edit.
func FuzzRegister(f *testing.F) {
	for _, text := range []string{
		"[threads.llama]\nagents = [\"a\", \"b\"] # c\n", "[threads.llama]\nagents = [\n  # c\n  'a' # d\n  ,\n]\n",
		"threads.llama.agents = []",
		"threads = { llama = { agents = [ \"a\" ] } }\nagents = { a = { } }\n",
		"[threads.llama]\r\nagents = [\"a\",\r\n 'b']\r\n", "[threads]\n\tllama.x = 1\n[agents]\nb.c = 1",
		"[threads.llama]\nx = \"\"\"\n\"\"\"\"\"\n[agents.dev-kimi]\nroles = []\n#\n[z]\n",
		"[[a]]\n[a.b]\n[threads.llama]\n[threads.llama.x]\ny = [[1], {a = 1}]",
		"\ufeff[threads.llama]\n\"agents\" = [\"\\u0061\", 1979-05-27T07:32:00Z]", "[threads.llama]\nagents = [ # x\n\n]",
		"[agents.dev-kimi]\n[threads.llama]\nagents=['dev-kimi','dev-kimi']",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Register(text, newcomer)
		if err != nil {
			return
		}
		if again, err := Register(got, newcomer); err != nil || again != got {
			t.Fatalf("a second Register changed the text: %v\n%q\n%q", err, got, again)
		}
		rest := got
		for _, comment := range comments(text) {
			_, after, ok := strings.Cut(rest, comment)
			if !ok {
				t.Fatalf("the comment %q was lost or moved:\n%q\n%q", comment, text, got)
			}
			rest = after
		}
		if back, err := Unregister(got, newcomer.Name); err != nil || strings.Contains(back, "FORGE_TOKEN_DEV_KIMI") &&
			!strings.Contains(text, "FORGE_TOKEN_DEV_KIMI") {
			t.Fatalf("Unregister does not undo Register: %v\n%q\n%q", err, got, back)
		}
	})
}

// comments returns the comment lines of a text; nil for a text with long strings, in which # may not begin a comment.
func comments(text string) []string {
	var all []string
	if strings.Contains(text, `"""`) || strings.Contains(text, `'''`) {
		return nil
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimLeft(line, " \t"), "#") {
			all = append(all, strings.TrimRight(line, "\r\n"))
		}
	}
	return all
}
