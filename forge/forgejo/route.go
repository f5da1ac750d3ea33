package forgejo

import (
	"slices"
	"strings"
)

// routes are the paths that the client requests. A * stands for one name or number, a ** for one or more path elements:
// anyone can choose branch and file names, and these contain slashes.
var routes = [][]string{
	parts("repos/*/*"), parts("repos/*/*/assignees"), parts("repos/*/*/branches/**"), parts("repos/*/*/branches"),
	parts("repos/*/*/branch_protections"),
	parts("repos/*/*/collaborators/*/permission"), parts("repos/*/*/collaborators/*"),
	parts("repos/*/*/commits/*/status"), parts("repos/*/*/commits/*/statuses"), parts("repos/*/*/contents/**"),
	parts("repos/*/*/contents"), parts("repos/*/*/git/**"), parts("repos/*/*/hooks"), parts("repos/*/*/hooks/*"),
	parts("repos/*/*/issues"), parts("repos/*/*/issues/*"), parts("repos/*/*/issues/*/blocks"),
	parts("repos/*/*/issues/*/comments"), parts("repos/*/*/issues/comments/**"),
	parts("repos/*/*/issues/*/dependencies"), parts("repos/*/*/issues/*/labels"),
	parts("repos/*/*/issues/*/labels/*"), parts("repos/*/*/issues/*/timeline"), parts("repos/*/*/labels"),
	parts("repos/*/*/labels/*"), parts("repos/*/*/pulls"), parts("repos/*/*/pulls/*"),
	parts("repos/*/*/pulls/*/commits"), parts("repos/*/*/pulls/*/merge"), parts("repos/*/*/pulls/*/reviews"),
	parts("repos/*/*/pulls/*/reviews/**"), parts("repos/*/*/raw/**"), parts("repos/*/*/actions/**"),
	parts("repos/*/*/teams"), parts("teams/*/members"),
	parts("user"), parts("user/**"), parts("users/**"), parts("orgs/**"), parts("version"),
	parts("*/*/git-receive-pack"), parts("*/*/info/lfs/objects/batch"),
}

func parts(path string) []string { return strings.Split(strings.Trim(path, "/"), "/") }

// route returns the kind of a request, without names and numbers, such as "GET /repos/*/*/issues/*". The number of
// routes is bounded, whatever the forge contains.
func route(method, path string) string {
	if _, below, api := strings.Cut(path, "/api/v1/"); api {
		path = below
	}
	asked := parts(path)
	i := slices.IndexFunc(routes, func(r []string) bool { return matches(r, asked) })
	if i < 0 {
		return method + " other"
	}
	return method + " /" + strings.Join(routes[i], "/")
}

func matches(route, asked []string) bool {
	for i, part := range route {
		switch {
		case part == "**":
			return len(asked) > i
		case i >= len(asked) || part != "*" && part != asked[i]:
			return false
		}
	}
	return len(route) == len(asked)
}
