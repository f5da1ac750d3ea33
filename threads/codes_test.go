package threads

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"testing"
)

// TestEveryCodeIsClassified checks that each constant of type Code has one row in the table, with a class and words.
// Without a row, a convoy would count the code as blocked.
func TestEveryCodeIsClassified(t *testing.T) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]int)
	for _, d := range Codes() {
		rows[`"`+string(d.Code)+`"`]++
		if d.Class == 0 || d.Means == "" || d.text == "" {
			t.Errorf("the row of %s is incomplete: %+v", d.Code, d)
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Code" {
			value := spec.Values[0].(*ast.BasicLit).Value
			if rows[value] != 1 {
				t.Errorf("%s = %s has %d rows in codes.go, want one", spec.Names[0], value, rows[value])
			}
			delete(rows, value)
		}
		return true
	})
	if len(rows) > 0 {
		t.Errorf("rows without a constant: %v", slices.Collect(maps.Keys(rows)))
	}
}
