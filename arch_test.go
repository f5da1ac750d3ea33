// Package disinto_test holds the rules of the whole tree: the allowed imports, the names that pure packages may not
// use, and the limits of length. Each failure says what to do instead.
package disinto_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "codeberg.org/johba/disinto"

// layers lists which of our packages each package may import. forge, agents, threads and supervisor build on each
// other in this order. Only cmd/disinto imports the packages that reach something outside, so that each can be
// replaced and the core tested without them.
var layers = map[string][]string{
	"forge":                   {},
	"forge/forgejo":           {"forge"},
	"forge/localforge":        {"forge"},
	"forge/localforge/faults": {},
	"forge/localforge/rules":  {},
	"forge/forgetest":         {"forge"},
	"forge/plan":              {"forge"},
	"forge/rest":              {"forge"},
	"agents":                  {"forge"},
	"agents/llama":            {"agents", "agents/plainfile"},
	"agents/llama/fakellama":  {},
	"agents/plainfile":        {},
	"agents/logtime":          {"agents/plainfile"},
	"agents/egress":           {},
	"agents/executortest":     {"agents"},
	"agents/process": {
		"agents", "forge", "agents/logtime", "agents/plainfile", "agents/process/gate", "agents/process/landlock",
		"agents/process/pid1", "agents/process/seccomp", "agents/process/tree",
	},
	"agents/nomad":            {"agents", "agents/plainfile", "forge"},
	"agents/nomad/fakenomad":  {},
	"agents/process/gate":     {"agents", "agents/egress", "agents/process/seccomp"},
	"agents/process/landlock": {},
	"agents/process/pid1":     {"agents/process/tree"},
	"agents/process/seccomp":  {},
	"agents/process/tree":     {},
	"agents/session": {
		"agents", "agents/egress", "agents/llama", "agents/plainfile", "agents/session/mergediff", "forge", "forge/plan",
	},
	"agents/session/fakemodel": {},
	"agents/session/mergediff": {"agents"},
	"agents/hire":              {"agents", "forge", "agents/plainfile", "agents/tomltext"},
	"agents/tomltext":          {},
	"agents/upstream":          {"agents", "forge", "agents/plainfile"},
	"threads":                  {"agents", "agents/egress", "forge"},
	"threads/file":             {"threads", "agents", "agents/egress", "forge", "agents/tomltext"},
	"threads/audit":            {"agents", "forge"},
	"threads/ledger":           {"threads", "threads/audit", "threads/services", "agents", "forge"},
	"threads/services":         {"threads"},
	"threads/sim":              {"threads", "threads/ledger", "agents", "forge"},
	"threads/worlds": {
		"threads", "threads/ledger", "threads/sim", "agents", "forge",
	},
	"supervisor/journal":  {"threads/ledger", "agents/plainfile"},
	"supervisor/answers":  {"threads", "agents", "agents/plainfile", "forge"},
	"supervisor/disk":     {},
	"supervisor/receipts": {"threads/audit", "agents/plainfile"},
	"supervisor/saved":    {"agents", "forge"},
	"supervisor/control": {
		"threads/ledger", "threads", "agents", "agents/logtime", "agents/plainfile", "forge", "forge/plan",
	},
	"supervisor/fleet":       {"threads", "agents", "agents/plainfile", "forge"},
	"supervisor/web":         {"supervisor/control", "threads/ledger", "threads", "agents", "forge"},
	"supervisor/web/browser": {},
	"supervisor": {
		"supervisor/answers", "supervisor/control", "supervisor/disk", "supervisor/fleet",
		"supervisor/journal", "supervisor/receipts", "supervisor/saved", "threads/audit", "threads/ledger",
		"threads/services", "threads", "agents", "agents/egress", "agents/logtime", "agents/plainfile", "forge", "forge/plan",
	},
	"supervisor/metrics": {
		"supervisor", "supervisor/control", "threads/ledger", "threads", "agents", "forge",
	},
	"supervisor/trace": {"supervisor", "threads/ledger", "agents", "forge"},
	"supervisor/notify": {
		"supervisor/control", "threads/ledger", "threads", "agents", "agents/plainfile", "forge",
	},
	"supervisor/simtest": {
		"supervisor", "supervisor/control", "supervisor/fleet", "threads/ledger", "threads",
		"agents", "forge", "forge/plan",
	},
	"cmd/disinto": {"*"},
	"cmd/disinto/screen": {
		"cmd/disinto/demo", "supervisor/control", "threads/audit", "threads/ledger", "supervisor/fleet",
		"threads/sim", "threads",
		"agents", "forge",
	},
	"cmd/disinto/watch": {"cmd/disinto/screen", "supervisor/control", "threads/ledger", "threads", "agents", "forge"},
	"cmd/disinto/demo":  {"supervisor", "supervisor/control", "threads", "agents", "forge", "forge/rest"},
	".":                 {},
}

