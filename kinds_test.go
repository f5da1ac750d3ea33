package disinto_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"testing"

	"codeberg.org/johba/disinto/agents"
)

// kinds are the types whose constants the code does not compare with: it asks one for its answer, so that a new one
// answers everywhere. file has the constants and the table with their answers.
var kinds = []struct {
	typ, file string
	rows      func() []string
}{
	{"Backend", "agents/backend.go", func() []string { return quoted(agents.Backends()) }},
	{"On", "agents/trigger.go", func() []string { return quoted(agents.Triggers()) }},
}

func quoted[T ~string](words []T) (list []string) {
	for _, word := range words {
		list = append(list, fmt.Sprintf("%q", word))
	}
	return list
}

// checkComparisons reports comparisons with one of the constants of a type that has a table.
func (s *source) checkComparisons(names []string, table string) (failures []string) {
	kind := func(e ast.Expr) bool {
		sel, ok := e.(*ast.SelectorExpr)
		if !ok {
			id, plain := e.(*ast.Ident)
			return plain && (s.dir == "threads" || s.dir == "agents") && slices.Contains(names, id.Name)
		}
		pkg, ok := sel.X.(*ast.Ident)
		return ok && (pkg.Name == "threads" || pkg.Name == "agents") && slices.Contains(names, sel.Sel.Name)
	}
	fail := func(n ast.Node) {
		failures = append(failures, fmt.Sprintf("%s: compares with a kind: ask it, by a method in %s", s.at(n.Pos()), table))
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if (n.Op == token.EQL || n.Op == token.NEQ) && (kind(n.X) || kind(n.Y)) {
				fail(n)
			}
		case *ast.CaseClause:
			if slices.ContainsFunc(n.List, kind) {
				fail(n)
			}
		}
		return true
	})
	return failures
}

// constants returns the names and the values of the constants of a type, as in its declaration.
func (s *source) constants(typ string) (names, values []string) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); ok && id.Name == typ {
			for i, v := range spec.Values {
				names = append(names, spec.Names[i].Name)
				if lit, ok := v.(*ast.BasicLit); ok {
					values = append(values, lit.Value)
				}
			}
		}
		return true
	})
	return names, values
}

// TestEveryKindHasARow expects each kind of backend and each trigger in the table with its answers, and no comparison
// with one elsewhere. The worlds restate the rules independently.
func TestEveryKindHasARow(t *testing.T) {
	all := sources(t)
	for _, k := range kinds {
		rows := k.rows()
		var names []string
		for _, s := range all {
			if s.dir == "agents" && !s.test {
				more, values := s.constants(k.typ)
				names = append(names, more...)
				for _, value := range values {
					if !slices.Contains(rows, value) {
						t.Errorf("%s: %s %s has no row in the table of %s", s.name, k.typ, value, k.file)
					}
				}
			}
		}
		if len(names) < 2 {
			t.Errorf("found %d constants of type %s", len(names), k.typ)
		}
		for _, s := range all {
			if !s.test && s.dir != "threads/worlds" && s.name != k.file {
				report(t, s.checkComparisons(names, k.file))
			}
		}
	}
}

// TestEveryKindIsHandled expects each constant of some types of package threads in the table that acts on it: without a
// row there, a chore would fail, and a message would never be sent.
func TestEveryKindIsHandled(t *testing.T) {
	all := sources(t)
	for _, table := range []struct{ typ, in string }{
		{"Action", "supervisor/chores.go"},
		{"RecipientKind", "supervisor/notify/send.go"},
		{"RecipientKind", "threads/file/notify.go"},
	} {
		var names []string
		named := make(map[string]bool)
		for _, s := range all {
			if s.dir == "threads" && !s.test {
				more, _ := s.constants(table.typ)
				names = append(names, more...)
			}
			if s.name == table.in {
				ast.Inspect(s.file, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						named[id.Name] = true
					}
					return true
				})
			}
		}
		if len(names) < 2 {
			t.Errorf("found %d constants of type %s", len(names), table.typ)
		}
		for _, name := range names {
			if !named[name] {
				t.Errorf("%s does not handle %s, a threads.%s", table.in, name, table.typ)
			}
		}
	}
}
