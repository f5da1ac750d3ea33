package rules

import "fmt"

var settingRules = []rule{
	{
		"the version distinguishes Forgejo from Gitea",
		"forge/forgejo Software, which requires Forgejo 7 or later, or Gitea 1.23 or later",
		serverVersion,
	},
	{
		"a repository shows the caller's rights and the merge style",
		"forge/forgejo Prepare, which reports missing rights, and Merge, which uses the repository's style",
		repositorySettings,
	},
}

func serverVersion(w *world) {
	if major, minor := w.version(); major < 7 && (major != 1 || minor < 23) {
		w.Errorf("the version is %d.%d, want at least 7.0 or 1.23", major, minor)
	}
}

func (w *world) version() (major, minor int) {
	w.Helper()
	text := read[struct {
		Version string `json:"version"`
	}](w.anonymous(), "/version").Version
	if _, err := fmt.Sscanf(text, "%d.%d.", &major, &minor); err != nil {
		w.Fatalf("the version is %q: %v", text, err)
	}
	return major, minor
}

// isGitea reports whether the server is a Gitea, for the rules in which it differs from Forgejo.
func (w *world) isGitea() bool {
	w.Helper()
	major, _ := w.version()
	return major == 1
}

func repositorySettings(w *world) {
	r := w.code()
	type settings struct {
		FullName    string          `json:"full_name"`
		Empty       bool            `json:"empty"`
		Archived    bool            `json:"archived"`
		Branch      string          `json:"default_branch"`
		Issues      bool            `json:"has_issues"`
		Pulls       bool            `json:"has_pull_requests"`
		Style       string          `json:"default_merge_style"`
		Permissions map[string]bool `json:"permissions"`
		Tracker     *struct {
			Dependencies bool `json:"enable_issue_dependencies"`
		} `json:"internal_tracker"`
	}
	for a, push := range map[*account]bool{r.owner: true, r.writer("dev"): true, r.collaborator("reader", "read"): false} {
		got := read[settings](a, r.at(""))
		same(w, "full_name", got.FullName, r.fullName())
		same(w, "default_branch", got.Branch, "main")
		same(w, "default_merge_style", got.Style, "merge")
		same(w, "push for "+a.name, got.Permissions["push"], push)
		if got.Empty || got.Archived || !got.Issues || !got.Pulls || got.Tracker == nil || !got.Tracker.Dependencies {
			w.Errorf("a new repository: got %+v", got)
		}
	}
}
