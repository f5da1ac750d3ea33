package nomad

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
)

// For some constraints Nomad reports what a node must have, for others what it lacks.
func TestFailureReadsAsASentence(t *testing.T) {
	f := failure{
		ConstraintFiltered: map[string]int{"${meta.llama} = box1": 1, "missing compatible host volumes": 2},
		DimensionExhausted: map[string]int{"memory": 3},
	}
	const want = "no node takes it: 1 without ${meta.llama} = box1, 2 without compatible host volumes, " +
		"3 without enough memory"
	if got := f.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// Of several nodes of the same class, Nomad checks one.
	f = failure{ConstraintFiltered: map[string]int{"${meta.llama} = box1": 1, "computed class ineligible": 4}}
	if got := f.String(); got != "no node takes it: 1 without ${meta.llama} = box1" {
		t.Error(got)
	}
	if got := (failure{}).String(); got != "no node takes it: none is ready" {
		t.Error(got)
	}
}

// TestUnfit: a session is not submitted if no node can ever run it, for its rules, its limits, its pool, its program or
// its account. It is submitted if the nodes lack room or are not ready, because that can change in a moment.
func TestUnfit(t *testing.T) {
	onBoth(t, func(b *bench) {
		why := func(job agents.Job) string {
			why, err := b.exec.Unfit(b.Context(), job)
			if err != nil {
				b.Error(err)
			}
			return why
		}
		inBox := agents.Job{Sandbox: inSandbox(b.dir)}
		if got := why(inBox); got != "" {
			b.Errorf("Unfit without a rule = %q, want \"\"", got)
		}
		for want, change := range unfits(b) {
			job := inBox
			if change(&job); why(job) != want {
				b.Errorf("Unfit = %q, want %q", why(job), want)
			}
		}
		b.exec.Config = func() Config {
			cfg := environConfig(b.net.server.URL)
			cfg.Program = "/no/such/disinto"
			return cfg
		}
		got := ""
		b.eventually("Unfit knows how the try ended", func() bool { got = why(inBox); return got != "" })
		if !strings.Contains(got, "it cannot start session-run: ") || !strings.Contains(got, "/no/such/disinto") {
			b.Errorf("Unfit without the program = %q", got)
		}
		b.eventually("no job of a try is left", b.nothingTried)
	})
}

// unfits returns changes of a job with the reason why no node can run it then.
func unfits(b *bench) map[string]func(*agents.Job) {
	rule := func(attribute, operator, value string) func(*agents.Job) {
		return func(j *agents.Job) {
			j.Nodes = []agents.NodeRule{{Attribute: attribute, Operator: operator, Value: value}}
		}
	}
	return map[string]func(*agents.Job){
		b.nodes() + " without ${meta.llama} = box9": rule("meta.llama", "", "box9"),
		b.nodes() + " without ${meta.gpu} is_set":   rule("meta.gpu", "is_set", ""),
		b.nodes() + " without 900G of memory":       func(j *agents.Job) { j.Limits.Memory = 900 << 30 },
		b.nodes() + " without 900 cores to reserve": func(j *agents.Job) { j.Limits.Cores = 900 },
		"there is no node in moon": func(j *agents.Job) {
			j.Target.Datacenters = []string{"moon"}
		},
		`Nomad answers 500: job "disinto-place" is in nonexistent node pool "nowhere"`: func(j *agents.Job) {
			j.Target.Pool = "nowhere"
		},
	}
}

// nothingTried reports whether no job of a try is left.
func (b *bench) nothingTried() bool {
	b.Helper()
	jobs, _, err := b.client().listJobs(b.Context(), jobID("place"), 0)
	return len(jobs) == 0 && err == nil
}

