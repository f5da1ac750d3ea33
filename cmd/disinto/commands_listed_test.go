package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEveryCommandIsListed expects each constructor of a command in commands.go, or in that of the command whose member
// it is. Without a line there the program does not have the command, and everything compiles.
func TestEveryCommandIsListed(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found, used := make(map[string]string), make(map[string]bool)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || name == "elsewhere.go" { // which has the same names
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && makesCommand(fn) {
				found[fn.Name.Name] = name
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if id, ok := call.Fun.(*ast.Ident); ok {
						used[id.Name] = true
					}
				}
				return true
			})
		}
	}
	if len(found) < 30 {
		t.Errorf("found only %d constructors of commands", len(found))
	}
	for constructor, file := range found {
		if !used[constructor] {
			t.Errorf("%s: nothing calls %s: add it to its group in commands.go", file, constructor)
		}
	}
}

// makesCommand reports whether a function is func(*cli) *cobra.Command.
func makesCommand(fn *ast.FuncDecl) bool {
	if fn.Recv != nil || fn.Type.Results.NumFields() != 1 || fn.Type.Params.NumFields() != 1 {
		return false
	}
	of := func(e ast.Expr) ast.Expr {
		if star, ok := e.(*ast.StarExpr); ok {
			return star.X
		}
		return nil
	}
	param, isCLI := of(fn.Type.Params.List[0].Type).(*ast.Ident)
	result, isCommand := of(fn.Type.Results.List[0].Type).(*ast.SelectorExpr)
	return isCLI && param.Name == "cli" && isCommand && result.Sel.Name == "Command"
}

// notForModels has the commands for a supervisor that are no tools of mcp, and why.
var notForModels = map[string]string{
	"logs":            "the output of agents is long, and they choose its words",
	"report":          "money is the operator's affair",
	"release":         "only a person knows that another host is gone",
	"approve":         "it is the approval of a person",
	"tell":            "its words count as a person's",
	"pause":           "it stops the factory, not a piece of work",
	"drain":           "it stops the factory, not a piece of work",
	"resume":          "it ends what a person decided",
	"adopt-state":     "only a person knows which of two supervisors goes on",
	"restart":         "services belong to the operator",
	"stop":            "services belong to the operator",
	"fleet status":    "hosts belong to the operator",
	"fleet rebalance": "hosts belong to the operator",
	"batch list":      "convoy_status without a reference answers the same",
	"mcp":             "it is the server of the tools",
}

// TestEveryCommandIsForModels expects a tool of mcp for each command that asks a supervisor, or a reason why not.
func TestEveryCommandIsForModels(t *testing.T) {
	session := mcpClient(t, nil, "--state", t.TempDir())
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	tools := make(map[string]bool)
	for _, tool := range list.Tools {
		// The tools have the words of the seeds, which models know by now.
		name := strings.Replace(tool.Name, "convoy_", "batch ", 1)
		if name == "sling" {
			name = "start"
		}
		tools[name] = true
	}
	reasons := maps.Clone(notForModels)
	for _, cmd := range everyCommand() {
		name := strings.TrimPrefix(cmd.CommandPath(), "disinto ")
		if _, not := notForModels[name]; cmd.Flags().Lookup("address") != nil && tools[name] == not {
			t.Errorf("%s is a tool of mcp: %t, and notForModels has it: %t; want one of the two", name, tools[name], not)
		}
		delete(reasons, name)
	}
	if len(reasons) > 0 {
		t.Errorf("notForModels has commands that are gone: %q", slices.Sorted(maps.Keys(reasons)))
	}
}
