//go:build storms

// The type checker that these tests need takes longer to compile than all other tests of this folder.

package disinto_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// floored are the packages whose files stand in floors: each file uses only declarations of files below it, and two
// files never use each other. A reader who starts at the bottom never meets an unknown name. The structs of a package
// named here do not count: their methods are spread over its files on purpose, and their fields have types of most.
//
// Package supervisor once had 45 uses that ran upward, of 873, and 59 of its 68 files in one circle.
var floored = map[string][]string{"supervisor": {
	"Supervisor", "core", "state", "scanner", "planner", "sessionRunner", "clerk", "convoys", "commands", "conversation",
	"pausing", "history", "inference", "serviceRunner", "receipting", "cleaner",
}}

// use is a declaration of one file that another file names.
type use struct{ from, to, name string }

func (u use) compare(v use) int {
	return cmp.Or(strings.Compare(u.from, v.from), strings.Compare(u.to, v.to), strings.Compare(u.name, v.name))
}

// noImports imports every package empty. Names of this package still resolve, except in expressions whose type comes
// from an imported package.
type noImports struct{}

func (noImports) Import(name string) (*types.Package, error) {
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}

// usesBetween returns what the files of a package use of each other, except the types named in structs.
func usesBetween(fset *token.FileSet, files []*ast.File, structs []string) map[use]bool {
	info := types.Info{Uses: make(map[*ast.Ident]types.Object), Defs: make(map[*ast.Ident]types.Object)}
	lenient := types.Config{Importer: noImports{}, Error: func(error) {}}
	pkg, _ := lenient.Check("floored", fset, files, &info) // the compiler reports true errors
	methods := make(map[string][]types.Object)
	for _, object := range info.Defs {
		if f, ok := object.(*types.Func); ok && f.Signature().Recv() != nil {
			methods[f.Name()] = append(methods[f.Name()], f)
		}
	}
	uses := make(map[use]bool)
	add := func(id *ast.Ident, object types.Object) {
		from := filepath.Base(fset.Position(id.Pos()).Filename)
		if to := filepath.Base(fset.Position(object.Pos()).Filename); from != to {
			uses[use{from, to, nameOf(object)}] = true
		}
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr: // the key of a struct of unknown type is a field, not a name of this package
				if key, ok := n.Key.(*ast.Ident); ok && info.Uses[key] == nil && key.IsExported() {
					info.Uses[key] = types.NewField(key.Pos(), nil, key.Name, nil, false)
				}
			case *ast.SelectorExpr: // an unexported method is ours, whatever the type
				if info.Uses[n.Sel] == nil && !n.Sel.IsExported() {
					for _, m := range methods[n.Sel.Name] {
						add(n.Sel, m)
					}
				}
			case *ast.Ident:
				object := info.Uses[n]
				if object == nil && info.Defs[n] == nil {
					object = pkg.Scope().Lookup(n.Name)
				}
				if counts(pkg, object) && !slices.Contains(structs, object.Name()) {
					add(n, object)
				}
			}
			return true
		})
	}
	return uses
}

// counts reports whether an object is a function, method, type, variable or constant that a package declares.
func counts(pkg *types.Package, object types.Object) bool {
	if object == nil || object.Pkg() != pkg || !object.Pos().IsValid() {
		return false
	}
	_, isFunction := object.(*types.Func)
	return isFunction || object.Parent() == pkg.Scope()
}

// nameOf returns the name of a declaration, with its receiver's type.
func nameOf(object types.Object) string {
	if f, ok := object.(*types.Func); ok {
		if recv := f.Signature().Recv(); recv != nil {
			_, name, _ := strings.Cut(recv.Type().String(), "floored.")
			return name + "." + f.Name()
		}
	}
	return object.Name()
}

// inFloors orders files from the ground up so that few uses run upward: a file moves as long as that saves some. It
// finds an order without any where there is one, and elsewhere one that names the few uses to move.
func inFloors(uses map[use]bool) []string {
	weight, seen := make(map[[2]string]int), make(map[string]bool)
	for u := range uses {
		weight[[2]string{u.from, u.to}]++
		seen[u.from], seen[u.to] = true, true
	}
	order := fromTheGround(slices.Sorted(maps.Keys(seen)), weight)
	for moved := true; moved; {
		moved = false
		for _, file := range slices.Clone(order) {
			at := slices.Index(order, file)
			best, saved := at, 0
			for _, step := range []int{1, -1} {
				sum := 0
				for i := at + step; i >= 0 && i < len(order); i += step {
					sum += step * (weight[[2]string{file, order[i]}] - weight[[2]string{order[i], file}])
					if sum > saved {
						best, saved = i, sum
					}
				}
			}
			if saved > 0 {
				order = slices.Insert(slices.Delete(order, at, at+1), best, file)
				moved = true
			}
		}
	}
	return order
}

