package localforge

import (
	"fmt"
	"slices"
	"testing"
)

func (w *world) depends(status int, who string, number int, owner, repo string, on int) answered {
	w.t.Helper()
	return w.want(status, who, "POST", fmt.Sprintf("%s/issues/%d/dependencies", harb, number),
		object{"owner": owner, "repo": repo, "index": on})
}

func TestDependencies(t *testing.T) {
	w := newWorld(t)
	w.file("one", "two", "three")
	w.depends(201, "dev", 2, "johba", "harb", 1)
	w.depends(500, "dev", 2, "johba", "harb", 1) // the dependency already exists
	w.depends(500, "dev", 1, "johba", "harb", 2) // the direct opposite
	w.depends(201, "dev", 1, "johba", "harb", 3)
	w.depends(201, "dev", 3, "johba", "harb", 2) // a cycle of three is accepted
	w.depends(201, "dev", 3, "johba", "harb", 3) // a cycle of one is accepted too
	w.depends(404, "dev", 2, "johba", "harb", 9)
	w.depends(404, "dev", 2, "johba", "none", 1)
	w.depends(404, "reader", 2, "johba", "harb", 3) // not 403

	if got := numbers(w.want(200, "dev", "GET", harb+"/issues/3/dependencies", nil).list); !slices.Equal(got,
		[]int{2, 3}) {
		t.Errorf("issue 3 depends on %v, want 2 and 3", got)
	}
	pair := object{"owner": "johba", "repo": "harb", "index": 2}
	w.want(404, "dev", "DELETE", harb+"/issues/3/blocked", pair)
	w.want(201, "dev", "DELETE", harb+"/issues/3/dependencies", pair)
	if got := numbers(w.want(200, "dev", "GET", harb+"/issues/3/dependencies", nil).list); !slices.Equal(got,
		[]int{3}) {
		t.Errorf("issue 3 depends on %v after the removal, want 3", got)
	}
	w.want(500, "dev", "DELETE", harb+"/issues/3/dependencies", pair)
}

// TestDependencyTrap: a merge closes the issues that its pull request fixes, but silently leaves those open that have
// an open dependency.
func TestDependencyTrap(t *testing.T) {
	w := newWorld(t)
	w.file("free", "blocked", "blocker")
	w.depends(201, "dev", 2, "johba", "harb", 3)
	w.want(412, "dev", "PATCH", harb+"/issues/2", object{"state": "closed"})

	w.push(w.clone("dev"), "fix/issue-1", "a.txt", "a\n")
	n := w.open("fix/issue-1", "both", "Fixes #1, resolves: #2\n\n`closes #3`\n")
	w.want(200, "dev", "POST", fmt.Sprintf("%s/pulls/%d/merge", harb, n), object{"Do": "merge"})
	for number, want := range map[int]string{1: "closed", 2: "open", 3: "open"} {
		if got := w.issue(number)["state"]; got != want {
			t.Errorf("issue %d is %v, want %s", number, got, want)
		}
	}
	w.want(201, "dev", "PATCH", harb+"/issues/3", object{"state": "closed"})
	if got := w.issue(2)["state"]; got != "open" {
		t.Error("closing the blocker also closed the issue that it blocked")
	}
	w.want(201, "dev", "PATCH", harb+"/issues/2", object{"state": "closed"})
}

// A blocker in a repository that the caller cannot read is listed without its title and number.
func TestHiddenDependency(t *testing.T) {
	w := newWorld(t)
	w.file("one")
	w.want(201, "dev", "POST", "/user/repos", object{"name": "secret", "private": true})
	w.want(201, "dev", "POST", "/repos/dev/secret/issues", object{"title": "secret"})
	w.depends(201, "dev", 1, "dev", "secret", 1)
	for who, title := range map[string]string{"dev": "secret", "reader": "HIDDEN", "review": ""} {
		list := w.want(200, who, "GET", harb+"/issues/1/dependencies", nil).list
		if len(list) != 1 || list[0]["title"] != title {
			t.Errorf("%s sees %v, want one called %q", who, list, title)
		}
	}
	w.want(412, "review", "PATCH", harb+"/issues/1", object{"state": "closed"})
}

func TestReferences(t *testing.T) {
	for text, want := range map[string][]reference{
		"Fixes #1":                         {{number: 1, action: "closes"}},
		"fix: #1":                          {{number: 1, action: "closes"}},
		"fixed #1.":                        {{number: 1, action: "closes"}},
		"(closes #12)":                     {{number: 12, action: "closes"}},
		"resolves johba/harb#3":            {{owner: "johba", repo: "harb", number: 3, action: "closes"}},
		"reopens #4":                       {{number: 4, action: "reopens"}},
		"fixes #1, #2":                     {{number: 1, action: "closes"}, {number: 2, action: "none"}},
		"fixes  #1":                        {{number: 1, action: "none"}}, // two spaces
		"prefix #1":                        {{number: 1, action: "none"}},
		"see !7":                           {{number: 7, action: "none"}},
		"color #123abc":                    nil,
		"x#1":                              nil,
		"#1x":                              nil,
		"":                                 nil,
		plain("a\n```\nfixes #1\n```\nb"):  nil,
		plain("`fixes #1` and fixes #2"):   {{number: 2, action: "closes"}},
		plain("~~~\nfixes #1 never ended"): nil,
	} {
		if got := references(text); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
