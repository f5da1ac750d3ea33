package main

import (
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
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

// older reports whether a release is older than another. Versions that are commits have no order.
func older(a, b string) bool {
	x, y := release(a), release(b)
	return x != nil && y != nil && slices.Compare(x, y) < 0
}

// releasePattern matches the version of a release, such as 0.2.0.
var releasePattern = regexp.MustCompile(`^(\d{1,9})\.(\d{1,9})\.(\d{1,9})(?:[-+]|$)`)

// release returns the numbers of a release; nil for any other version.
func release(version string) (numbers []int) {
	parts := releasePattern.FindStringSubmatch(version)
	if parts == nil {
		return nil
	}
	for _, part := range parts[1:] {
		n, _ := strconv.Atoi(part) // digits only
		numbers = append(numbers, n)
	}
	return numbers
}
