package forgejo

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/forge"
)

// writersOf returns the writers of the repository org/r on a forge with these answers to GET requests.
func writersOf(t *testing.T, get func(path string) (status int, answer string)) ([]string, error) {
	t.Helper()
	return connect("http://forge.test", answers(func(req *http.Request) (*http.Response, error) {
		status, answer := get(strings.TrimPrefix(req.URL.Path, "/api/v1"))
		return say(status, answer)(req)
	})).writers(t.Context(), "org/r")
}

// The answers are in the form of Forgejo 10.0. Every account is listed as a possible assignee, even Reader, whose team
// has only read access.
func TestWritersOf(t *testing.T) {
	const (
		listed  = `[{"login":"boss"},{"login":"Reader"},{"login":"coder"},{"login":"guest"},{"login":"root"},{"login":"a b"}]`
		owners  = `{"id":1,"permission":"owner","units_map":{"repo.code":"owner","repo.pulls":"owner"}}`
		coders  = `{"id":2,"permission":"read","units_map":{"repo.code":"write","repo.wiki":"read"}}`
		readers = `{"id":3,"permission":"read","units_map":{"repo.code":"read","repo.pulls":"read","repo.wiki":"write"}}`
	)
	for _, tt := range []struct {
		name, teams string
		hidden      bool // our account is in no team, and the organisation is private
		want        string
	}{
		{"owned by a person", "", false, "Reader a b boss coder guest root"},
		{"teams that all write", owners + "," + coders, false, "Reader a b boss coder guest root"},
		{"a team reads", owners + "," + coders + "," + readers, false, "boss coder guest root"},
		{"a team reads, we are in none", owners + "," + coders + "," + readers, true, "guest root"},
		{
			"a team without units", `{"id":3,"permission":"read"},{"id":2,"permission":"write"}`, false,
			"boss coder guest root",
		},
		{"a team that is null", "null," + coders, false, "boss coder guest root"},
		{"no teams", " ", false, "guest root"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := writersOf(t, func(path string) (int, string) {
				answer := map[string]string{
					"/repos/org/r/assignees": listed, "/repos/org/r/teams": "[" + tt.teams + "]",
					"/teams/2/members":                   `[{"login":"boss"},{"login":"Coder"}]`,
					"/users/boss/orgs/org/permissions":   `{"can_read":true,"can_write":true}`,
					"/users/Reader/orgs/org/permissions": `{"can_read":true,"can_write":true}`, // writes elsewhere
					"/users/coder/orgs/org/permissions":  `{"can_read":true,"can_write":true}`,
					"/users/guest/orgs/org/permissions":  `{"can_read":false}`,
					"/users/root/orgs/org/permissions":   `{"is_owner":true,"can_read":true}`,
				}[path]
				switch {
				case path == "/repos/org/r/teams" && tt.teams == "":
					return 405, ""
				case answer == "", tt.hidden && strings.HasPrefix(path, "/teams/"):
					return 403, ""
				case tt.hidden && path == "/users/guest/orgs/org/permissions":
					return 404, ""
				}
				return 200, answer
			})
			if strings.Join(got, " ") != tt.want || err != nil {
				t.Errorf("writersOf returned %v, %v; want %s", got, err, tt.want)
			}
		})
	}
}

// If one of the forge's lists cannot be read, writersOf returns the error and no account.
func TestWritersOfFails(t *testing.T) {
	for _, broken := range []string{"/assignees", "/teams", "/members", "/permissions"} {
		got, err := writersOf(t, func(path string) (int, string) {
			switch {
			case strings.Contains(path, broken):
				return 502, ""
			case strings.Contains(path, "/members"):
				return 200, "[]"
			}
			return 200, `[{"login":"eve","id":1},{"login":"mal","id":2,"permission":"write"}]`
		})
		if len(got) > 0 || !errors.Is(err, forge.ErrUnavailable) {
			t.Errorf("without %s: got %v, %v; want %v", broken, got, err, forge.ErrUnavailable)
		}
	}
}

// The accounts of an organisation with thousands of members are found with a bounded number of requests.
func TestWritersOfBounded(t *testing.T) {
	requests := 0
	got, err := writersOf(t, func(path string) (int, string) {
		requests++
		var list []string
		switch {
		case strings.HasSuffix(path, "/teams"):
			return 200, `[{"id":1,"permission":"read"},{"id":2,"permission":"write"}]`
		case strings.HasSuffix(path, "/permissions"):
			return 200, `{"can_read":true}`
		}
		for n := range 5000 {
			list = append(list, fmt.Sprintf(`{"login":"u%d"}`, n))
		}
		if strings.HasPrefix(path, "/teams/") { // the last page never comes
			list = list[:pageSize]
		}
		return 200, "[" + strings.Join(list, ",") + "]"
	})
	if len(got) != pageSize || requests > 2+maxMembers/pageSize+maxAsked || err != nil {
		t.Errorf("writersOf returned %d writers with %d requests, %v", len(got), requests, err)
	}
}