// only lists the places where a package or function may be used. Tests may use all of them.
var only = []struct {
	name  string   // an import path, or one with a function
	where []string // folders, including those below them
	why   string
}{
	{
		"os/exec",
		[]string{"agents/process"},
		"one goroutine owns wait4(-1): a child that other code waits for loses its exit status. Take a runner from " +
			"cmd/disinto",
	},
	{"net/http/cgi", []string{"agents/process"}, "the reaper does not know its processes. Take a runner from cmd/disinto"},
	{"os.StartProcess", []string{"agents/process"}, "only agents/process starts processes"},
	{"syscall.ForkExec", []string{"agents/process"}, "only agents/process starts processes"},
	{"syscall.StartProcess", []string{"agents/process"}, "only agents/process starts processes"},
	{"syscall.Wait4", []string{"agents/process"}, "only agents/process waits for processes"},
	{"golang.org/x/sys/unix.Wait4", []string{"agents/process"}, "only agents/process waits for processes"},
	{
		"github.com/prometheus/client_golang/prometheus",
		[]string{"supervisor/metrics"},
		"the supervisor calls meters, and does not know the library that counts",
	},
	{
		"github.com/modelcontextprotocol/go-sdk/mcp",
		[]string{"cmd/disinto"},
		"the MCP server is another way to run the commands, and belongs beside them",
	},
	{module + "/threads/worlds", []string{"threads/worlds"}, "only tests play worlds; the program does not link them"},
	{
		"github.com/spf13/cobra",
		[]string{"cmd/disinto"},
		"only the program has commands, and disinto exec starts without them",
	},
	{"code.gitea.io/sdk/gitea", []string{"forge/forgejo"}, "the forge is behind the types of package forge"},
}

// onLinux are the packages that build on Linux only. A client's commands also build elsewhere, so files of the
// program that import one of these need a build tag.
var onLinux = []string{
	"agents/process", "agents/process/pid1", "agents/hire", "agents/upstream", "supervisor", "supervisor/journal",
	"cmd/disinto/demo", "golang.org/x/sys/unix",
}

// elsewhere are the packages of a client, which build on every system.
var elsewhere = []string{
	"cmd/disinto", "cmd/disinto/screen", "cmd/disinto/watch",
	"supervisor/answers", "supervisor/control", "supervisor/fleet",
}

// checkLinux reports the import of a Linux package in a file that builds on every system.
func (s *source) checkLinux() (failures []string) {
	if !slices.Contains(elsewhere, s.dir) || strings.HasSuffix(s.name, "_linux.go") {
		return nil
	}
	for _, group := range s.file.Comments {
		if group.Pos() < s.file.Package && group.List[0].Text == "//go:build linux" {
			return nil
		}
	}
	for _, spec := range s.file.Imports {
		if p := strings.TrimPrefix(importPath(spec), module+"/"); slices.Contains(onLinux, p) {
			failures = append(failures,
				s.at(spec.Pos())+": "+p+" builds on Linux only, and clients build on macOS and Windows: "+
					"begin the file with //go:build linux, and add a substitute to cmd/disinto/elsewhere.go")
		}
	}
	return failures
}

// pure are the packages whose decisions depend only on their arguments, so that the simulator, `why` and a bug report
// repeat them exactly.
var pure = []string{
	"forge", "forge/plan", "agents", "agents/egress", "agents/tomltext", "threads", "threads/audit",
	"threads/file", "threads/ledger", "threads/services",
	"threads/sim", "threads/worlds",
}

