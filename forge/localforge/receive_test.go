package localforge

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// TestReceive: a client's small push is received without git, and git is asked about every push that is not complete or
// has to be refused.
func TestReceive(t *testing.T) {
	var asked atomic.Int32
	w := newWorld(t, func(o *Options) {
		run := o.Run
		o.Run = func(ctx context.Context, cmd Cmd) error {
			if slices.Contains(cmd.Argv, "receive-pack") && !slices.Contains(cmd.Argv, "--advertise-refs") {
				asked.Add(1)
			}
			return run(ctx, cmd)
		}
	})
	r := w.f.repoLocked("johba", "harb")
	branch := func(name string) string {
		w.f.mu.Lock()
		defer w.f.mu.Unlock()
		return r.branch(name)
	}
	dir := w.clone("dev")
	first := w.push(dir, "b", "dir/b.txt", "b")
	second := w.push(dir, "b", "dir/b.txt", "bb")
	w.git(dir, "push", "--quiet", "--force", "origin", first+":refs/heads/b", first+":refs/heads/c")
	w.git(dir, "push", "--quiet", "origin", ":refs/heads/c", second+":refs/heads/d")
	w.git(r.dir, "fsck", "--strict")
	if n := asked.Swap(0); n != 2 || branch("b") != first || branch("c") != "" || branch("d") != second {
		t.Errorf("git was asked %d times, want only for the two pushes of two refs; d is at %q", n, branch("d"))
	}
	w.git(dir, "push", "--quiet", "origin", ":refs/heads/d")
	if n := asked.Swap(0); n != 0 || branch("d") != "" {
		t.Errorf("git was asked %d times for a deletion; d is at %q", n, branch("d"))
	}
	orphan := "tree " + noCommit[1:] + "1\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nx\n"
	lost := objectName("commit", orphan)
	for _, tc := range []struct{ name, before, after, pack, want string }{
		{"an unknown commit", noCommit, lost, packed(), "ng refs/heads/e "},
		{"a commit without its tree", noCommit, lost, packed(orphan), "ng refs/heads/e "},
		{"a ref that has moved", second, first, packed(), "ng refs/heads/e "},
		{"half a pack", noCommit, first, packed(orphan)[:60], "unpack "},
	} {
		line := tc.before + " " + tc.after + " refs/heads/e\x00report-status"
		body := fmt.Sprintf("%04x%s0000%s", len(line)+4, line, tc.pack)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.remote("dev")+"/git-receive-pack",
			strings.NewReader(body))
		w.must(err)
		resp, err := w.client.Do(req)
		w.must(err)
		var answer bytes.Buffer
		_, _ = answer.ReadFrom(resp.Body)
		resp.Body.Close()
		n, refused := asked.Swap(0), strings.Contains(answer.String(), tc.want)
		if n != 1 || !refused || strings.Contains(answer.String(), "ok refs/") || branch("e") != "" {
			t.Errorf("%s: git was asked %d times; the answer is %q", tc.name, n, answer.String())
		}
	}
}

func objectName(kind, body string) string {
	return fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "%s %d\x00%s", kind, len(body), body)))
}

// packed returns a pack of commits.
func packed(commits ...string) string {
	var pack bytes.Buffer
	pack.WriteString("PACK")
	_ = binary.Write(&pack, binary.BigEndian, [2]uint32{2, uint32(len(commits))})
	for _, text := range commits {
		pack.Write([]byte{1<<4 | 0x80 | byte(len(text)&15), byte(len(text) >> 4)})
		z := zlib.NewWriter(&pack)
		_, _ = z.Write([]byte(text))
		_ = z.Close()
	}
	sum := sha1.Sum(pack.Bytes())
	return pack.String() + string(sum[:])
}
