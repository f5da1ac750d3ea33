package rules

import "fmt"

var settingRules = []rule{
	{
		"the version tells Forgejo from Gitea",
		"forge/forgejo Software, which wants Forgejo 7 or later, or Gitea 1.23 or later",
		serverVersion,
	},
	{
		"a repository says what its caller may do, and how it merges",
		"forge/forgejo Prepare, which says what is missing, and Merge, which merges in the repository's style",
		repositorySettings,
	},
}

func serverVersion(w *world) {
	version := read[struct {
		Version string `json:"version"`
	}](w.anonymous(), "/version").Version
	var major, minor int
	_, err := fmt.Sscanf(version, "%d.%d.", &major, &minor)
	if err != nil || major < 7 && (major != 1 || minor < 23) {
		w.Errorf("version is %q, want 7.0 or more, or 1.23 or more, and a dot", version)
	}
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
			w.Errorf("a fresh repository: got %+v", got)
		}
	}
}
