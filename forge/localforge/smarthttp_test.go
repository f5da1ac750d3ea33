package localforge

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestCloneAndPush(t *testing.T) {
	w := newWorld(t)
	open := w.url + "/johba/harb.git"
	as := func(user string) string { return strings.Replace(open, "http://", "http://"+user+"@", 1) }
	dir := t.TempDir()
	w.git(dir, "clone", "-q", open, "anonymous") // the repository is public
	w.git(dir, "clone", "-q", as("dev:dev-password"), "by-password")
	w.git(dir, "clone", "-q", as("whoever:"+w.tokens["dev"]), "by-token")
	if body, err := os.ReadFile(filepath.Join(dir, "by-token", "src", "main.txt")); err != nil ||
		string(body) != "one\ntwo\nthree\n" {
		t.Errorf("the cloned file has %q, %v", body, err)
	}
	clone := filepath.Join(dir, "anonymous")
	w.git(clone, "commit", "-q", "--allow-empty", "-m", "c")
	for _, row := range []struct{ who, remote, want string }{
		{"without credentials", open, "Authentication failed"},
		{"a wrong password", as("dev:wrong"), "Authentication failed"},
		{"a reader", w.remote("reader"), "pre-receive hook declined"},
		{"a writer", w.remote("dev"), ""},
	} {
		out, err := w.tryGit(clone, "push", row.remote, "HEAD:refs/heads/b")
		if row.want == "" && err != nil || row.want != "" &&
			(err == nil || !strings.Contains(strings.ReplaceAll(out, "could not read Username", "Authentication failed"),
				row.want)) {
			t.Errorf("%s: %v\n%s", row.who, err, out)
		}
	}
	w.want(200, "", "GET", harb+"/branches/b", nil)
	if out, err := w.tryGit(dir, "clone", w.url+"/johba/none.git"); err == nil {
		t.Errorf("git cloned a missing repository: %s", out)
	}
}

func TestPrivateRepository(t *testing.T) {
	w := newWorld(t)
	w.want(201, "johba", "POST", "/user/repos", object{"name": "secret", "private": true, "auto_init": true})
	at := func(who string) string {
		return strings.Replace(w.url, "http://", "http://"+who+":"+w.tokens[who]+"@", 1) + "/johba/secret"
	}
	dir := t.TempDir()
	for _, remote := range []string{w.url + "/johba/secret", at("stranger")} {
		if out, err := w.tryGit(dir, "ls-remote", remote); err == nil {
			t.Errorf("%s shows %s", remote, out)
		}
	}
	w.git(dir, "ls-remote", at("johba")) // the address works without .git too
	readOnly, err := w.f.AddToken("johba", "read:repository")
	w.must(err)
	w.tokens["johba"] = readOnly
	w.git(dir, "clone", "-q", at("johba"), "c")
	w.git(filepath.Join(dir, "c"), "commit", "-q", "--allow-empty", "-m", "c")
	if out, err := w.tryGit(filepath.Join(dir, "c"), "push", "origin", "HEAD"); err == nil {
		t.Errorf("a push with a read-only token succeeded: %s", out)
	}
}

// TestClaimRace: of several concurrent pushes of different commits to one new ref, exactly one succeeds. Claims rely on
// this.
func TestClaimRace(t *testing.T) {
	w := newWorld(t)
	const claimers = 6
	dirs := make([]string, claimers)
	for n := range dirs {
		dirs[n] = t.TempDir()
		w.git(dirs[n], "init", "-q")
		w.git(dirs[n], "commit", "-q", "--allow-empty", "-m", fmt.Sprint("claim ", n))
	}
	var won atomic.Int32
	var winner atomic.Value
	var all sync.WaitGroup
	for _, dir := range dirs {
		all.Go(func() {
			if _, err := w.tryGit(dir, "push", w.remote("dev"), "HEAD:refs/disinto/claims/7"); err == nil {
				won.Add(1)
				winner.Store(w.git(dir, "rev-parse", "HEAD"))
			}
		})
	}
	all.Wait()
	held := w.want(200, "dev", "GET", harb+"/git/refs/disinto/claims/7", nil).list
	if won.Load() != 1 || len(held) != 1 || held[0]["object"].(object)["sha"] != winner.Load() {
		t.Fatalf("%d pushes succeeded, the ref is %v, the winner's commit %v", won.Load(), held, winner.Load())
	}
	w.want(200, "dev", "GET", harb+"/branches", nil)
	if out, err := w.tryGit(dirs[0], "push", "--force-with-lease=refs/disinto/claims/7:"+noCommit[:39]+"1",
		w.remote("dev"), ":refs/disinto/claims/7"); err == nil {
		t.Errorf("a push with a wrong lease deleted the ref: %s", out)
	}
	w.git(dirs[0], "push", "-q", "--force-with-lease=refs/disinto/claims/7:"+winner.Load().(string), w.remote("dev"),
		":refs/disinto/claims/7")
	w.want(404, "dev", "GET", harb+"/git/refs/disinto/claims/7", nil)
}

