package disinto_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// In the code bases that we learnt from, nine of ten functions have fewer than 44 lines and nine of ten files fewer
// than 500; the limits leave room. Tests have no limit: a table is as long as its rows.
const (
	maxFunction = 60
	maxFile     = 500
	maxColumns  = 120 // a tab counts one
	maxCopies   = 40
)

// checkLength reports functions and files that are too long without a reason. The reason is a comment line that
// begins with "long:", above the function or, for the file, above the package clause.
func (s *source) checkLength() (failures []string) {
	for _, decl := range s.file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1
		if n > maxFunction && !excuses(f.Doc) {
			failures = append(failures, fmt.Sprintf(
				"%s: %s has %d lines, more than %d: split it where a reader gains, or say why not in a comment above, // long: "+
					"reason",
				s.at(f.Pos()), f.Name.Name, n, maxFunction))
		}
	}
	lines := s.fset.Position(s.file.FileEnd).Line
	above := slices.ContainsFunc(s.file.Comments,
		func(c *ast.CommentGroup) bool { return c.Pos() < s.file.Package && excuses(c) })
	if lines > maxFile && !above {
		failures = append(failures, fmt.Sprintf(
			"%s: the file has %d lines, more than %d: give each noun a file, or say why not above the package clause, // "+
				"long: reason",
			s.name, lines, maxFile))
	}
	return failures
}

// checkLines reports lines that are too wide. Recorded text in raw strings of tests, such as an event of an agent CLI,
// may have any width.
func (s *source) checkLines(text string) (failures []string) {
	n, recorded := 0, s.recorded()
	for line := range strings.Lines(text) {
		n++
		if columns := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); columns > maxColumns && !recorded[n] {
			failures = append(failures, fmt.Sprintf("%s:%d: %d columns, more than %d", s.name, n, columns, maxColumns))
		}
	}
	return failures
}

// recorded returns the lines of a test that contain a raw string.
func (s *source) recorded() map[int]bool {
	lines := make(map[int]bool)
	if !s.test {
		return lines
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(lit.Value, "`") {
			for line := s.fset.Position(lit.Pos()).Line; line <= s.fset.Position(lit.End()).Line; line++ {
				lines[line] = true
			}
		}
		return true
	})
	return lines
}

// counted matches a counted repetition: the pattern before it is compiled that many times.
var counted = regexp.MustCompile(`\{(?:\d*,)?(\d+)\}`)

// checkPatterns reports package-level patterns that repeat a part more than maxCopies times. They are compiled at the
// start of every command and session: nine of them caused half of the allocations of disinto version.
func (s *source) checkPatterns() (failures []string) {
	for _, decl := range s.file.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.VAR {
			continue
		}
		ast.Inspect(d, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			for _, m := range counted.FindAllStringSubmatch(lit.Value, -1) {
				if n, err := strconv.Atoi(m[1]); err != nil || n > maxCopies {
					failures = append(failures, fmt.Sprintf("%s: %s compiles %s copies: compare the length beside the pattern",
						s.at(lit.Pos()), m[0], m[1]))
				}
			}
			return true
		})
	}
	return failures
}

// excuses reports whether a comment gives a reason for length.
func excuses(group *ast.CommentGroup) bool {
	return group != nil && slices.ContainsFunc(group.List, func(c *ast.Comment) bool {
		reason, ok := strings.CutPrefix(c.Text, "// long:")
		return ok && strings.TrimSpace(reason) != ""
	})
}

func TestLength(t *testing.T) {
	for _, s := range sources(t) {
		if !s.test {
			report(t, s.checkLength())
			report(t, s.checkPatterns())
		}
		text, err := os.ReadFile(filepath.FromSlash(s.name))
		if err != nil {
			t.Fatal(err)
		}
		report(t, s.checkLines(string(text)))
	}
}

// TestLinesBite gives checkLines lines that it must report.
func TestLinesBite(t *testing.T) {
	for text, want := range map[string]string{
		"x := 1 // fine\n":                      "",
		"// " + strings.Repeat("é", 117) + "\n": "",
		"// " + strings.Repeat("é", 118) + "\n": "121 columns",
	} {
		got := strings.Join((&source{name: "x.go"}).checkLines(text), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// A raw string may make its lines wide in a test, but nowhere else.
func TestRecordedTextIsWide(t *testing.T) {
	const head = "package x\n\nvar a = `\n"
	text := head + strings.Repeat("{", 200) + "`\n\nvar b = \"" + strings.Repeat("}", 200) + "\"\n"
	for name, want := range map[string]int{"x.go": 2, "x_test.go": 1} {
		s, err := parse(name, text)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.checkLines(text); len(got) != want {
			t.Errorf("%s: got %q, want %d", name, got, want)
		}
	}
}

// testNames returns the names of all test functions, each also with its folder: agents.TestEnviron.
func testNames(t *testing.T) map[string]bool {
	there := make(map[string]bool)
	for _, s := range sources(t) {
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && s.test {
				there[f.Name.Name], there[s.dir+"."+f.Name.Name] = true, true
			}
		}
	}
	return there
}

// CONTRIBUTING.md names files and tests that exist, a file by the end of its path.
func TestContributingNames(t *testing.T) {
	page, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`[\w/]+\.go\b`).FindAllString(string(page), -1) {
		if !slices.ContainsFunc(sources(t), func(s *source) bool { return strings.HasSuffix("/"+s.name, "/"+name) }) {
			t.Errorf("there is no file %s", name)
		}
	}
	there := testNames(t)
	for _, name := range regexp.MustCompile("`(Test\\w*[a-z])`").FindAllStringSubmatch(string(page), -1) {
		if !there[name[1]] {
			t.Errorf("there is no test %s", name[1])
		}
	}
}

// Each attack in the table of docs/money.md names an existing test.
func TestAttacksHaveTests(t *testing.T) {
	page, err := os.ReadFile("docs/money.md")
	if err != nil {
		t.Fatal(err)
	}
	there := testNames(t)
	_, table, _ := strings.Cut(string(page), "costs at most | test |\n|---|---|---|\n")
	rows := 0
	for row := range strings.Lines(table) {
		if !strings.HasPrefix(row, "|") {
			continue
		}
		rows++
		cells := strings.Split(row, "|")
		tests := regexp.MustCompile(`\bTest\w+`).FindAllString(cells[len(cells)-2], -1)
		if len(tests) == 0 || slices.ContainsFunc(tests, func(name string) bool { return !there[name] }) {
			t.Errorf("tests %q: %s", tests, row)
		}
	}
	if rows < 10 {
		t.Errorf("the table has %d rows", rows)
	}
}
