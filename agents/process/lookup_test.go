package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLookup(t *testing.T) {
	dir := t.TempDir()
	for path, mode := range map[string]os.FileMode{
		"a/tool": 0o644, "b/tool": 0o755, "b/other": 0o755, "work/tool": 0o755, "work/dev/run.sh": 0o755, "a/plain": 0o644,
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(dir+"/a/other", 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, program, path, want, err string }{
		{"first that can run", "tool", "PATH=$D/a:$D/b", "$D/b/tool", ""},
		{"a folder is no program", "other", "PATH=$D/a:$D/b", "$D/b/other", ""},
		{"an empty element is the working directory", "tool", "PATH=:$D/b", "./tool", ""},
		{"relative elements too", "run.sh", "PATH=dev", "dev/run.sh", ""},
		{"a slash means no search", "dev/run.sh", "PATH=$D/b", "dev/run.sh", ""},
		{"absolute", "$D/b/tool", "", "$D/b/tool", ""},
		{"default PATH", "sh", "", "ANY", ""},
		{"found, but not executable", "plain", "PATH=$D/a:$D/b", "", "not executable; chmod +x $D/a/plain"},
		{"nowhere", "nix", "PATH=$D/a:$D/b:/nonexistent:$D/b/tool", "", "no such program in PATH"},
		{"not where it should be", "dev/nix.sh", "", "", "no such file; looked for $D/work/dev/nix.sh"},
		{"below a file", "dev/run.sh/x", "", "", "no such file; looked for $D/work/dev/run.sh/x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := func(s string) string { return strings.ReplaceAll(s, "$D", dir) }
			var env []string
			if tt.path != "" {
				env = []string{"PATH=/overridden", in(tt.path), "XPATH=/other"}
			}
			got, err := Lookup(in(tt.program), dir+"/work", env)
			if tt.err != "" {
				if err == nil || err.Error() != in(tt.err) {
					t.Errorf("error %v, want %s", err, in(tt.err))
				}
				return
			}
			if err != nil || got != in(tt.want) && tt.want != "ANY" {
				t.Errorf("lookup = %q, %v, want %q", got, err, in(tt.want))
			}
		})
	}
}