// TestUnfitLater: a lack of room, of a ready node or of an answer does not last.
func TestUnfitLater(t *testing.T) {
	b := newBench(t)
	job := agents.Job{Sandbox: inSandbox(b.dir)}
	b.fake.SetFull(true)
	if got, err := b.exec.Unfit(b.Context(), job); got != "" || err != nil {
		b.Errorf("Unfit without room = %q, %v, want \"\"", got, err)
	}
	b.fake.Disconnect("box1", false)
	b.fake.Disconnect("box2", false)
	if got, err := b.exec.Unfit(b.Context(), job); got != "" || err != nil {
		b.Errorf("Unfit without a node = %q, %v, want \"\"", got, err)
	}
	b.net.setDown(true)
	if got, err := b.exec.Unfit(b.Context(), job); got != "" || err == nil {
		b.Errorf("Unfit without a server = %q, %v, want an error", got, err)
	}
}

// TestTryAccount: a node without the account of the sessions is found before the first session, and so is one without a
// sandbox for sessions that need one.
func TestTryAccount(t *testing.T) {
	onBoth(t, func(b *bench) {
		job := agents.Job{User: "no-such-account"}
		why := ""
		b.eventually("Unfit knows how the try ended", func() bool {
			var err error
			why, err = b.exec.Unfit(b.Context(), job)
			return why != "" || err != nil
		})
		if !strings.Contains(why, "it has no account no-such-account") {
			b.Errorf("Unfit = %q, want the missing account", why)
		}
		cfg := b.exec.Config()
		_, problems := Check(b.Context(), cfg, []agents.Job{job})
		if words := fmt.Sprint(lines(problems)); !strings.Contains(words, "cannot run sessions of thread") ||
			!strings.Contains(words, "it has no account no-such-account") {
			b.Errorf("Check finds %s, want the missing account", words)
		}
	})
	p := &SessionRun{Environ: []string{"PATH=/nowhere"}, NoSandbox: func() error { return errors.New("too old") }}
	want := map[string]string{
		`{"Format":1}`: "a session without `user` needs a sandbox on a node, because it could read the tokens of other " +
			"sessions there, and it has none: too old; it has no git",
		`{"Format":1,"Isolated":true}`: "it has no git",
		`{"Format":99,"User":"root"}`:  "its disinto is older than the supervisor's; it has no git",
	}
	for question, want := range want {
		if o := p.answer(question); o.Result != agents.NoPlace || o.Reason != want {
			t.Errorf("the answer to %s is %s: %s, want %s", question, o.Result, o.Reason, want)
		}
	}
}

// TestTryEgress: check says which nodes do not hold the egress of sessions, and that a strict one does not start there.
func TestTryEgress(t *testing.T) {
	onBoth(t, func(b *bench) {
		job := agents.Job{User: "root"}
		const want = "egress is advisory: the kernel is old"
		about, _ := Check(b.Context(), b.exec.Config(), []agents.Job{job})
		if strings.Contains(about, want) {
			b.Errorf("without egress: %s", about)
		}
		job.Sandbox = agents.Sandbox{Mode: agents.SandboxAuto, Egress: []string{}}
		about, problems := Check(b.Context(), b.exec.Config(), []agents.Job{job})
		if !strings.Contains(about, "; on node ") || !strings.Contains(about, ", "+want) || len(problems) > 0 {
			b.Errorf("Check = %s, %v", about, problems)
		}
		job.Sandbox.Mode = agents.SandboxStrict
		about, problems = Check(b.Context(), b.exec.Config(), []agents.Job{job})
		if words := fmt.Sprint(lines(problems)); strings.Contains(about, want) ||
			!strings.Contains(words, "their sandbox is strict: "+want) {
			b.Errorf("a strict one: Check = %s, %s", about, words)
		}
	})
}

