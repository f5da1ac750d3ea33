package forgejo

import (
	"testing"

	"codeberg.org/johba/disinto/forge"
)

func TestSmoke(t *testing.T) {
	onEach(t, func(w *world) {
		a := w.file("first", "do it", "backlog")
		b := w.file("second", "Depends on #1", "backlog")
		c := w.client()
		f := w.scan(c)
		t.Logf("%+v", f)
		w.must(c.Prepare(w.Context()))
		w.must(c.Claim(w.Context(), w.ref(a), w.dev, "run-1"))
		f = w.scan(c)
		t.Logf("%+v", f)
		n, head := w.pull("fix/issue-1", "Do it", "Fixes #1")
		w.verdict(w.review, n, head, "APPROVED")
		f = w.scan(c)
		t.Logf("%+v", f)
		w.must(c.Release(w.Context(), w.ref(a), w.dev))
		w.must(c.Merge(w.Context(), w.ref(n), head))
		f = w.scan(c)
		t.Logf("%+v", f)
		_ = b
		_ = forge.Ref{}
	})
}
