package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
)

// CheckStart refuses what a start refuses, in the same words.
func TestCheckStart(t *testing.T) {
	needRoot(t)
	job := newJob(t, "")
	dir := filepath.Dir(job.Dir)
	script := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	own, err := findAccount(stranger)
	if err != nil {
		t.Fatal(err)
	}
	ours := script("ours", "#!/bin/sh\n", 0o750)
	if err := os.Chown(ours, 0, int(own.cred.Gid)); err != nil {
		t.Fatal(err)
	}
	hidden := script("closed/tool", "#!/bin/sh\n", 0o755)
	if err := os.Chmod(filepath.Dir(hidden), 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(hidden, link); err != nil {
		t.Fatal(err)
	}
	loader, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	alien := strings.Replace(string(loader), "/lib64/ld-linux", "/lib64/ld-alien", 1)
	tests := []struct{ name, program, user, want string }{
		{"a program", "true", "", ""},
		{"another account", "true", stranger, ""},
		{"a script", script("good", "#! /bin/sh -e\n", 0o755), stranger, ""},
		{"by its group", ours, stranger, ""},
		{
			"a script without its first line", script("text", "echo\n", 0o755), stranger,
			"D/text is neither a program nor a script that begins with #!",
		},
		{"an empty file", script("empty", "", 0o755), "", "D/empty is neither a program nor a script that begins with #!"},
		{
			"a missing interpreter", script("odd", "#!/no/such/shell\n", 0o755), "",
			"D/odd needs /no/such/shell to run it: no such file; looked for /no/such/shell",
		},
		{
			"an interpreter that is a text", script("twice", "#!"+dir+"/text\n", 0o755), "",
			"D/text is neither a program nor a script that begins with #!",
		},
		{"not for others", script("mine", "#!/bin/sh\n", 0o700), stranger, "nobody may not execute D/mine"},
		{"in a closed folder", hidden, stranger, "nobody may not enter D/closed"},
		{"a link into it", link, stranger, "nobody may not enter D/closed"},
		{"root may", hidden, "", ""},
		{"nothing", dir + "/none", "", "no such file; looked for D/none"},
		{"no bit", script("plain", "#!/bin/sh\n", 0o644), "", "not executable; chmod +x D/plain"},
		{
			"another library", script("alien", alien, 0o755), "",
			"D/alien needs /lib64/ld-alien-x86-64.so.2 to run it: no such file; looked for /lib64/ld-alien-x86-64.so.2",
		},
	}
	for _, tt := range tests {
		if tt.name == "another library" && alien == string(loader) {
			continue // another machine's loader
		}
		want := strings.ReplaceAll(strings.ReplaceAll(tt.want, "D/", dir+"/"), "nobody", stranger)
		got := CheckStart(tt.program, "", []string{"PATH=/usr/bin:/bin"}, tt.user)
		if got == nil && want != "" || got != nil && got.Error() != want {
			t.Errorf("%s: got %v, want %q", tt.name, got, want)
		}
		job := newJob(t, "")
		job.Command, job.User = []string{tt.program}, tt.user
		o := (&Executor{Reaper: reaper}).Run(t.Context(), job, nil)
		if refused := fmt.Sprintf("cannot start %s: %s", tt.program, want); want == "" && o.Result != agents.Done ||
			want != "" && o.Reason != refused {
			t.Errorf("%s: the start: got %+v, want %q", tt.name, o, want)
		}
	}
}
