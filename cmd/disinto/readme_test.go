package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/file"
)

const (
	readmePath = "../../README.md"
	codesPath  = "../../docs/codes.md"
)

// docs/codes.md has a row for each code.
func TestReadme(t *testing.T) {
	raw, err := os.ReadFile(codesPath)
	if err != nil {
		t.Fatal(err)
	}
	waits := func(d threads.CodeDoc) bool { return d.Class != threads.NoHold }
	page := replaceBlock(t, string(raw), "codes", codeTable(waits))
	golden(t, codesPath, replaceBlock(t, page, "events", codeTable(func(d threads.CodeDoc) bool { return !waits(d) })))
}

// The README is short, so that people read all of it.
func TestReadmeLength(t *testing.T) {
	raw, err := os.ReadFile(readmePath)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(raw), "\n"); n > 160 {
		t.Errorf("got %d lines, want at most 160", n)
	}
}

var (
	linkPattern    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingPattern = regexp.MustCompile(`(?m)^#+ (.*)$`)
	anchorDrops    = regexp.MustCompile("[^a-z0-9 _-]")
)

// Every link in the documentation leads to an existing file and an existing heading.
func TestLinks(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, readmePath, "../../CONTRIBUTING.md") {
		raw, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range linkPattern.FindAllStringSubmatch(string(raw), -1) {
			if !strings.Contains(link[1], "://") && !leads(page, link[1]) {
				t.Errorf("%s: the link %s has no target", page, link[1])
			}
		}
	}
}

// leads reports whether a link on a page has a target.
func leads(page, link string) bool {
	file, heading, _ := strings.Cut(link, "#")
	target := page
	if file != "" {
		target = filepath.Join(filepath.Dir(page), file)
	}
	if heading == "" {
		_, err := os.Stat(target)
		return err == nil
	}
	raw, err := os.ReadFile(target)
	if err != nil {
		return false
	}
	for _, h := range headingPattern.FindAllStringSubmatch(string(raw), -1) {
		if strings.ReplaceAll(anchorDrops.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-") == heading {
			return true
		}
	}
	return false
}

// replaceBlock replaces the text between <!-- name: ... --> and the next <!-- end -->.
func replaceBlock(t *testing.T, in, name, text string) string {
	t.Helper()
	before, rest, ok := strings.Cut(in, "<!-- "+name+":")
	head, rest, ok2 := strings.Cut(rest, "-->\n")
	_, after, ok3 := strings.Cut(rest, "<!-- end -->")
	if !ok || !ok2 || !ok3 {
		t.Fatalf("the page has no block %q", name)
	}
	return before + "<!-- " + name + ":" + head + "-->\n" + text + "<!-- end -->" + after
}

// codeTable returns a troubleshooting table, with a row for each code that fits.
func codeTable(fits func(threads.CodeDoc) bool) string {
	var b strings.Builder
	b.WriteString("| code | it means | what you can do |\n|---|---|---|\n")
	for _, d := range threads.Codes() {
		if fits(d) {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", d.Code, d.Means, d.Mend)
		}
	}
	return b.String()
}

// The configuration in README.md loads.
func TestReadmeConfiguration(t *testing.T) {
	raw, err := os.ReadFile(readmePath)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(raw), "```toml\n")
	text, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("README.md has no configuration")
	}
	config, err := file.Decode("README.md", text, func(string) (string, bool) { return "token", true })
	if err != nil {
		t.Fatal(err)
	}
	if lines := problems(config); len(lines) > 0 {
		t.Errorf("got problems %q", lines)
	}
}
