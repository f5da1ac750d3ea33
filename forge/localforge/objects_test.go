package localforge

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestStore: for a random history, the store answers as git does, and git finds nothing wrong with the objects that the
// store wrote. make test asks about ten pairs of commits of one history, make check about a hundred of five.
func TestStore(t *testing.T) {
	histories, pairs := 1, 10
	if os.Getenv("DISINTO_STORMS") != "" {
		histories, pairs = 5, 100
	}
	for seed := range histories {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			clock := newClock()
			w := newQuietWorld(t, func(o *Options) { o.Now = clock.now })
			f, r := w.f, w.f.repoLocked("johba", "harb")
			random := rand.New(rand.NewPCG(1, uint64(seed)))
			shas := tangle(w, clock, r, random)
			w.git(r.dir, "fsck", "--strict")
			answered := 0
			for range pairs {
				a, b := shas[random.IntN(len(shas))], shas[random.IntN(len(shas))]
				answered += compare(w, r, a, b)
				want, err := f.log(t.Context(), r.dir, "-1", a)
				w.must(err)
				got, err := newStore(r.dir).commit(a)
				if diff := cmp.Diff(want[0], got, cmp.AllowUnexported(commit{})); err != nil || diff != "" {
					t.Errorf("commit %s: %v\n%s", a, err, diff)
				}
			}
			if answered < pairs {
				t.Errorf("the store answered only %d of %d questions", answered, 2*pairs)
			}
		})
	}
}

// tangle commits to four branches and merges them, and returns the commits.
func tangle(w *world, clock *clock, r *repo, random *rand.Rand) []string {
	files := []string{"a.txt", "b.txt", "dir/a.txt", "dir/deep/b.txt", "dir.txt", "dir-a"}
	by := w.f.userLocked("johba")
	shas := []string{r.branch("main")}
	for range 14 {
		clock.pass(time.Duration(random.IntN(3)) * time.Second)
		from := r.branch(fmt.Sprint("b", random.IntN(4)))
		onto := fmt.Sprint("b", random.IntN(4))
		if from == "" || random.IntN(4) == 0 {
			from = shas[random.IntN(len(shas))]
		}
		if to := r.branch(onto); to != "" && to != from && random.IntN(2) == 0 {
			tree, clean, err := w.f.mergeTree(w.t.Context(), r.dir, to, from)
			w.must(err)
			if clean {
				from = w.git(r.dir, "commit-tree", tree, "-m", "merge", "-p", to, "-p", from)
			}
		}
		w.must(os.WriteFile(r.dir+"/refs/heads/"+onto, []byte(from+"\n"), 0o644))
		refs, err := readRefs(r.dir)
		w.must(err)
		r.refs = refs
		file := fileChange{path: files[random.IntN(len(files))]}
		if at, _, err := w.f.entryAt(w.t.Context(), r, from, file.path); err == nil && at != "" && random.IntN(4) == 0 {
			file.operation = "delete"
		}
		before, after := strings.Repeat("line\n", random.IntN(3)), strings.Repeat("\nend", random.IntN(3))
		file.body = fmt.Append(nil, before, random.IntN(3), after)
		change := contentChange{branch: onto, message: fmt.Sprint("change ", file.path), by: by, files: []fileChange{file}}
		sha, err := w.f.commitFiles(w.t.Context(), r, change)
		w.must(err)
		shas = append(shas, from, sha)
	}
	return shas
}

// compare compares the store's answers about two commits with git's, and returns how many answers the store gave.
func compare(w *world, r *repo, a, b string) (answered int) {
	w.t.Helper()
	if got, err := r.store.span(a, b); err == nil {
		answered++
		want, err := w.f.log(w.t.Context(), r.dir, b, "^"+a, "--")
		w.must(err)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(commit{})); diff != "" {
			w.t.Errorf("span of %s and %s: (-git +store)\n%s", a, b, diff)
		}
	}
	type result struct {
		Check check
		Base  string
		Stat  diffStat
	}
	if found, base, stat, err := r.store.tryMerge(a, b); err == nil {
		answered++
		got := result{found, base, stat}
		found, base, stat, err := w.f.tryMerge(w.t.Context(), r.dir, a, b)
		w.must(err)
		if want := (result{found, base, stat}); got != want {
			w.t.Errorf("merge of %s into %s: the store says %+v, git says %+v", b, a, got, want)
		}
	}
	return answered
}
