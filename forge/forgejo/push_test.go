package forgejo

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// git runs git in a directory that exists only for the test.
func git(t *testing.T, dir string, stdin []byte, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(string(stdin))
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestPack: git unpacks our packs, names the objects as we do, and finds no fault in them. The sizes are those at which
// an object's header grows by a byte.
func TestPack(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	sizes := []int{0, 16, 2048, 300_000, 1, 15, 200, 2047, 40_000}
	for _, size := range sizes[:sized(len(sizes), 4)] {
		dir := t.TempDir()
		git(t, dir, nil, "init", "--quiet", "--bare", ".")
		text := strings.Repeat("ü", size/2) + "\n"
		o := newCommit(at, text)
		git(t, dir, packOf(o, emptyTree), "unpack-objects", "-q", "--strict")
		git(t, dir, nil, "fsck", "--strict", "--no-dangling")
		want := "tree " + emptyTree.id() + "\nauthor disinto <disinto@localhost> 1767323045 +0000\n" +
			"committer disinto <disinto@localhost> 1767323045 +0000\n\n" + text
		if got := git(t, dir, nil, "cat-file", "commit", o.id()); got != want {
			t.Errorf("%d bytes: got %.300q, want %.300q", size, got, want)
		}
	}
}

// TestPush creates, moves and deletes a ref; each move succeeds only from the ref's actual commit.
func TestPush(t *testing.T) {
	onEach(t, func(w *world) {
		c := w.client()
		one, two := newCommit(time.Now(), "one"), newCommit(time.Now(), "two")
		const ref = "refs/disinto/claims/7"
		for _, tc := range []struct {
			name          string
			before, after string
			object        object
			refused       bool
		}{
			{"create", noObject, one.id(), one, false},
			{"create an existing ref", noObject, one.id(), one, true},
			{"create an existing ref with another commit", noObject, two.id(), two, true},
			{"move from a wrong commit", two.id(), two.id(), two, true},
			{"move", one.id(), two.id(), two, false},
			{"delete from a wrong commit", one.id(), noObject, object{}, true},
			{"delete", two.id(), noObject, object{}, false},
			{"delete a missing ref", two.id(), noObject, object{}, true},
			{"create again", noObject, one.id(), one, false},
		} {
			err := c.push(w.Context(), w.repo, move{ref, tc.before, tc.after}, tc.object, emptyTree)
			_, refused := errors.AsType[*refusedMove](err)
			if refused != tc.refused || err != nil && !refused {
				w.Errorf("%s: got %v, want refused=%v", tc.name, err, tc.refused)
			}
			if errors.Is(err, forge.ErrForbidden) {
				w.Errorf("%s: %v counts as permanent", tc.name, err)
			}
		}
	})
}

// TestPushRights: the error for an account without write access is not that of a taken ref, and does not contain the
// token.
func TestPushRights(t *testing.T) {
	onEach(t, func(w *world) {
		o := newCommit(time.Now(), "one")
		reader := w.account("reader")
		w.collaborator(w.repo, reader, "read")
		for name, token := range map[string]string{
			"reader": w.tokens[reader], "stranger": w.tokens[w.account("stranger")], "wrong": strings.Repeat("0", 40),
		} {
			c := w.client()
			c.token, c.login = token, "anybody"
			err := c.push(w.Context(), w.repo, move{claimRef(7), noObject, o.id()}, o, emptyTree)
			if !errors.Is(err, forge.ErrForbidden) && !errors.Is(err, forge.ErrNotFound) {
				w.Errorf("%s: got %v, want ErrForbidden or ErrNotFound", name, err)
			}
			if err != nil && strings.Contains(err.Error(), token) {
				w.Errorf("%s: the token is in %q", name, err)
			}
		}
	})
}

func TestReadReport(t *testing.T) {
	const ref = "refs/disinto/claims/7"
	packet := func(lines ...string) string {
		var b strings.Builder
		for _, l := range lines {
			fmt.Fprintf(&b, "%04x%s", len(l)+4, l)
		}
		return b.String() + "0000"
	}
	for _, tc := range []struct {
		name, report, refused, broken string
	}{
		{name: "done", report: packet("unpack ok\n", "ok "+ref+"\n")},
		{
			name: "refused", report: packet("unpack ok\n", "ng "+ref+" failed to update ref\n"),
			refused: "failed to update ref",
		},
		{
			name: "a bad pack", report: packet("unpack index-pack abnormal exit\n", "ng "+ref+" unpacker error\n"),
			refused: "index-pack abnormal exit",
		},
		{name: "control characters", report: packet("unpack ok\n", "ng "+ref+" a\x1b[31m\rb\n"), refused: "a [31m b"},
		{name: "another ref", report: packet("unpack ok\n", "ok refs/disinto/claims/70\n"), broken: "does not mention"},
		{name: "not unpacked", report: packet("ok " + ref + "\n"), broken: "does not mention"},
		{name: "nothing", report: "", broken: "does not mention"},
		{name: "cut off", report: packet("unpack ok\n", "ok "+ref+"\n")[:20], broken: "is not a git packet"},
		{name: "a page", report: "<html>log in</html>", broken: "is not a git packet"},
		{name: "a length of two", report: "0002", broken: "is not a git packet"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := readReport([]byte(tc.report), ref)
			refused, isRefused := errors.AsType[*refusedMove](err)
			switch {
			case tc.refused != "":
				if !isRefused || refused.why != tc.refused {
					t.Errorf("got %v, want refused: %s", err, tc.refused)
				}
			case tc.broken != "":
				if isRefused || err == nil || !strings.Contains(err.Error(), tc.broken) {
					t.Errorf("got %v, want %s", err, tc.broken)
				}
			case err != nil:
				t.Error(err)
			}
		})
	}
}

func FuzzReadReport(f *testing.F) {
	f.Add([]byte("000eunpack ok\n001fok refs/disinto/claims/7\n0000"))
	f.Add([]byte("000eunpack ok\n0020ng refs/disinto/claims/7 no\n0000"))
	f.Fuzz(func(_ *testing.T, report []byte) { _ = readReport(report, "refs/disinto/claims/7") })
}
