package simtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/receipts"
	"codeberg.org/johba/disinto/threads/audit"
	"codeberg.org/johba/disinto/threads/ledger"
)

// known returns the hashes of receipts in the world's journal.
func known(t testing.TB, w *World) audit.Journal {
	t.Helper()
	journal, err := os.Open(filepath.Join(w.Dir, "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	j, err := ledger.ReadReceipts(journal)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// receiptsOf returns a world's receipts, the oldest first, and verifies them against the journal.
func receiptsOf(t testing.TB, w *World) (list []*audit.Receipt) {
	t.Helper()
	instance, err := os.ReadFile(filepath.Join(w.Dir, "instance"))
	if err != nil {
		t.Fatal(err)
	}
	chain := audit.NewChain(strings.TrimSpace(string(instance)), audit.Head{}, known(t, w))
	names, err := filepath.Glob(filepath.Join(w.Dir, "receipts", "0*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		chain.Next(filepath.Base(name), text)
		r, err := audit.Read(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	if r := chain.End(); !r.OK || r.Head.N != r.Journalled {
		t.Errorf("got chain %+v, break %+v, want a valid one that ends with the journal's newest", r, r.Break)
	}
	return list
}

// TestReceipts plays issues to their merges. Each session has a receipt, and its pull request shows it, even if the
// forge took no comments for a time.
func TestReceipts(t *testing.T) {
	for _, refused := range []bool{false, true} {
		t.Run(fmt.Sprintf("refused=%v", refused), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t)
				w.Config.Factory.Keep = 30 * 24 * time.Hour
				w.Forge.Issue("one")
				w.Forge.Issue("two")
				began := time.Now()
				w.Forge.Fail(func(_ context.Context, call string) error {
					if refused && call == "keep" && time.Since(began) < Size(3*time.Hour, 45*time.Minute) {
						return fmt.Errorf("no route: %w", forge.ErrUnavailable)
					}
					return nil
				})
				l := w.Start()
				w.Until(2*time.Hour, "everything is merged", w.Forge.Done)
				if refused { // unwritten comments survive a restart
					l.Stop()
					l = w.Start()
					time.Sleep(Size(4*time.Hour, time.Hour))
				}
				l.Stop()
				w.Check()
				list := receiptsOf(t, w)
				kept, calls := w.Forge.CommentsSet()
				if len(list) != len(w.Exec.Runs()) || len(list) < 4 || len(kept) != 2 {
					t.Fatalf("got %d receipts of %d sessions, in %d pull requests, want one for each session, in 2", len(list),
						len(w.Exec.Runs()), len(kept))
				}
				if !refused && calls != len(list) {
					t.Errorf("got %d writes of comments for %d sessions, want one each", calls, len(list))
				}
				all, shown := "", make(map[forge.Ref]string)
				for of, body := range kept {
					number, key, _ := strings.Cut(strings.TrimPrefix(of, "#"), " ")
					n, _ := strconv.ParseInt(number, 10, 64)
					if all += body; strings.HasPrefix(key, forge.ReceiptsKey) {
						shown[forge.Ref{Repo: Repo, Number: n}] = body
					}
				}
				j := known(t, w)
				p := j.ComparePulls("", shown, func(string) bool { return true })
				if len(p.Faults) > 0 || p.Comments != 2 || p.Matching != len(list) || len(j.Owed) > 0 {
					t.Errorf("compared with the journal got %+v, want a row for each of %d sessions", p, len(list))
				}
				if p := j.ComparePulls("", nil, func(string) bool { return true }); len(p.Faults) != len(list) {
					t.Errorf("without comments got %v, want all sessions missing", p.Faults)
				}
				for _, r := range list {
					text, err := r.Text()
					if err != nil || !strings.Contains(all, r.Run) || !strings.Contains(all, audit.Hash(text)) {
						t.Errorf("the comments lack the receipt of %s: %s, %v", r.Run, all, err)
					}
					if r.Ran == nil || !*r.Ran || r.Exit != nil || r.CPUSeconds != nil || r.Processes.Count != nil {
						t.Errorf("got receipt %+v, want unknown values from this executor", r)
					}
				}
			})
		})
	}
}

// TestReceiptOfTheLost kills the supervisor during a session, and after a receipt that the journal does not have. The
// next one continues the chain.
func TestReceiptOfTheLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Config.Factory.Keep = 30 * 24 * time.Hour
		w.Forge.Issue("one")
		w.Exec.Script = func(agents.Job, int) Script {
			zero := int64(0)
			return Script{Takes: time.Minute, Outcome: agents.Outcome{
				Result: agents.Failed, Claimed: true, Reason: "no", ExitCode: 3, CPU: time.Second, MaxRSS: 5,
				Digest: strings.Repeat("d", 64),
				Seen: &agents.Seen{
					Programs: agents.Sight(2, []string{"git", "token-of-dev-coder"}), Hosts: agents.Sighting{Count: &zero},
					Files: agents.NotSeen("no sandbox"),
				},
			}}
		}
		l := w.Start()
		w.Until(time.Hour, "a session ended and another one runs", func() bool {
			runs := w.Exec.Runs()
			return len(runs) > 1 && runs[len(runs)-1].End.IsZero()
		})
		l.Kill()
		l = w.Start()
		time.Sleep(time.Second)
		l.Stop()
		list := receiptsOf(t, w)
		first := list[0]
		if first.Exit == nil {
			out, _ := filepath.Glob(w.Dir + "/receipts/*")
			t.Log(out)
			t.Fatalf("got receipt %+v, want an exit code", first)
		}
		if *first.Exit != "3" || *first.CPUSeconds != 1 || *first.PeakMemory != 5 ||
			*first.Result != strings.Repeat("d", 64) {
			t.Errorf("got receipt %+v, want exit code 3, 1 s, 5 bytes and the digest", first)
		}
		if strings.Join(first.Processes.Names, " ") != "git [secret]" &&
			strings.Join(first.Processes.Names, " ") != "[secret] git" {
			t.Errorf("got programs %q, want git and [secret]", first.Processes.Names)
		}
		if *first.Hosts.Count != 0 || first.Files.Count != nil || first.Files.Unknown != "no sandbox" {
			t.Errorf("got hosts %+v, files %+v, want no host, and unknown files", first.Hosts, first.Files)
		}
		lost := 0
		for _, r := range list {
			if r.Outcome == agents.Lost {
				lost++
				if r.Ran != nil || r.Exit != nil || r.Processes.Count != nil || r.Usage != nil {
					t.Errorf("got receipt %+v of the lost session, want unknown values", r)
				}
			}
		}
		if lost != 1 {
			t.Errorf("got %d receipts of lost sessions, want 1", lost)
		}
	})
}

// TestReceiptsArePruned: receipts are removed when logs of their age are. The rest is still a valid chain.
func TestReceiptsArePruned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(t)
		w.Config.Factory.Keep = 3 * time.Hour
		w.Forge.Issue("one")
		l := w.Start()
		w.Until(2*time.Hour, "the first is merged", w.Forge.Done)
		first := len(receiptsOf(t, w))
		time.Sleep(time.Hour)
		w.Forge.Issue("two")
		w.Until(2*time.Hour, "the second is merged", w.Forge.Done)
		all := len(receiptsOf(t, w)) // none is old enough
		time.Sleep(170 * time.Minute)
		l.Stop()
		instance, err := os.ReadFile(filepath.Join(w.Dir, "instance"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := receipts.Verify(w.Dir, strings.TrimSpace(string(instance)),
			func() (audit.Journal, error) { return known(t, w), nil })
		if err != nil || !r.OK || r.Pruned != int64(first) || r.Receipts != int64(all-first) || first == 0 || all == first {
			t.Errorf("%d of %d receipts were old: got %+v, %v, want the old ones removed, and a valid chain of the rest", first,
				all, r, err)
		}
	})
}