// impure lists the names that pure packages may not use: an import path, a path with all below it (with /...), or a
// function.
var impure = []struct{ name, why string }{
	{"os/...", "the outside comes in as an argument: text, a lookup function, a value"},
	{"io/fs", "the outside comes in as an argument: text, a lookup function, a value"},
	{"net", "no network"},
	{"net/http/...", "no network"},
	{"syscall", "no system calls"},
	{"golang.org/x/sys/...", "no system calls"},
	{"context", "nothing here takes long enough to be cancelled"},
	{"sync/...", "nothing here runs concurrently"},
	{"math/rand/...", "the same snapshot gives the same plan"},
	{"crypto/rand", "the same snapshot gives the same plan"},
	{"log/...", "return errors and reasons; the caller logs them"},
	{"time.Now", "the time is a field of the snapshot"},
	{"time.Since", "the time is a field of the snapshot"},
	{"time.Until", "the time is a field of the snapshot"},
	{"time.Sleep", "nothing here waits; a plan has NextWake"},
	{"time.After", "nothing here waits; a plan has NextWake"},
	{"time.AfterFunc", "nothing here waits; a plan has NextWake"},
	{"time.Tick", "nothing here waits; a plan has NextWake"},
	{"time.NewTimer", "nothing here waits; a plan has NextWake"},
	{"time.NewTicker", "nothing here waits; a plan has NextWake"},
	{"time.LoadLocation", "it reads files"},
	{"fmt.Print", "return the text"},
	{"fmt.Printf", "return the text"},
	{"fmt.Println", "return the text"},
	{"github.com/BurntSushi/toml.DecodeFile", "it reads files; Decode takes the text"},
	{"github.com/BurntSushi/toml.DecodeFS", "it reads files; Decode takes the text"},
}

// excused are exceptions of pure packages.
var excused = map[string][]string{
	"threads/sim":    {"math/rand/v2"}, // seeded
	"threads/worlds": {"math/rand/v2"}, // seeded; a failure prints the seed
}

// source is one parsed Go file.
type source struct {
	dir  string // folder of its package, relative to the root, with slashes
	name string // relative to the root
	test bool
	fset *token.FileSet
	file *ast.File
}

// at returns a place in the file, as compilers write it.
func (s *source) at(pos token.Pos) string {
	return s.name + ":" + strconv.Itoa(s.fset.Position(pos).Line)
}

func parse(name, text string) (*source, error) {
	fset := token.NewFileSet()
	var src any
	if text != "" {
		src = text
	}
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	name = filepath.ToSlash(name)
	return &source{dir: path.Dir(name), name: name, test: strings.HasSuffix(name, "_test.go"), fset: fset, file: file}, err
}

// sources returns all Go files of the tree.
func sources(t *testing.T) []*source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parsed parses the files once for all tests: with the race detector the tree takes seconds.
var parsed = sync.OnceValues(func() (all []*source, err error) {
	err = filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		s, err := parse(name, "")
		all = append(all, s)
		return err
	})
	return all, err
})

// imports returns the file's imports by their names in it.
func (s *source) imports() map[string]*ast.ImportSpec {
	byName := make(map[string]*ast.ImportSpec)
	for _, spec := range s.file.Imports {
		name := path.Base(importPath(spec))
		if name == "v2" {
			name = path.Base(path.Dir(importPath(spec)))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		byName[name] = spec
	}
	return byName
}

func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value
	}
	return p
}

// uses calls found for every import of the file, and with path.Name for every imported name that the file uses.
func (s *source) uses(found func(name string, isImport bool, pos token.Pos)) {
	byName := s.imports()
	for _, spec := range s.file.Imports {
		found(importPath(spec), true, spec.Pos())
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && byName[x.Name] != nil {
				found(importPath(byName[x.Name])+"."+sel.Sel.Name, false, sel.Pos())
			}
		}
		return true
	})
}

// below reports whether a folder is one of the folders or below one of them.
func below(dir string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return dir == f || strings.HasPrefix(dir, f+"/") })
}