func TestPushToProtectedBranch(t *testing.T) {
	w := newWorld(t)
	w.want(201, "johba", "POST", harb+"/branch_protections", object{"rule_name": "main"})
	w.want(201, "johba", "POST", harb+"/branch_protections", object{
		"rule_name": "release/*", "enable_push": true, "enable_push_whitelist": true,
		"push_whitelist_usernames": []string{"dev"},
	})
	dir := w.clone("dev")
	w.git(dir, "commit", "-q", "--allow-empty", "-m", "c")
	push := func(who string, args ...string) error {
		_, err := w.tryGit(dir, append([]string{"push", w.remote(who)}, args...)...)
		return err
	}
	if push("dev", "HEAD:main") == nil || push("johba", "HEAD:main") == nil {
		t.Error("a push to a branch with push disabled succeeded")
	}
	if push("review", "HEAD:release/1") == nil {
		t.Error("a push by an account that is not on the whitelist succeeded")
	}
	w.must(push("dev", "HEAD:release/1"))
	w.git(dir, "commit", "-q", "--amend", "--allow-empty", "-m", "d")
	if push("dev", "--force", "HEAD:release/1") == nil {
		t.Error("a forced push rewrote a protected branch")
	}
	if push("dev", ":release/1") == nil {
		t.Error("a push deleted a protected branch")
	}
	if push("dev", "HEAD:refs/pull/1/head") == nil {
		t.Error("a push to the ref of a pull request succeeded")
	}
	w.must(push("dev", "HEAD:free"))
}

// git compresses requests of more than a kilobyte.
func TestCompressedRequest(t *testing.T) {
	w := newWorld(t)
	head := w.git(w.clone("dev"), "rev-parse", "HEAD")
	want := fmt.Sprintf("%04xwant %s no-progress\n00000009done\n", len("want ")+40+len(" no-progress\n")+4, head)
	var body bytes.Buffer
	zip := gzip.NewWriter(&body)
	_, err := zip.Write([]byte(want))
	w.must(err)
	w.must(zip.Close())
	req, err := http.NewRequest("POST", w.url+"/johba/harb.git/git-upload-pack", &body)
	w.must(err)
	req.Header.Set("Content-Encoding", "gzip")
	resp, err := w.client.Do(req)
	w.must(err)
	defer resp.Body.Close()
	var answer bytes.Buffer
	_, err = answer.ReadFrom(resp.Body)
	w.must(err)
	if !strings.HasPrefix(answer.String(), "0008NAK\n") || !bytes.Contains(answer.Bytes(), []byte("PACK")) {
		t.Errorf("got %.60q, want a pack", answer.String())
	}
}

func TestPushCommands(t *testing.T) {
	const a, b = "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"
	line := func(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }
	push := line(a+" "+b+" refs/heads/x\x00report-status agent=git/2") +
		line(b+" "+noCommit+" refs/heads/y\n") + "0000PACK..."
	got := pushCommands([]byte(push))
	if len(got) != 2 || got[0] != (moved{"refs/heads/x", a, b}) || got[1] != (moved{"refs/heads/y", b, noCommit}) {
		t.Errorf("got %v", got)
	}
	for _, broken := range []string{"", "0000", "zzzz", "ffff" + a, "0003"} {
		if got := pushCommands([]byte(broken)); got != nil {
			t.Errorf("%q: got %v", broken, got)
		}
	}
}
