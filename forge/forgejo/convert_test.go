package forgejo

import (
	"reflect"
	"testing"
	"time"

	"code.gitea.io/sdk/gitea"
)

// TestConvertsEveryField converts answers of the forge in which every field is set, and requires every field of the
// facts to be set. A field that no conversion sets would be missing in every decision, and no script or simulated world
// would show that, because they make their own facts.
func TestConvertsEveryField(t *testing.T) {
	elsewhere := map[string]string{ // fields that need other answers too
		"Issue.HeldBy": "claims", "Issue.Reopened": "events", "Issue.Blockers": "dependencies",
		"Issue.BlockersKnown": "dependencies",

		"Issue.Talk": "comments", "Pull.Talk": "comments",

		"Pull.Retargeted": "events", "Pull.Coders": "commits and events", "Pull.Contained": "commits",
		"Pull.HeldBy": "claims", "Pull.Stranger": "writers", "Pull.ClosedBy": "events", "Pull.Reviews": "reviews",
		"Pull.CI": "statuses", "Pull.CISince": "statuses",
		"Pull.Red": "statuses", "Pull.RedBefore": "statuses", "Pull.Mergeable": "mergeable", "Pull.ConflictSince": "scans",
	}
	var is gitea.Issue
	var p gitea.PullRequest
	fill(reflect.ValueOf(&is).Elem(), 3)
	fill(reflect.ValueOf(&p).Elem(), 3)
	is.Body, p.Body = cutMark, "Fixes #3"
	slimIssue(&is) // as a list's entry
	slimPull(&p)
	for _, fact := range []any{issueOf("o/r", &is, time.Now()), pullOf("o/r", &p, time.Now())} {
		v := reflect.ValueOf(fact)
		for i := range v.NumField() {
			name := v.Type().Name() + "." + v.Type().Field(i).Name
			if v.Field(i).IsZero() == (elsewhere[name] == "") {
				t.Errorf("%s is %v; the table says that it comes from %q", name, v.Field(i), elsewhere[name])
			}
		}
	}
}

// fill sets every field of an answer to a non-zero value. The state is closed, so that closing times are converted too.
func fill(v reflect.Value, depth int) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Now()))
		return
	case gitea.StateType:
		v.Set(reflect.ValueOf(gitea.StateClosed))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.String:
		v.SetString("x")
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth)
			}
		}
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), depth-1)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth)
	}
}