// checkLayers reports imports of our packages that the file's package may not have.
func (s *source) checkLayers() (failures []string) {
	allowed, known := layers[s.dir]
	if !known {
		return []string{s.name + ": package " + s.dir +
			" is not in the table of layers: add it, with what it may import, where it belongs"}
	}
	for _, spec := range s.file.Imports {
		p, ours := strings.CutPrefix(importPath(spec), module+"/")
		if ours && !slices.Contains(allowed, p) && !slices.Contains(allowed, "*") {
			failures = append(failures, s.at(spec.Pos())+": "+s.dir+" may not import "+p+
				": imports go one way, forge <- agents <- threads <- supervisor <- cmd/disinto, and only cmd/disinto wires "+
				"the rest")
		}
		if spec.Name != nil && spec.Name.Name == "." {
			failures = append(failures, s.at(spec.Pos())+": a dot import hides where names come from")
		}
	}
	return failures
}

// checkOnly reports names that are used outside their place.
func (s *source) checkOnly() (failures []string) {
	s.uses(func(name string, _ bool, pos token.Pos) {
		for _, rule := range only {
			if rule.name == name && !below(s.dir, rule.where) {
				failures = append(failures, s.at(pos)+": "+name+" is for "+strings.Join(rule.where, ", ")+" only: "+rule.why)
			}
		}
	})
	return failures
}

// checkPure reports names and statements that make a pure package depend on more than its arguments.
func (s *source) checkPure() (failures []string) {
	s.uses(func(name string, isImport bool, pos token.Pos) {
		for _, rule := range impure {
			tree, isTree := strings.CutSuffix(rule.name, "/...")
			hit := name == rule.name || isTree && isImport && below(name, []string{tree})
			if hit && !slices.Contains(excused[s.dir], name) {
				failures = append(failures, s.at(pos)+": "+s.dir+" is pure and may not use "+name+": "+rule.why)
			}
		}
	})
	ast.Inspect(s.file, func(n ast.Node) bool {
		if g, ok := n.(*ast.GoStmt); ok {
			failures = append(failures,
				s.at(g.Pos())+": "+s.dir+" is pure and may not start goroutines: nothing here runs concurrently")
		}
		return true
	})
	return failures
}

// unguarded are the folders and files whose goroutines cannot end PID 1. All others work in the supervisor's process
// on input from agents, forges and the kernel. There a panic that leaves a goroutine ends every agent, so each
// goroutine starts with a function that recovers. A package is guarded unless it is listed here: on a list of guarded
// packages the reaper was once forgotten.
var unguarded = []struct{ where, why string }{
	{"agents/hire", "a person's command"},
	{"agents/nomad/relay.go", "session-run, a separate process: its supervisor sees its end"},
	{"agents/process/cutlog.go", "the shim, a separate process: its supervisor sees its end"},
	{"agents/process/gate", "the shim; in the supervisor, Find makes two sockets"},
	{"agents/process/pid1", "starts threads before the program, and calls nothing in them"},
	{"agents/process/shim.go", "the shim, a separate process: its supervisor sees its end"},
	{"agents/session", "a session's program"},
	{"cmd/disinto/run_demo.go", "a person's command"},
	{"cmd/disinto/run_demo_display.go", "a person's command"},
	{"cmd/disinto/run_demo_forge.go", "a person's command"},
	{"cmd/disinto/run_localforge.go", "a forge for demos and tests"},
	{"cmd/disinto/main.go", "a person's command: run and exec listen to signals themselves"},
	{"cmd/disinto/steer_sling.go", "a person's command"},
	{"cmd/disinto/setup_upstream.go", "a session's program"},
	{"cmd/disinto/look_watch.go", "a person's command"},
	{"agents/executortest", "tests"},
	{"agents/nomad/fakenomad", "tests"},
	{"forge/forgetest", "tests"},
	{"forge/localforge", "a forge for demos and tests"},
	{"supervisor/simtest", "tests"},
}

func (s *source) isGuarded() bool {
	for _, u := range unguarded {
		if s.name == u.where || below(s.dir, []string{u.where}) {
			return false
		}
	}
	return true
}

// guards are the names of functions that recover.
var guards = []string{"safely", "background"}

