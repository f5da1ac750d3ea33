package forgejo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/forge"
)

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
			get := func(_ context.Context, path string, out any) (int, error) {
				answer := map[string]string{
					"/repos/org/r/assignees": listed, "/repos/org/r/teams": "[" + tt.teams + "]",
					"/teams/2/members?page=1&limit=50":   `[{"login":"boss"},{"login":"Coder"}]`,
					"/teams/2/members?page=2&limit=50":   `[]`,
					"/users/boss/orgs/org/permissions":   `{"can_read":true,"can_write":true}`,
					"/users/Reader/orgs/org/permissions": `{"can_read":true,"can_write":true}`, // writes elsewhere
					"/users/coder/orgs/org/permissions":  `{"can_read":true,"can_write":true}`,
					"/users/guest/orgs/org/permissions":  `{"can_read":false}`,
					"/users/root/orgs/org/permissions":   `{"is_owner":true,"can_read":true}`,
				}[path]
				switch {
				case path == "/repos/org/r/teams" && tt.teams == "":
					return -1, fmt.Errorf("405: %w", forge.ErrConflict)
				case answer == "", tt.hidden && strings.HasPrefix(path, "/teams/"):
					return -1, fmt.Errorf("%s: %w", path, forge.ErrForbidden)
				case tt.hidden && path == "/users/guest/orgs/org/permissions":
					return -1, fmt.Errorf("%s: %w", path, forge.ErrNotFound)
				}
				return -1, json.Unmarshal([]byte(answer), out)
			}
			got, err := writersOf(t.Context(), get, "org/r")
			if strings.Join(got, " ") != tt.want || err != nil {
				t.Errorf("writersOf returned %v, %v; want %s", got, err, tt.want)
			}
		})
	}
}

// If one of the forge's lists cannot be read, writersOf returns the error and no account.
func TestWritersOfFails(t *testing.T) {
	for _, broken := range []string{"/assignees", "/teams", "/members", "/permissions"} {
		get := func(_ context.Context, path string, out any) (int, error) {
			switch {
			case strings.Contains(path, broken):
				return -1, forge.ErrUnavailable
			case strings.Contains(path, "/members"):
				return -1, nil
			}
			return -1, json.Unmarshal([]byte(`[{"login":"eve","id":1},{"login":"mal","id":2,"permission":"write"}]`), out)
		}
		if got, err := writersOf(t.Context(), get, "org/r"); len(got) > 0 || !errors.Is(err, forge.ErrUnavailable) {
			t.Errorf("without %s: got %v, %v; want %v", broken, got, err, forge.ErrUnavailable)
		}
	}
}

// The accounts of an organisation with thousands of members are found with a bounded number of requests.
func TestWritersOfBounded(t *testing.T) {
	requests := 0
	get := func(_ context.Context, path string, out any) (int, error) {
		requests++
		var list []string
		switch {
		case strings.HasSuffix(path, "/teams"):
			return -1, json.Unmarshal([]byte(`[{"id":1,"permission":"read"},{"id":2,"permission":"write"}]`), out)
		case strings.HasSuffix(path, "/permissions"):
			return -1, json.Unmarshal([]byte(`{"can_read":true}`), out)
		}
		for n := range 5000 {
			list = append(list, fmt.Sprintf(`{"login":"u%d"}`, n))
		}
		if strings.HasPrefix(path, "/teams/") { // the last page never comes
			list = list[:pageSize]
		}
		return -1, json.Unmarshal([]byte("["+strings.Join(list, ",")+"]"), out)
	}
	got, err := writersOf(t.Context(), get, "org/r")
	if len(got) != pageSize || requests > 2+maxMembers/pageSize+maxAsked || err != nil {
		t.Errorf("writersOf returned %d writers with %d requests, %v", len(got), requests, err)
	}
}
