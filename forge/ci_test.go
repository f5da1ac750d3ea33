package forge

import (
	"fmt"
	"testing"
)

func TestCombineCI(t *testing.T) {
	tests := []struct {
		name     string
		required []string
		statuses []Status
		want     CI
	}{
		{"nothing", nil, nil, CINone},
		{"success", nil, []Status{{1, "test", "success"}, {2, "lint", "success"}}, CISuccess},
		{"one of two is pending", nil, []Status{{1, "test", "success"}, {2, "lint", "pending"}}, CIPending},
		{"failure outweighs pending", nil, []Status{{1, "test", "failure"}, {2, "lint", "pending"}}, CIFailure},
		{"error", nil, []Status{{1, "test", "error"}}, CIFailure},
		{"the newest report counts", nil, []Status{{9, "test", "success"}, {3, "test", "failure"}}, CISuccess},
		{"the newest report counts, in any order", nil, []Status{{3, "test", "success"}, {9, "test", "failure"}}, CIFailure},
		{"warning and skipped pass", nil, []Status{{1, "test", "warning"}, {2, "lint", "skipped"}}, CISuccess},
		{"an unknown state is pending", nil, []Status{{1, "test", "running"}}, CIPending},
		{"an empty state is pending", nil, []Status{{1, "test", ""}}, CIPending},

		{"required and missing", []string{"test"}, nil, CIPending},
		{"required and reported", []string{"test"}, []Status{{1, "test", "success"}}, CISuccess},
		{"one of two required is missing", []string{"test", "lint"}, []Status{{1, "test", "success"}}, CIPending},
		{"failure outweighs missing", []string{"test", "lint"}, []Status{{1, "test", "failure"}}, CIFailure},
		{"others are ignored", []string{"test"}, []Status{{1, "test", "success"}, {2, "deploy", "failure"}}, CISuccess},
		{"others do not replace a missing one", []string{"test"}, []Status{{2, "deploy", "failure"}}, CIPending},
		{"a required warning fails", []string{"test"}, []Status{{1, "test", "warning"}}, CIFailure},
		{"a required check that was skipped passes", []string{"test"}, []Status{{1, "test", "skipped"}}, CISuccess},
		{"glob", []string{"ci/*"}, []Status{{1, "ci/woodpecker/pr", "failure"}}, CIFailure},
		{"glob: every match counts", []string{"ci/*"}, []Status{{1, "ci/a", "success"}, {2, "ci/b", "pending"}}, CIPending},
		{"glob that matches nothing", []string{"ci/*"}, []Status{{1, "lint", "success"}}, CIPending},
		{"an invalid glob matches literally", []string{"test [1"}, []Status{{1, "test [1", "success"}}, CISuccess},
		{"brackets in a name", []string{"test [amd64]"}, []Status{{1, "test [amd64]", "success"}}, CISuccess},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := CombineCI(tt.required, tt.statuses); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestBranchCI(t *testing.T) {
	status := func(id int64, context, state string) Status { return Status{ID: id, Context: context, State: state} }
	tests := []struct {
		required []string
		statuses []Status
		want     CI
		failed   string
	}{
		{nil, nil, CINone, "[]"},
		{nil, []Status{status(1, "a", "success"), status(2, "b", "pending")}, CIPending, "[]"},
		{nil, []Status{status(1, "a", "failure"), status(2, "a", "success")}, CISuccess, "[]"},
		{nil, []Status{status(1, "CI / b (push)", "error"), status(2, "a", "failure")}, CIFailure, "[CI / b a]"},
		{[]string{"CI / * (pull_request)"}, []Status{status(1, "CI / b (push)", "failure")}, CIFailure, "[CI / b]"},
		{[]string{"test"}, []Status{status(1, "deploy (push)", "failure")}, CINone, "[]"},
	}
	for _, tt := range tests {
		if got, failed := BranchCI(tt.required, tt.statuses); got != tt.want || fmt.Sprint(failed) != tt.failed {
			t.Errorf("%v of %v: got %v %v, want %v %s", tt.required, tt.statuses, got, failed, tt.want, tt.failed)
		}
	}
	if got := CheckName("ci/woodpecker/pr/test"); got != "ci/woodpecker/test" {
		t.Errorf("got %q", got)
	}
}