// TestNamespaces: a session in a namespace of its own is found there by the next supervisor.
func TestNamespaces(t *testing.T) {
	onBoth(t, func(b *bench) {
		b.addNamespace("lab")
		job := b.job(untilEnd)
		job.Target.Namespace = "lab"
		out, end := b.run(job)
		end(agents.ErrDetached)
		b.want(<-out, agents.Lost, "continues", 1)
		if runs, err := b.exec.Unreported(b.Context(), job.Instance); len(runs) != 1 || err != nil {
			b.Errorf("Unreported = %q, %v, want the run", runs, err)
		}
		go func() { out <- b.exec.Run(b.Context(), agents.Job{RunID: job.RunID}, nil) }()
		b.touch("end")
		b.want(<-out, agents.Done, "", 1)
		var log strings.Builder
		if err := b.exec.Log(b.Context(), job.RunID, false, &log); err != nil {
			b.Errorf("the log: %v", err)
		}
		b.wantNothingLeft(job)
	})
}

// addNamespace adds a namespace to a real Nomad. The fake has every namespace.
func (b *bench) addNamespace(name string) {
	b.Helper()
	if b.fake != nil {
		return
	}
	body := table{"Name": name}
	if _, err := b.client().call(b.Context(), http.MethodPut, "/namespace", nil, body, nil); err != nil {
		b.Fatal(err)
	}
}

// TestPool: a session in a node pool runs on a node of that pool.
func TestPool(t *testing.T) {
	b := newBench(t)
	b.fake.SetPool("box2", "gpu")
	job := b.job("true")
	job.Target.Pool = "gpu"
	b.want(b.exec.Run(b.Context(), job, nil), agents.Done, "", 1)
	if got := b.allocs()[0].Node; got != "box2" {
		b.Errorf("it ran on %s, want box2", got)
	}
}

// TestDrivers: a session runs under each driver of Nomad: what isolates it gives it the order in its environment, and
// no order is left where it runs. On a real Nomad, $NOMAD_TEST_PROGRAM is the path of this test's program in the chroot
// of the driver exec, and $NOMAD_TEST_IMAGE an image that has it there, too.
func TestDrivers(t *testing.T) {
	script := `cd; touch x && echo "at home as $(id -u), $FORGE_TOKEN"; ls "$NOMAD_SECRETS_DIR" /secrets 2>/dev/null; true`
	run := func(b *bench, target agents.Target) string {
		job := b.job("")
		job.Command[2], job.Target, job.Sandbox = script, target, agents.Sandbox{Mode: agents.SandboxAuto}
		if b.fake == nil {
			job.Env = []string{"T=/local"}
		}
		out := b.exec.Run(b.Context(), job, nil)
		var log strings.Builder
		if err := b.exec.Log(b.Context(), job.RunID, false, &log); err != nil || out.Result != agents.Done {
			b.Errorf("%+v: got %+v, %q, %v, want done", target, out, &log, err)
		}
		if !strings.Contains(log.String(), "at home as ") || strings.Contains(log.String(), "hunter2") ||
			strings.Contains(log.String(), orderFile) {
			b.Errorf("%+v: the log is %q, want a home, no secret and no order", target, &log)
		}
		return log.String()
	}
	t.Run("fake", func(t *testing.T) {
		b := newBench(t)
		run(b, agents.Target{Driver: agents.DriverExec})
		if code := b.allocs()[0].Events[1].Details["exit_code"]; code != "0" {
			t.Errorf("session-run ended with %s, want 0", code)
		}
	})
	for _, target := range []agents.Target{
		{Driver: agents.DriverExec}, {Driver: agents.DriverDocker, Image: os.Getenv("NOMAD_TEST_IMAGE")},
	} {
		t.Run("real/"+target.Driver, func(t *testing.T) {
			program := os.Getenv("NOMAD_TEST_PROGRAM")
			if program == "" || target.Driver == agents.DriverDocker && target.Image == "" {
				t.Skip("NOMAD_TEST_PROGRAM or NOMAD_TEST_IMAGE is not set")
			}
			b := benchAt(t, real(t))
			config := b.exec.Config()
			config.Program = program
			b.exec.Config = func() Config { return config }
			t.Log(run(b, target))
		})
	}
}