// fromTheGround takes away one file at a time: one that uses none of those left, else one that is used much and uses
// little.
func fromTheGround(left []string, weight map[[2]string]int) (order []string) {
	for len(left) > 0 {
		score := func(file string) (uses, balance int) {
			for _, other := range left {
				uses += weight[[2]string{file, other}]
				balance += weight[[2]string{file, other}] - weight[[2]string{other, file}]
			}
			return uses, balance
		}
		next := slices.MinFunc(left, func(a, b string) int {
			usesA, balanceA := score(a)
			usesB, balanceB := score(b)
			return cmp.Or(cmp.Compare(min(usesA, 1), min(usesB, 1)), cmp.Compare(balanceA, balanceB))
		})
		order = append(order, next)
		left = slices.DeleteFunc(left, func(file string) bool { return file == next })
	}
	return order
}

// upward returns the uses that run from a floor to a higher one, sorted.
func upward(uses map[use]bool) (list []use) {
	order := inFloors(uses)
	for u := range uses {
		if slices.Index(order, u.from) < slices.Index(order, u.to) {
			list = append(list, u)
		}
	}
	slices.SortFunc(list, use.compare)
	return list
}

// TestFilesStandInFloors reports the uses that tie files of a package into circles.
func TestFilesStandInFloors(t *testing.T) {
	for _, dir := range slices.Sorted(maps.Keys(floored)) {
		fset := token.NewFileSet()
		var files []*ast.File
		names, _ := filepath.Glob(filepath.Join(dir, "*.go"))
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		uses := usesBetween(fset, files, floored[dir])
		t.Logf("%s: %d files use %d declarations of each other", dir, len(files), len(uses))
		for _, u := range upward(uses) {
			t.Errorf("%s/%s uses %s of %s, which stands on it: move one of the two, pass the value in, or split a file that "+
				"has two subjects", dir, u.from, u.name, u.to)
		}
	}
}

// commandGroups are the groups of the files of cmd/disinto, by the beginning of their names, and the groups that each
// may use. main.go and commands.go wire all of them, and elsewhere.go replaces those that need Linux.
var commandGroups = map[string][]string{
	"cli":    {},
	"config": {"cli"},
	"run":    {"cli", "config"},
	"look":   {"cli", "config"},
	"steer":  {"cli", "look"},
	"setup":  {"cli", "config", "run"},
	"tools":  {"cli", "config", "run", "look", "steer"},
}

// groupOf returns the group of a file of cmd/disinto.
func groupOf(name string) string {
	group, _, _ := strings.Cut(strings.TrimSuffix(name, ".go"), "_")
	if group == "main" || group == "commands" {
		return "cli"
	}
	return group
}

// TestCommandGroups reports files of cmd/disinto that belong to no group, and uses of a group that theirs may not use.
func TestCommandGroups(t *testing.T) {
	fset := token.NewFileSet()
	var files []*ast.File
	names, _ := filepath.Glob("cmd/disinto/*.go")
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || filepath.Base(name) == "elsewhere.go" {
			continue
		}
		if _, known := commandGroups[groupOf(filepath.Base(name))]; !known {
			t.Errorf("%s belongs to no group of commands: begin its name with one of %s", name,
				strings.Join(slices.Sorted(maps.Keys(commandGroups)), ", "))
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	for u := range usesBetween(fset, files, nil) {
		from, to := groupOf(u.from), groupOf(u.to)
		if from != to && !slices.Contains(commandGroups[from], to) && u.from != "main.go" && u.from != "commands.go" {
			t.Errorf("%s uses %s of %s, and %s may use only %s: move one of the two, or pass the value in", u.from, u.name,
				u.to, from, strings.Join(commandGroups[from], ", "))
		}
	}
}

// TestFloorsBite plants one use that closes a circle, for each way in which a file can name another's declaration.
func TestFloorsBite(t *testing.T) {
	ground := `package p
		import "far"
		type T struct{ x int }
		func (t *T) low() { %s }
		func base() {}
		func low2() { base() }`
	top := `package p
		type kind int
		var level kind
		const most = 3
		func high() { base() }
		func (t *T) high2() { base(); low2() }`
	for body, want := range map[string]string{
		"base()":                                 "",
		"high()":                                 "high",
		"t.high2()":                              "T.high2",
		"_ = (*T).high2":                         "T.high2",
		"_ = kind(0)":                            "kind",
		"level++":                                "level",
		"_ = most":                               "most",
		"far.Do(high)":                           "high",
		"_ = far.Box{High: 1}":                   "",
		"for x := range far.All() { x.high2() }": "T.high2",
	} {
		fset := token.NewFileSet()
		var files []*ast.File
		for name, text := range map[string]string{"ground.go": fmt.Sprintf(ground, body), "top.go": top} {
			f, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		var got []string
		for _, u := range upward(usesBetween(fset, files, []string{"T"})) {
			got = append(got, u.name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("low() { %s }: got upward uses %q, want %q", body, got, want)
		}
	}
}
