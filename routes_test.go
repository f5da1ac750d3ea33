package disinto_test

import (
	"go/ast"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// routesFile has the routes of the control API, and apiPage their table.
const (
	routesFile = "supervisor/api.go"
	apiPage    = "docs/control-room.md"
)

// foreign has paths that are no routes: of model servers, and the beginning of a path.
var foreign = []string{"/v1/models", "/v1/"}

// TestEveryRouteIsReached expects a request to each route of the control API in the commands, the control room or the
// client, and a row in the docs; and no request and no row without a route. upgrade is for the program itself.
func TestEveryRouteIsReached(t *testing.T) {
	routes, asked := make(map[string]string), make(map[string]bool)
	for _, s := range sources(t) {
		if s.name == routesFile {
			ast.Inspect(s.file, func(n ast.Node) bool {
				if method, path, ok := route(n); ok {
					routes[path] = method
				}
				return true
			})
		}
		if !s.test && slices.Contains([]string{"cmd/disinto", "supervisor/web", "supervisor/control"}, s.dir) {
			ast.Inspect(s.file, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok {
					text, _ := strconv.Unquote(lit.Value)
					path, _, _ := strings.Cut(text, "?")
					asked[path] = true
				}
				return true
			})
		}
	}
	if len(routes) < 20 {
		t.Fatalf("found only %d routes in %s", len(routes), routesFile)
	}
	listed := documented(t)
	for path, method := range routes {
		if !asked[path] {
			t.Errorf("%s %s: no command and no page asks it: write one, or remove the route", method, path)
		}
		if listed[path] != method && path != "/v1/upgrade" {
			t.Errorf("%s %s: no row in the table of %s", method, path, apiPage)
		}
		delete(listed, path)
	}
	for _, path := range slices.Sorted(maps.Keys(asked)) {
		if strings.HasPrefix(path, "/v1/") && routes[path] == "" && !slices.Contains(foreign, path) {
			t.Errorf("%s is asked, and has no row in %s", path, routesFile)
		}
	}
	if len(listed) > 0 {
		t.Errorf("%s has rows without a route: %q", apiPage, slices.Sorted(maps.Keys(listed)))
	}
}

// route returns the method and the path of a call such as control.Get("/v1/state", ...).
func route(n ast.Node) (method, path string, ok bool) {
	call, isCall := n.(*ast.CallExpr)
	if !isCall || len(call.Args) == 0 {
		return "", "", false
	}
	f, isSelector := call.Fun.(*ast.SelectorExpr)
	lit, isLit := call.Args[0].(*ast.BasicLit)
	if !isSelector || !isLit {
		return "", "", false
	}
	method = "GET"
	if f.Sel.Name == "Post" {
		method = "POST"
	}
	path, _ = strconv.Unquote(lit.Value)
	return method, path, strings.HasPrefix(path, "/v1/")
}

// documented returns the method of each path in the table of the control API.
func documented(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(apiPage)
	if err != nil {
		t.Fatal(err)
	}
	methods := make(map[string]string)
	row := regexp.MustCompile("(?m)^\\| `(GET|POST) (/v1/.*?) \\|")
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		for word := range strings.FieldsFuncSeq(m[2], func(r rune) bool { return r == '`' || r == ' ' }) {
			path, _, _ := strings.Cut(word, "?")
			methods[path] = m[1]
		}
	}
	return methods
}
