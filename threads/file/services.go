package file

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

func (d *decoder) readServices(tables []*table) {
	for _, t := range tables {
		d.checkName(t, otherName)
		if d.config.Agent(t.name()) != nil {
			d.wrong(t.line, t.path, "is the name of an agent, too: disinto logs could not tell them apart")
		}
		s := threads.Service{
			Name: t.name(), Command: t.program("command"), Before: t.programs("before"), Needs: t.set("needs"),
			User: t.text("user"), Limits: t.limits(), Env: t.variables("env"), Cwd: t.directory("cwd"),
			Oneshot: t.truth("oneshot", false), Restart: threads.Restart(t.choice("restart", restarts...)),
			StopSignal: t.choice("stop_signal", agents.StopSignals...), Grace: t.duration("grace", 0, time.Second),
			Stdout: t.truth("stdout", false),
		}
		if !t.has("command") {
			t.wrong("command", `is not set, want a list such as ["llama-server", "--port", "8080"]`)
		}
		t.ready(&s)
		t.checkOneshot(&s)
		t.done()
		d.config.Services = append(d.config.Services, s)
	}
	slices.SortFunc(d.config.Services, func(a, b threads.Service) int { return cmp.Compare(a.Name, b.Name) })
	for i := range d.config.Services {
		d.checkNeeds(&d.config.Services[i])
	}
}

// program reads a command and its arguments, which are not templates.
func (t *table) program(key string) []string {
	const want = `a list such as ["llama-server", "--port", "8080"]`
	values, _ := get[[]any](t, key, want)
	t.shapeOf(key).Items = &shape{Type: "string"}
	return t.words(key, values, t.has(key), want)
}

// programs reads a list of commands.
func (t *table) programs(key string) (all [][]string) {
	const want = `a list of commands such as [["mkdir", "-p", "/models"]]`
	values, _ := get[[]any](t, key, want)
	t.shapeOf(key).Items = &shape{Type: "array", Items: &shape{Type: "string"}}
	for _, v := range values {
		words, ok := v.([]any)
		if !ok {
			t.wrong(key, "has %s in it, want %s", kindOf(v), want)
			continue
		}
		all = append(all, t.words(key, words, true, want))
	}
	return all
}

// words checks a command: its program is not empty, and no word contains a NUL, which ends a string in the kernel.
func (t *table) words(key string, values []any, there bool, want string) (command []string) {
	for i, v := range values {
		word, ok := v.(string)
		switch {
		case !ok:
			t.wrong(key, "has %s in it, want %s", kindOf(v), want)
			continue
		case strings.ContainsRune(word, 0):
			t.wrong(key, "has a NUL character in it")
		case i == 0 && strings.TrimSpace(word) == "":
			t.wrong(key, "has an empty program")
		}
		command = append(command, word)
	}
	if there && values != nil && len(values) == 0 {
		t.wrong(key, "is empty, want %s", want)
	}
	return command
}

var restarts = []string{string(threads.RestartAlways), string(threads.RestartOnFailure), string(threads.RestartNever)}

// choice reads one of a few words; empty without the key.
func (t *table) choice(key string, words ...string) string {
	if !t.has(key) && t.noted == nil {
		t.ignore(key)
		return ""
	}
	return t.oneOf(key, "", words...)
}

// directory reads an absolute path; empty without the key.
func (t *table) directory(key string) string {
	path := t.text(key)
	if t.has(key) && (!strings.HasPrefix(path, "/") || strings.ContainsRune(path, 0)) {
		t.wrong(key, "is %q, want an absolute path", path)
	}
	return path
}

// ready reads how to find out whether a service can be used: an address, a command, or a table of both with the
// thresholds.
func (t *table) ready(s *threads.Service) {
	const want = `an address such as "http://127.0.0.1:8080/health", or a command such as ["pg_isready"]`
	switch v := t.values["ready"].(type) {
	case string:
		s.ReadyURL = t.address("ready", "", v)
	case []any:
		s.ReadyCommand = t.words("ready", v, true, want)
	case nil, map[string]any:
		t.readiness(s)
	default:
		t.wrong("ready", "is %s, want %s", kindOf(v), want)
	}
	note := t.shapeOf("ready") // last, because the shapes of a table's keys are not those of a list's items
	t.ignore("ready")
	note.Type, note.Items = []string{"string", "array", "object"}, &shape{Type: "string"}
}

// readiness reads the table ready.
func (t *table) readiness(s *threads.Service) {
	r := t.table("ready")
	if url := r.text("url"); r.has("url") {
		s.ReadyURL = t.address("ready", "url", url)
	}
	s.ReadyCommand = r.program("command")
	s.ReadyAfter = r.duration("after", 0, time.Second)
	s.ReadyTimeout = r.duration("timeout", 0, time.Second)
	s.ReadyFailures = r.number("failures", 0, 1)
	s.RestartAfter = r.duration("restart_after", 0, 10*time.Second)
	asks := r.has("url") || r.has("command")
	switch {
	case r.has("url") && r.has("command"):
		r.wrong("command", "is set, and url is too: want one of them")
	case r.has("after") && asks:
		r.wrong("after", "is set, and so is a check, which says when it is ready")
	case t.has("ready") && !asks && !r.has("after"):
		t.wrong("ready", "has neither url, command nor after in it")
	}
	for _, key := range []string{"timeout", "failures", "restart_after"} {
		if r.has("after") && !asks && r.has(key) {
			r.wrong(key, "is set, and there is no check: want url or command")
		}
	}
	r.done()
}

// checkOneshot refuses keys that contradict oneshot.
func (t *table) checkOneshot(s *threads.Service) {
	if s.Oneshot && t.has("ready") {
		t.wrong("ready", "is set, and oneshot is too: that one is ready when its command has ended with 0")
	}
	if s.Oneshot && s.Restart == threads.RestartAlways {
		t.wrong("restart", `is "always", and oneshot is set: want "on-failure" or "never"`)
	}
}

// checkNeeds refuses needs that can never be met: services that do not exist, and services that need each other. It
// reports a circle once, at the first of its services.
func (d *decoder) checkNeeds(s *threads.Service) {
	key := toml.Key{"services", s.Name, "needs"}
	var names []string
	for i := range d.config.Services {
		names = append(names, d.config.Services[i].Name)
	}
	for _, name := range s.Needs {
		if d.config.Service(name) == nil {
			d.wrong(d.lineOf(key), key, "has %q in it, which is no service%s", name, threads.Suggest(name, names))
		}
	}
	circle := way(s.Name, s.Name, func(name string) []string {
		if x := d.config.Service(name); x != nil {
			return x.Needs
		}
		return nil
	})
	if len(circle) > 0 && slices.Min(circle) == s.Name {
		d.wrong(d.lineOf(key), key, "leads in a circle, so none of these could start: %s", strings.Join(circle, " -> "))
	}
}
