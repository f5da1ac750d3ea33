package file

import (
	"cmp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

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
			User: t.text("user"), Limits: t.limits(),
		}
		if !t.has("command") {
			t.wrong("command", `is not set, want a list such as ["llama-server", "--port", "8080"]`)
		}
		s.ReadyURL, s.ReadyCommand = t.ready()
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

// ready reads how to find out whether a service can be used: an address or a command.
func (t *table) ready() (address string, command []string) {
	const want = `an address such as "http://127.0.0.1:8080/health", or a command such as ["pg_isready"]`
	t.ignore("ready")
	note := t.shapeOf("ready")
	note.Type, note.Items = []string{"string", "array"}, &shape{Type: "string"}
	switch v := t.values["ready"].(type) {
	case nil:
	case string:
		return t.address("ready", "", v), nil
	case []any:
		return "", t.words("ready", v, true, want)
	default:
		t.wrong("ready", "is %s, want %s", kindOf(v), want)
	}
	return "", nil
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
	circle := d.roundTrip(s.Name, []string{s.Name}, make(map[string]bool))
	if len(circle) > 0 && slices.Min(circle) == s.Name {
		d.wrong(d.lineOf(key), key, "leads in a circle, so none of these could start: %s", strings.Join(circle, " -> "))
	}
}

// roundTrip extends a path along needs from its last service to another service; nil if there is no such path. It
// visits every service once.
func (d *decoder) roundTrip(to string, path []string, seen map[string]bool) []string {
	s := d.config.Service(path[len(path)-1])
	if s == nil || seen[s.Name] {
		return nil
	}
	seen[s.Name] = true
	for _, name := range s.Needs {
		way := append(slices.Clone(path), name)
		if name != to {
			way = d.roundTrip(to, way, seen)
		}
		if way != nil {
			return way
		}
	}
	return nil
}
