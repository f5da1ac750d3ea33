package forgejo

import (
	"fmt"
	"testing"
	"time"

	"code.gitea.io/sdk/gitea"

	"codeberg.org/johba/disinto/forge"
)

// The checks of a branch are read where there are checks. Its facts say since when it is red and whose merge did it,
// and those of a pull request which of its failed checks fail on the branch, too, or failed where it left the branch.
func TestRedBranch(t *testing.T) {
	onLocal(t, func(w *world) {
		first, head := w.pull("first", "Work", "")
		w.status(head, "CI / test (pull_request)", gitea.StatusSuccess)
		c := w.client()
		w.scan(c)
		w.merges(first)
		w.merge(first)
		second, _ := w.pull("second", "Work", "")
		w.nextSecond()
		w.scan(c)
		tip := w.about(c).Branches
		if len(tip) != 1 {
			t.Fatalf("got branches %+v, want main", tip)
		}
		red := tip[0].SHA
		w.status(red, "CI / test (push)", gitea.StatusFailure)
		f := w.scan(c)
		head2 := f.Pull(w.ref(second)).HeadSHA
		w.status(head2, "CI / test (pull_request)", gitea.StatusFailure)
		w.status(head2, "lint", gitea.StatusFailure)
		time.Sleep(31 * time.Second)
		f = w.scan(c)
		main := w.about(c).Branches[0]
		if main.CI != forge.CIFailure || fmt.Sprint(main.Red) != "[CI / test]" || main.Since.IsZero() ||
			main.By != w.ref(first) {
			t.Errorf("got %+v, want it red because of CI / test since #%d", main, first)
		}
		p := f.Pull(w.ref(second))
		if fmt.Sprint(p.Red, p.RedBefore) != "[CI / test lint] [CI / test]" {
			t.Errorf("got %q, of which before %q", p.Red, p.RedBefore)
		}
		repair := w.commit("main", "", "repair.txt", "x")
		w.status(repair, "CI / test (push)", gitea.StatusSuccess)
		for range 4 { // the branch is read every two minutes, one thing in a scan
			time.Sleep(3 * time.Minute)
			f = w.scan(c)
		}
		main, p = w.about(c).Branches[0], f.Pull(w.ref(second))
		if main.CI != forge.CISuccess || main.SHA != repair || !main.Since.IsZero() || main.By.Number != 0 ||
			fmt.Sprint(p.RedBefore) != "[CI / test]" {
			t.Errorf("after the repair: got %+v, and %q before, want it green, and what failed on %.7s", main, p.RedBefore, red)
		}
	})
}

// Without checks a scan reads those of no branch.
func TestNoChecksNoTips(t *testing.T) {
	onLocal(t, func(w *world) {
		w.pull("first", "Work", "")
		c := w.client()
		w.scan(c)
		time.Sleep(time.Hour)
		w.scan(c)
		if got := w.about(c).Branches; len(got) > 0 || len(c.repos[0].commits) > 0 {
			t.Errorf("got %+v, want nothing about main", got)
		}
	})
}