// checkGoroutines reports goroutines, started with go, WaitGroup.Go or AfterFunc, whose panics no guard recovers.
func (s *source) checkGoroutines() (failures []string) {
	if !s.isGuarded() {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		var begun ast.Node
		switch n := n.(type) {
		case *ast.GoStmt:
			begun = n.Call
		case *ast.CallExpr:
			sel, ok := n.Fun.(*ast.SelectorExpr)
			if ok && (sel.Sel.Name == "Go" && len(n.Args) == 1 || sel.Sel.Name == "AfterFunc" && len(n.Args) == 2) {
				begun = n.Args[len(n.Args)-1]
			}
		}
		if begun != nil && !mentions(begun, guards) {
			failures = append(failures, s.at(begun.Pos())+
				": a panic in this goroutine would end PID 1: start it with "+strings.Join(guards, " or "))
		}
		return true
	})
	return failures
}

// mentions reports whether a part of a file uses one of some names.
func mentions(part ast.Node, names []string) (found bool) {
	ast.Inspect(part, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		found = found || ok && slices.Contains(names, name.Name)
		return !found
	})
	return found
}

func TestLayers(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		report(t, s.checkLayers())
		report(t, s.checkOnly())
		report(t, s.checkLinux())
		if slices.Contains(pure, s.dir) {
			report(t, s.checkPure())
		}
		report(t, s.checkGoroutines())
	}
}

func report(t *testing.T, failures []string) {
	t.Helper()
	for _, f := range failures {
		t.Error(f)
	}
}

// TestPackageComments requires one comment for each package: without one a reader has no help, and of two one becomes
// stale.
func TestPackageComments(t *testing.T) {
	commented := make(map[string][]string) // files with a package comment, by folder
	for _, s := range sources(t) {
		if s.test && s.dir != "." { // the root has tests only
			continue
		}
		files := commented[s.dir]
		if s.file.Doc != nil {
			files = append(files, s.name)
		}
		commented[s.dir] = files
	}
	for dir, files := range commented {
		switch len(files) {
		case 0:
			t.Errorf("%s: no file has a package comment: say what the package does, and what it leaves to others", dir)
		case 1:
		default:
			t.Errorf("%s: %s each have a package comment: keep one", dir, strings.Join(files, " and "))
		}
	}
}

