package disinto_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"testing"

	"codeberg.org/johba/disinto/agents"
)

// kindsFile has the kinds of backends and their answers.
const kindsFile = "agents/backend.go"

// checkBackends reports comparisons with a kind of backend. The code asks a kind for its answer (agents.Backend), so
// that a new kind answers everywhere. The worlds restate the rule of pairing independently.
func (s *source) checkBackends(names []string) (failures []string) {
	kind := func(e ast.Expr) bool {
		sel, ok := e.(*ast.SelectorExpr)
		if !ok {
			id, plain := e.(*ast.Ident)
			return plain && (s.dir == "threads" || s.dir == "agents") && slices.Contains(names, id.Name)
		}
		pkg, ok := sel.X.(*ast.Ident)
		return ok && (pkg.Name == "threads" || pkg.Name == "agents") && slices.Contains(names, sel.Sel.Name)
	}
	fail := func(at token.Pos) {
		failures = append(failures, fmt.Sprintf("%s: compares with a kind of backend: ask it, with a method in %s", s.at(at),
			kindsFile))
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if (n.Op == token.EQL || n.Op == token.NEQ) && (kind(n.X) || kind(n.Y)) {
				fail(n.Pos())
			}
		case *ast.CaseClause:
			if slices.ContainsFunc(n.List, kind) {
				fail(n.Pos())
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

// TestEveryKindHasARow expects each kind of backend and each trigger in the table with its answers.
func TestEveryKindHasARow(t *testing.T) {
	rows := map[string][]string{"Backend": nil, "On": nil}
	for _, b := range agents.Backends() {
		rows["Backend"] = append(rows["Backend"], fmt.Sprintf("%q", b))
	}
	for _, on := range agents.Triggers() {
		rows["On"] = append(rows["On"], fmt.Sprintf("%q", on))
	}
	all := sources(t)
	kinds := slices.IndexFunc(all, func(s *source) bool { return s.name == kindsFile })
	names, _ := all[kinds].constants("Backend")
	for _, s := range all {
		if s.dir == "agents" && !s.test {
			for typ, list := range rows {
				_, values := s.constants(typ)
				for _, value := range values {
					if !slices.Contains(list, value) {
						t.Errorf("%s: %s %s has no row in the table of %s", s.name, typ, value, typ)
					}
				}
			}
		}
		if !s.test && s.dir != "threads/worlds" && s.name != kindsFile {
			report(t, s.checkBackends(names))
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
