package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/session"
	"codeberg.org/johba/disinto/agents/session/fakemodel"
)

// TestRealInterrupted lets each real CLI commit and begin a file, and then ends its session by a usage limit, by an
// endpoint that fails, and by KILL of all its processes. The next session continues with the commit and the file.
func TestRealInterrupted(t *testing.T) {
	bin := os.Getenv("DISINTO_CLIS")
	if bin == "" {
		t.Skip("$DISINTO_CLIS names no folder with the real CLIs: make agents-e2e installs them")
	}
	ends := map[string]fakemodel.Turn{
		"limit": {
			Status: 429, Type: "rate_limit_error", Text: "This exceeds your usage limit.",
			Headers: map[string]string{"retry-after": "2"},
		},
		"outage": {Status: 500, Type: "api_error", Text: "Internal server error"},
		"kill": {Shell: `for p in /proc/[0-9]*; do
grep -qsaF "DISINTO_WORKSPACE=$DISINTO_WORKSPACE" $p/environ && grep -qsa -- "$CLI_ARG" $p/cmdline && kill -9 ${p#/proc/}
done; sleep 1`},
	}
	for _, cli := range realCLIs() {
		for name, end := range ends {
			if cli == "qwen --acp" && name == "limit" {
				continue // it waits in silence, until nextAnswer
			}
			t.Run(cli+"/"+name, func(t *testing.T) {
				t.Parallel() // most of the time they wait to retry
				interruptReal(t, bin, cli, end)
			})
		}
	}
}

// realCLIs returns the CLIs that real tests run, and the agents that speak ACP with a word after them.
func realCLIs() []string { return append(agents.CLINames(), "opencode acp", "qwen --acp") }

// real makes a bench's sessions run one of realCLIs, and returns the variables with which it uses a model.
func (b *bench) real(bin, cli string, model *httptest.Server) (vars []string) {
	argv := strings.Fields(cli)
	if _, err := os.Stat(filepath.Join(bin, argv[0])); err != nil {
		b.t.Skipf("no %s in %s", cli, bin)
	}
	vars = []string{
		"PATH=" + bin + ":" + os.Getenv("PATH"), "DISINTO_BASE_URL=" + model.URL + "/v1", "DISINTO_MODEL=fake-model",
		"IS_SANDBOX=1", "TERM=dumb", "CLI_ARG=" + argv[0],
	}
	b.program = func(p *session.Program) {
		p.Out, p.CLI = b.t.Output(), argv[0]
		if len(argv) > 1 {
			p.CLI, p.Command = agents.ACP, argv
		}
	}
	switch cli {
	case "opencode acp":
		vars = append(vars, `OPENCODE_CONFIG_CONTENT={"model":"own/fake-model","small_model":"own/fake-model",`+
			`"permission":{"*":"ask"},"provider":{"own":{"npm":"@ai-sdk/openai-compatible","options":{"baseURL":"`+
			model.URL+`/v1","apiKey":"local"},"models":{"fake-model":{"limit":{"context":32768,"output":8192}}}}}}`)
	case "qwen --acp":
		argv = append(argv, "--auth-type", "openai")
	}
	return vars
}

func interruptReal(t *testing.T, bin, cli string, end fakemodel.Turn) {
	b, ended := newBench(t), false
	model := httptest.NewServer(&fakemodel.Model{Context: 65536, Answer: func(a fakemodel.Prompt) fakemodel.Turn {
		switch {
		case !ended && !a.Answer:
			return fakemodel.Turn{Shell: `echo c > c.txt; git add c.txt; git commit -qm c; echo more >> c.txt
echo half > half.txt`}
		case !ended:
			return end
		case a.Answer:
			return fakemodel.Turn{Text: "Done."}
		}
		return fakemodel.Turn{Shell: `grep -q more c.txt && git add half.txt && git commit -qam d`}
	}})
	defer model.Close()
	vars := b.real(bin, cli, model)
	first := b.run("dev-qwen", agents.KindIssue, 8, "", vars...)
	if first.Result == agents.Done {
		t.Fatalf("got %+v, want a session that was cut", first)
	}
	ended = true
	b.commitToMain("elsewhere.txt")
	b.want(agents.Done, "opened #12", "dev-qwen", agents.KindIssue, 8, "", vars...)
	if got := b.subjects(12); !slices.Equal(got, []string{"d", "c"}) {
		t.Errorf("got the commits %q", got)
	}
	if got := b.files("fix/issue-8"); !slices.Contains(got, "half.txt") {
		t.Errorf("got the files %q, want half.txt", got)
	}
	prompts := model.Config.Handler.(*fakemodel.Model).Prompts()
	if last := prompts[len(prompts)-1].Text; !strings.Contains(last, "An earlier session stopped here") {
		t.Error("the prompt does not say that an earlier session stopped")
	}
}