// TestRulesBite violates each rule and expects the check to find it.
func TestRulesBite(t *testing.T) {
	tests := []struct {
		name, text, want string
		check            func(*source) []string
	}{
		{
			"agents/x.go", `import _ "codeberg.org/johba/disinto/threads"`, "agents may not import threads",
			(*source).checkLayers,
		},
		{
			"supervisor/x.go", `import _ "codeberg.org/johba/disinto/forge/forgejo"`, "supervisor may not import forge/forgejo",
			(*source).checkLayers,
		},
		{
			"threads/x.go", `import _ "codeberg.org/johba/disinto/threads/sim"`, "threads may not import threads/sim",
			(*source).checkLayers,
		},
		{"util/x.go", ``, "util is not in the table", (*source).checkLayers},
		{"threads/x.go", `import . "strings"`, "dot import", (*source).checkLayers},
		{"cmd/disinto/x.go", `import "codeberg.org/johba/disinto/forge/forgejo"`, "", (*source).checkLayers},
		{"supervisor/x.go", `import "os/exec"`, "os/exec is for agents/process only", (*source).checkOnly},
		{"forge/localforge/x.go", `import "net/http/cgi"`, "net/http/cgi is for agents/process only", (*source).checkOnly},
		{
			"cmd/disinto/x.go", `import unix "golang.org/x/sys/unix"; var _ = unix.Wait4`,
			"unix.Wait4 is for agents/process only", (*source).checkOnly,
		},
		{"supervisor/x.go", `import "code.gitea.io/sdk/gitea"`, "is for forge/forgejo only", (*source).checkOnly},
		{"agents/process/x.go", `import "os/exec"`, "", (*source).checkOnly},
		{
			"cmd/disinto/x.go", `import "codeberg.org/johba/disinto/supervisor"`, "supervisor builds on Linux only",
			(*source).checkLinux,
		},
		{"cmd/disinto/x_linux.go", `import "codeberg.org/johba/disinto/supervisor"`, "", (*source).checkLinux},
		{"cmd/disinto/x.go", `import "codeberg.org/johba/disinto/supervisor/control"`, "", (*source).checkLinux},
		{"threads/x.go", `import "time"; var _ = time.Now`, "may not use time.Now", (*source).checkPure},
		{"threads/x.go", `import clock "time"; func f() { clock.Sleep(1) }`, "may not use time.Sleep", (*source).checkPure},
		{"threads/x.go", `func f() { go f() }`, "may not start goroutines", (*source).checkPure},
		{"forge/x.go", `import "os"`, "may not use os", (*source).checkPure},
		{"forge/x.go", `import "os/user"`, "may not use os/user", (*source).checkPure},
		{"forge/x.go", `import "sync/atomic"`, "may not use sync/atomic", (*source).checkPure},
		{"threads/x.go", `import "math/rand/v2"`, "may not use math/rand/v2", (*source).checkPure},
		{
			"cmd/disinto/x.go", `import "codeberg.org/johba/disinto/threads/worlds"`, "threads/worlds is for",
			(*source).checkOnly,
		},
		{"threads/sim/x.go", `import "math/rand/v2"; var _ rand.Rand`, "", (*source).checkPure},
		{"threads/sim/x.go", `import "math/rand"`, "may not use math/rand", (*source).checkPure},
		{
			"threads/x.go", `import "github.com/BurntSushi/toml"; var _ = toml.DecodeFile`, "toml.DecodeFile",
			(*source).checkPure,
		},
		{"threads/x.go", `import ("net/url"; "time"; "path"); var _ = time.Second; var _ time.Time`, "", (*source).checkPure},
		{"supervisor/x.go", `func f() { go f() }`, "would end PID 1", (*source).checkGoroutines},
		{"supervisor/x.go", `func f() { all.Go(func() { f() }) }`, "would end PID 1", (*source).checkGoroutines},
		{"supervisor/x.go", `func f() { time.AfterFunc(1, func() { f() }) }`, "would end PID 1", (*source).checkGoroutines},
		{"new/x.go", `func f() { go f() }`, "would end PID 1", (*source).checkGoroutines},
		{"forge/localforge/x.go", `func f() { go f() }`, "", (*source).checkGoroutines},
		{"agents/process/shim.go", `func f() { go f() }`, "", (*source).checkGoroutines},
		{
			"supervisor/x.go", `func f() { go s.safely("f", f); all.Go(func() { s.safely("f", f) }) }`, "",
			(*source).checkGoroutines,
		},
		{"threads/x.go", "func f() {\n" + strings.Repeat("\n", 60) + "}", "f has 62 lines", (*source).checkLength},
		{"threads/x.go", "// long: a table\nfunc f() {\n" + strings.Repeat("\n", 60) + "}", "", (*source).checkLength},
		{"threads/x.go", "// long:\nfunc f() {\n" + strings.Repeat("\n", 60) + "}", "f has 62 lines", (*source).checkLength},
		{"threads/x.go", "func f() {\n" + strings.Repeat("\n", 58) + "}", "", (*source).checkLength},
		{"threads/x.go", strings.Repeat("\n", 500), "the file has", (*source).checkLength},
		{"threads/x.go", "var x = y(`^[a-z]{0,127}$`)", "{0,127} compiles 127 copies", (*source).checkPatterns},
		{"threads/x.go", "var x = y(`^[a-z]{41}$`)", "{41} compiles 41 copies", (*source).checkPatterns},
		{"threads/x.go", "var x = y(`^[0-9]{1,20}$`)", "", (*source).checkPatterns},
		{"threads/x.go", "const x = `^[a-z]{0,127}$`", "", (*source).checkPatterns},
	}
	for _, tt := range tests {
		s, err := parse(tt.name, "package x\n"+tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		got := strings.Join(tt.check(s), "\n")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s in %s: got %q, want %q", strings.TrimSpace(tt.text), tt.name, got, tt.want)
		}
	}
}

// TestLayoutListsEveryPackage compares the table in CONTRIBUTING with layers.
func TestLayoutListsEveryPackage(t *testing.T) {
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		row := strings.Split(line, "|")
		dir := strings.Trim(row[min(1, len(row)-1)], " `")
		if _, known := layers[dir]; known && len(row) == 4 {
			listed[dir] = true
		}
	}
	for dir := range layers {
		if !listed[dir] && dir != "." {
			t.Errorf("the layout in CONTRIBUTING.md lacks %s", dir)
		}
	}
}
