package main

import (
	"regexp"
	"runtime/debug"
	"strings"
)

// version returns the version of a release, such as 0.2.0, or else the commit. Both get "+dirty" if the tree had
// changes. Without version control, as in a test, it returns "devel".
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	return versionOf(info)
}

// commitBehind matches the pseudo-versions that the Go tool makes for a commit without a tag.
var commitBehind = regexp.MustCompile(`[.-]\d{14}-([0-9a-f]{12})(?:\+|$)`)

func versionOf(info *debug.BuildInfo) string {
	said := info.Main.Version
	if said == "" || said == "(devel)" {
		return "devel"
	}
	said, dirty, _ := strings.Cut(said, "+")
	if commit := commitBehind.FindStringSubmatch(said); commit != nil {
		said = commit[1]
	}
	if dirty != "" {
		dirty = "+" + dirty
	}
	return strings.TrimPrefix(said, "v") + dirty
}
