package session

import (
	"strings"
	"testing"
)

// What git says about a push tells a refusal from a failure, and whether other commits may avoid it.
func TestRefusalIn(t *testing.T) {
	rejected := func(remote, why string) string {
		return remote + "To http://forge/o/r.git\n ! [remote rejected] HEAD -> fix/issue-1 (" + why + ")\n" +
			"error: failed to push some refs to 'http://forge/o/r.git'\n"
	}
	const lock = "error: cannot lock ref 'refs/heads/fix/issue-1': 'refs/heads/fix' exists; " +
		"cannot create 'refs/heads/fix/issue-1'"
	const declined, forced = "pre-receive hook declined", "Forgejo: branch fix/issue-1 is protected from force push"
	for _, row := range []struct {
		name, said, words string
		mendable          bool
	}{
		{
			"a hook",
			rejected("remote: \nremote: Forgejo: no ticket        \nremote: error: hook declined to update x\n", declined),
			"Forgejo: no ticket (pre-receive hook declined)", true,
		},
		{"a protected branch", rejected("remote: "+forced+"\n", declined), forced + " (" + declined + ")", false},
		{
			"a limit of git", rejected("remote: fatal: pack exceeds maximum allowed size\n", "unpacker error"),
			"fatal: pack exceeds maximum allowed size (unpacker error)", true,
		},
		{
			"a limit of a proxy", "error: RPC failed; HTTP 413 curl 22 The requested URL returned error: 413\n",
			"it is too large for the forge, or for a proxy before it (HTTP 413)", true,
		},
		{"a branch in the way", rejected("remote: "+lock+"\n", "failed to update ref"), lock, false},
		{"no right to push", rejected("remote: Forgejo: User permission denied for writing.\n", declined), "", false},
		{"another push at the same time", rejected("", "failed to update ref"), "", false},
		{"another commit on the branch", " ! [rejected] HEAD -> fix/issue-1 (stale info)\n", "", false},
		{"no forge", "fatal: unable to access 'http://forge/': Could not resolve host\n", "", false},
	} {
		no := refusalIn(row.said)
		if no == nil {
			no = &refusedPush{}
		}
		if no.words != row.words || no.mendable != row.mendable {
			t.Errorf("%s: got %q, mendable %v; want %q, %v", row.name, no.words, no.mendable, row.words, row.mendable)
		}
	}
}

// A pointer of Git LFS is told from other small files.
func TestParsePointer(t *testing.T) {
	const id = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393"
	good := "version https://git-lfs.github.com/spec/v1\noid sha256:" + id + "\nsize 12345\n"
	if f, ok := parsePointer(good); !ok || f.ID != id || f.Size != 12345 {
		t.Errorf("got %+v, %v", f, ok)
	}
	if _, ok := parsePointer("version https://git-lfs.github.com/spec/v1\next-0-foo sha256:" + id + "\noid sha256:" + id +
		"\nsize 1\n"); !ok {
		t.Error("a pointer with an extension is none")
	}
	short := strings.Replace(good, id, "ab", 1)
	for _, bad := range []string{"", "x" + good, good[:60], good[:len(good)-4], short} {
		if _, ok := parsePointer(bad); ok {
			t.Errorf("%q is a pointer", bad)
		}
	}
}

// Only a submodule's address on the forge counts, whoever writes .gitmodules.
func TestSubmoduleURL(t *testing.T) {
	const forge, from = "https://forge.example:3000", "https://forge.example:3000/o/r.git"
	for said, want := range map[string]string{
		"../lib.git":                             forge + "/o/lib.git",
		"../../other/lib":                        forge + "/other/lib",
		forge + "/o/lib.git":                     forge + "/o/lib.git",
		"../../../../../etc":                     forge + "/etc",
		"https://forge.example:3000.evil/o/lib":  "",
		"https://x:y@forge.example:3000/o/lib":   "",
		forge + "/../x":                          "",
		"http://forge.example:3000/o/lib":        "",
		"ext::sh -c touch% x":                    "",
		"file:///etc":                            "",
		"git@forge.example:o/lib.git":            "",
		"/srv/git/lib.git":                       "",
		"":                                       "",
		"--upload-pack=x":                        "",
		forge + "/o/lib?x=" + forge:              "",
		"https://evil.example/https://forge/o/l": "",
	} {
		at, ok := submoduleURL(forge, from, said)
		if ok != (want != "") || ok && at != want {
			t.Errorf("%q: got %q, %v; want %q", said, at, ok, want)
		}
	}
}
