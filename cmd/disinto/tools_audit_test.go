//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/forge/rest"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/receipts"
	"codeberg.org/johba/disinto/threads/audit"
	"codeberg.org/johba/disinto/threads/ledger"
)

// The real program compares its receipts with the comments on the forge, and names a session whose row an agent edited.
func TestAuditVerifyForge(t *testing.T) {
	t.Parallel()
	f := newTestForge(t)
	state := t.TempDir()
	path := f.file(state, f.justOne()...)
	r := startDisinto(t, f.environ(nil), "run", "--yes", "--config", path)
	status(t, state, "a merge", func(d *control.Document) bool { return d.Today.Merged == 1 && len(d.Sessions) == 0 })
	verify := func() *running {
		v := startDisinto(t, f.environ(nil), "audit", "verify", "--forge", "--config", path)
		v.wait()
		return v
	}
	eventually(t, "all sessions are shown", func() bool {
		v := verify()
		return v.code == exitDone && strings.Contains(v.read(v.stdout), "4 rows on 1 pull request with the hash of their")
	})
	r.signal(syscall.SIGTERM)
	r.wait()
	var comments []struct {
		ID   int64
		Body string
	}
	f.get("/issues/comments?limit=50", &comments)
	row := regexp.MustCompile("\\| ([a-z0-9-]+) \\| (dev-[a-z]+) \\|.*`[0-9a-f]{64}` \\|")
	edited := ""
	for _, c := range comments {
		if m := row.FindStringSubmatch(c.Body); m != nil && edited == "" {
			edited = m[1]
			by := rest.API{URL: f.URL, Token: f.Tokens[agents.TokenVar(m[2])]}
			body := map[string]string{"body": strings.Replace(c.Body, "`", "`0", 3)}
			path := fmt.Sprintf("/repos/%s/issues/comments/%d", demo.Repo, c.ID)
			if err := by.Call(t.Context(), "PATCH", path, body, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	v := verify()
	if want := edited + ": the comment has another hash"; edited == "" || v.code != exitFailed ||
		!strings.Contains(v.read(v.stderr), want) {
		t.Errorf("got exit code %d, %s%s, want %s", v.code, v.read(v.stdout), v.read(v.stderr), want)
	}
}

// TestAuditVerify verifies the receipts of three sessions: untouched, and after each kind of tampering.
func TestAuditVerify(t *testing.T) {
	invoke := func(args ...string) (code int, stdout, stderr string) {
		r := disinto(t.Context(), nil, args...)
		return r.code, r.stdout, r.stderr
	}
	dir := t.TempDir()
	const instance = "abcdefghij"
	if code, _, stderr := invoke("audit", "verify", "--state", dir); code != 1 ||
		!strings.Contains(stderr, "use --state") {
		t.Errorf("without a supervisor's directory: got exit code %d, %s", code, stderr)
	}
	store, err := receipts.Open(dir, instance, audit.Journal{})
	if err != nil {
		t.Fatal(err)
	}
	var journal []byte
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, run := range []string{"abcdefghij-a", "abcdefghij-b", "abcdefghij-c"} {
		head, err := store.Add(&audit.Receipt{Run: run, Outcome: agents.Done, EndedAt: noon})
		if err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(ledger.Record{At: noon, End: &ledger.End{
			Run: run, Result: agents.Done, Receipt: &ledger.Receipt{N: head.N, Hash: head.Hash},
		}})
		if err != nil {
			t.Fatal(err)
		}
		journal = append(append(journal, line...), '\n')
	}
	for name, text := range map[string][]byte{"instance": []byte(instance + "\n"), "journal.jsonl": journal} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, stdout, stderr := invoke("audit", "verify", "--state", dir)
	if code != 0 || !strings.Contains(stdout, "3 receipts intact, 1 to 3") || stderr != "" {
		t.Errorf("got exit code %d, %s%s", code, stdout, stderr)
	}
	if err := os.Rename(filepath.Join(dir, "journal.jsonl"), filepath.Join(dir, "away")); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr = invoke("audit", "verify", "--state", dir)
	if code != 1 || !strings.Contains(stderr, "journal.jsonl: it knows no receipt, and 3 exist") {
		t.Errorf("without a journal: got exit code %d, %s%s", code, stdout, stderr)
	}
	if err := os.Rename(filepath.Join(dir, "away"), filepath.Join(dir, "journal.jsonl")); err != nil {
		t.Fatal(err)
	}
	last := audit.Name(3, "abcdefghij-c")
	if err := os.Remove(filepath.Join(dir, receipts.Folder, last)); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr = invoke("audit", "verify", "--state", dir)
	if code != 1 || !strings.Contains(stderr, "0000000003-*.json: receipt 3 is missing at the end") ||
		!strings.Contains(stdout, "2 receipts intact") {
		t.Errorf("got exit code %d, %s%s", code, stdout, stderr)
	}
	code, stdout, stderr = invoke("audit", "verify", "--state", dir, "--json")
	var r audit.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil || code != 1 || r.OK || r.Break == nil || stderr != "" {
		t.Errorf("got exit code %d, %s%s, %v", code, stdout, stderr, err)
	}
}
