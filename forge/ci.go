package forge

import (
	"path"
	"slices"
	"strings"
)

// Status is one report of a check on a commit. Of the reports with the same Context, the newest has the highest ID.
type Status struct {
	ID      int64
	Context string // the check's name, such as "ci/woodpecker/pr"
	State   string // pending, success, error, failure, warning or skipped
}

// CombineCI reduces a commit's statuses to one state. Of several statuses with the same context, only the newest
// counts.
//
// If required names contexts, only these count, and a required context without a report is pending. An entry of
// required can be a glob whose * also matches slashes. A warning on a required context fails: Forgejo refuses the merge
// because of it, so waiting would never end. If required is empty, every context counts and a warning passes, because
// nothing keeps the forge from merging. A skipped check passes in both cases. Without required contexts and without any
// report the result is CINone.
func CombineCI(required []string, statuses []Status) CI {
	latest := make(map[string]Status, len(statuses))
	for _, s := range statuses {
		if old, ok := latest[s.Context]; !ok || s.ID > old.ID {
			latest[s.Context] = s
		}
	}
	if len(required) == 0 && len(latest) == 0 {
		return CINone
	}
	matched := make([]bool, len(required))
	pending := false
	for _, s := range latest {
		counts := len(required) == 0
		for i, pattern := range required {
			if matchContext(pattern, s.Context) {
				matched[i], counts = true, true
			}
		}
		switch {
		case !counts, s.State == "success", s.State == "skipped":
		case s.State == "warning" && len(required) == 0:
		case s.State == "failure", s.State == "error", s.State == "warning":
			return CIFailure
		default:
			pending = true
		}
	}
	if pending || slices.Contains(matched, false) {
		return CIPending
	}
	return CISuccess
}

// matchContext matches as Forgejo does: a slash is a character like any other. path.Match treats a slash as a
// separator, so matchContext replaces slashes first. A pattern that is not a valid glob matches only itself.
func matchContext(pattern, context string) bool {
	if pattern == context {
		return true
	}
	plain := strings.NewReplacer("/", "\x00")
	ok, err := path.Match(plain.Replace(pattern), plain.Replace(context))
	return ok && err == nil
}

// BranchCI reduces the statuses of a branch's newest commit to one state, and names the checks that failed, sorted; see
// CheckName. required are the contexts that a pull request into the branch needs: if there are any, only checks of
// these names count. A required check without a report is not pending, because it may run for pull requests only.
func BranchCI(required []string, statuses []Status) (state CI, failed []string) {
	latest := make(map[string]Status, len(statuses))
	for _, s := range statuses {
		if old, ok := latest[s.Context]; !ok || s.ID > old.ID {
			latest[s.Context] = s
		}
	}
	for _, s := range latest {
		name := CheckName(s.Context)
		counts := len(required) == 0 || slices.ContainsFunc(required, func(pattern string) bool {
			return matchContext(CheckName(pattern), name)
		})
		switch {
		case !counts:
		case s.State == "failure", s.State == "error", s.State == "warning" && len(required) > 0:
			failed = append(failed, name)
		case s.State == "pending":
			state = CIPending
		case state == CINone:
			state = CISuccess
		}
	}
	slices.Sort(failed)
	if failed = slices.Compact(failed); len(failed) > 0 {
		state = CIFailure
	}
	return state, failed
}

// CheckName returns the name that a check has for pull requests and for pushes alike: "CI / test" of
// "CI / test (pull_request)", "ci/woodpecker/test" of "ci/woodpecker/pr/test".
func CheckName(context string) string {
	for _, event := range []string{" (push)", " (pull_request)", " (pull_request_target)"} {
		context = strings.TrimSuffix(context, event)
	}
	parts := slices.DeleteFunc(strings.Split(context, "/"), func(part string) bool {
		return part == "pr" || part == "push" || part == "pull_request"
	})
	return strings.Join(parts, "/")
}
