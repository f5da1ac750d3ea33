//go:build mutants

package disinto_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// targets are the packages whose conditions are mutated; in is a pattern for the files or functions, "" for all.
var targets = []struct{ dir, in string }{
	{"threads", ""},
	{"threads/ledger", ""},
	{"supervisor", `(?i)claim|release|outcome|judge|begin|merge`},
	{"forge/forgejo", `(?i)claim|release|holder|reassign|merge|Free$`},
	{"agents/process", ""},
}

// equivalents lists mutants that change nothing a test could see: the name of a mutant, " # " and the reason.
const equivalents = "mutants.txt"

// mutant is one changed condition. The bytes from..to of the file are replaced by text.
type mutant struct {
	file, in, was, text string
	from, to            int
}

// name identifies a mutant while its function and expression stay the same.
func (m mutant) name() string {
	oneLine := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	return fmt.Sprintf("%s %s: %s => %s", m.file, m.in, oneLine(m.was), oneLine(m.text))
}

// TestMutants changes one condition at a time, and fails for each change that no test notices. The tests are those of
// the package, then of threads and supervisor/simtest. The tree is never touched.
//
//	MUTANTS       how many are tried, 200 without it
//	MUTANTS_SEED  chooses them, 1 without it
//	MUTANTS_IN    a pattern for the names of those that are tried
func TestMutants(t *testing.T) {
	number := func(name string, otherwise int) int {
		n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(otherwise)))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	known := readEquivalents(t)
	only := regexp.MustCompile(os.Getenv("MUTANTS_IN"))
	var all []mutant
	for _, target := range targets {
		all = append(all, mutantsOf(t, target.dir, regexp.MustCompile(target.in))...)
	}
	all = slices.DeleteFunc(all, func(m mutant) bool { return known[m.name()] || !only.MatchString(m.name()) })
	random := rand.New(rand.NewPCG(uint64(number("MUTANTS_SEED", 1)), 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	tried, killed, most := 0, 0, number("MUTANTS", 200)
	for _, m := range all {
		if tried == most {
			break
		}
		switch verdict := try(t, m); verdict {
		case "does not compile":
			continue
		case "survives":
			t.Errorf("survives: %s", m.name())
		default:
			killed++
			t.Logf("%s: %s", verdict, m.name())
		}
		tried++
	}
	t.Logf("%d of %d mutants were tried, %d of them noticed", tried, len(all), killed)
}

// readEquivalents returns the names in the list of equivalents. Each needs a reason.
func readEquivalents(t *testing.T) map[string]bool {
	text, err := os.ReadFile(equivalents)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, _ := strings.Cut(line, " # ")
		if reason == "" {
			t.Errorf("%s: no reason: %s", equivalents, line)
		}
		known[name] = true
	}
	return known
}

// mutantsOf returns the mutants of a package's functions whose file or name matches.
func mutantsOf(t *testing.T, dir string, in *regexp.Regexp) (all []mutant) {
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil || !in.MatchString(filepath.Base(file)) && !in.MatchString(f.Name.Name) {
				continue
			}
			all = append(all, mutate(set, text, f, mutant{file: file, in: f.Name.Name})...)
		}
	}
	return all
}

// mutate returns the mutants of one function.
func mutate(set *token.FileSet, text []byte, f *ast.FuncDecl, at mutant) (all []mutant) {
	of := func(n ast.Node) string {
		return string(text[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset])
	}
	add := func(n ast.Node, to string) {
		m := at
		m.from, m.to = set.Position(n.Pos()).Offset, set.Position(n.End()).Offset
		m.was, m.text = of(n), to
		all = append(all, m)
	}
	negate := func(e ast.Expr) {
		if e != nil {
			add(e, "!("+of(e)+")")
		}
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			negate(n.Cond)
		case *ast.SwitchStmt:
			for _, c := range n.Body.List {
				for _, e := range c.(*ast.CaseClause).List {
					if n.Tag == nil {
						negate(e)
					}
				}
			}
		case *ast.BinaryExpr:
			swap := map[token.Token]string{
				token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">", token.EQL: "!=", token.NEQ: "==",
			}
			if n.Op == token.LAND || n.Op == token.LOR {
				add(n, "("+of(n.X)+")")
				add(n, "("+of(n.Y)+")")
			} else if to := swap[n.Op]; to != "" {
				add(n, of(n.X)+" "+to+" "+of(n.Y))
			}
		case *ast.CallExpr:
			if name := of(n.Fun); name == "slices.ContainsFunc" || name == "slices.Contains" {
				add(n, "!"+of(n))
			}
		}
		return true
	})
	return all
}

// try runs the tests on a mutant, and returns who noticed it.
func try(t *testing.T, m mutant) (verdict string) {
	text, err := os.ReadFile(m.file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path, err := filepath.Abs(m.file)
	if err != nil {
		t.Fatal(err)
	}
	changed, overlay := filepath.Join(dir, "mutant.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string][]byte{
		changed: slices.Concat(text[:m.from], []byte(m.text), text[m.to:]), overlay: list,
	} {
		if err := os.WriteFile(name, body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	own := "./" + filepath.ToSlash(filepath.Dir(m.file))
	for _, pkg := range slices.Compact([]string{own, "./threads", "./supervisor/simtest"}) {
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
		out, err := exec.CommandContext(ctx, "go", "test", "-vet=off", "-failfast", "-timeout=5m", "-overlay="+overlay,
			pkg).CombinedOutput()
		cancel()
		switch {
		case err == nil:
		case bytes.Contains(out, []byte("[build failed]")):
			return "does not compile"
		default:
			return "noticed by " + pkg
		}
	}
	return "survives"
}
