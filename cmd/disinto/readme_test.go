package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/file"
)

const readmePath = "../../README.md"

// README.md shows the program's present output.
func TestReadme(t *testing.T) {
	raw, err := os.ReadFile(readmePath)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	text = replaceBlock(t, text, "status", "```\n"+readTestdata(t, filepath.Join("status", "demo.txt"))+"```\n")
	text = replaceBlock(t, text, "codes", codeTable())
	golden(t, readmePath, text)
}

// replaceBlock puts text between <!-- name: ... --> and the next <!-- end -->.
func replaceBlock(t *testing.T, in, name, text string) string {
	t.Helper()
	before, rest, ok := strings.Cut(in, "<!-- "+name+":")
	head, rest, ok2 := strings.Cut(rest, "-->\n")
	_, after, ok3 := strings.Cut(rest, "<!-- end -->")
	if !ok || !ok2 || !ok3 {
		t.Fatalf("README.md has no block %q", name)
	}
	return before + "<!-- " + name + ":" + head + "-->\n" + text + "<!-- end -->" + after
}

// codeTable is the troubleshooting table: one row for each code.
func codeTable() string {
	var b strings.Builder
	b.WriteString("| code | it means | what you can do |\n|---|---|---|\n")
	for _, d := range threads.Codes() {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", d.Code, d.Means, d.Mend)
	}
	return b.String()
}

// The configuration that README.md shows loads.
func TestReadmeConfiguration(t *testing.T) {
	raw, err := os.ReadFile(readmePath)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(raw), "```toml\n")
	text, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("README.md shows no configuration")
	}
	config, err := file.Decode("README.md", text, func(string) (string, bool) { return "token", true })
	if err != nil {
		t.Fatal(err)
	}
	if lines := problems(config); len(lines) > 0 {
		t.Errorf("it has problems: %q", lines)
	}
}
