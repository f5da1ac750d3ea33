package file

import (
	"cmp"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents"
)

// variables reads a table of a service's environment variables, and returns them sorted.
func (t *table) variables(key string) (list []string) {
	t.eachVariable(key, func(_ *table, name, value string) { list = append(list, name+"="+value) })
	slices.Sort(list)
	return list
}

// vars reads the environment variables of a thread's agents, sorted by name. A value is literal, or $NAME for a
// variable of the supervisor. Those that hold a credential are secrets of the thread.
func (t *table) vars(key, thread string) (list []agents.Var) {
	t.eachVariable(key, func(e *table, name, value string) {
		switch {
		case strings.HasPrefix(name, "FORGE_"), strings.HasPrefix(name, "GIT_AUTHOR_"),
			strings.HasPrefix(name, "GIT_COMMITTER_"), name == "HOME", name == "PWD":
			e.wrong(name, "is set by disinto itself")
		}
		from, named := strings.CutPrefix(value, "$")
		if named {
			if value, named = e.lookup(name, from); !named {
				return
			}
		} else {
			from = ""
		}
		v := agents.Var{Name: name, Value: agents.Secret(value)}
		if agents.SecretVariable(name, value) {
			t.d.keep(agents.SecretVar{Name: from, Value: v.Value, Thread: thread})
		}
		list = append(list, v)
	})
	slices.SortFunc(list, func(a, b agents.Var) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// eachVariable visits the variables of a table.
func (t *table) eachVariable(key string, visit func(e *table, name, value string)) {
	e := t.table(key)
	if e.named(); e.noted != nil {
		e.noted.at("").Type = "string"
	}
	for name := range e.values {
		value := e.text(name)
		switch {
		case !envName.MatchString(name):
			e.wrong(name, "is not the name of an environment variable")
		case strings.HasPrefix(name, "DISINTO_"):
			e.wrong(name, "is set by disinto itself")
		case strings.ContainsRune(value, 0):
			e.wrong(name, "has a NUL character in it")
		}
		visit(e, name, value)
	}
	e.done()
}
