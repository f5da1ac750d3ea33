package disinto_test

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// The limits leave room: in the code bases that we learnt from, nine of ten functions have fewer than 44 lines and nine
// of ten files fewer than 500. Tests are not counted: a table is as long as it has rows.
const (
	maxFunction = 60
	maxFile     = 500
)

// checkLength reports what is too long and gives no reason for it, in a comment of its own line that begins with
// "long:": above the function, or above the package clause for the file.
func (s *source) checkLength() (failures []string) {
	for _, decl := range s.file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1
		if n > maxFunction && !excuses(f.Doc) {
			failures = append(failures, fmt.Sprintf(
				"%s: %s has %d lines, more than %d: split it where a reader gains, or say why not in a comment above, // long: reason",
				s.at(f.Pos()), f.Name.Name, n, maxFunction))
		}
	}
	lines := s.fset.Position(s.file.FileEnd).Line
	above := slices.ContainsFunc(s.file.Comments, func(c *ast.CommentGroup) bool { return c.Pos() < s.file.Package && excuses(c) })
	if lines > maxFile && !above {
		failures = append(failures, fmt.Sprintf(
			"%s: the file has %d lines, more than %d: give each noun a file, or say why not above the package clause, // long: reason",
			s.name, lines, maxFile))
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
		}
	}
}
