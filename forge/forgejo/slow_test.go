package forgejo

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"codeberg.org/johba/disinto/forge"
)

// slow delays each answer.
type slow struct {
	next http.RoundTripper
	by   time.Duration
}

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(s.by)
	return s.next.RoundTrip(r)
}

// On a forge that takes 1.5 s for each answer, eight sessions that end at the same time are all judged within the ten
// seconds that a slot waits, while a scan of many pull requests is in progress. One after the other they took more than
// a minute.
func TestLooksAtOnce(t *testing.T) {
	onLocal(t, func(w *world) {
		const sessions = 8
		for n := range int64(sessions) {
			w.file(fmt.Sprint("issue ", n+1), "", "backlog")
		}
		for n := range int64(sessions) {
			w.pull(fmt.Sprintf("fix/issue-%d", n+1), "change", fmt.Sprintf("Fixes #%d", n+1))
		}
		c := w.client(func(o *Options) { o.HTTP = &http.Client{Transport: slow{w.transport, 1500 * time.Millisecond}} })
		began := time.Now()
		var all sync.WaitGroup
		all.Go(func() { _, _ = c.Scan(w.Context()) })
		var mu sync.Mutex
		var longest time.Duration
		var failed error
		for n := range int64(sessions) {
			all.Go(func() {
				look, err := c.FetchItem(w.Context(), w.ref(n+1), began.Add(-time.Hour))
				mu.Lock()
				defer mu.Unlock()
				longest, failed = max(longest, time.Since(began)), errors.Join(failed, err)
				if err == nil && (len(look.Pulls) != 1 || look.Pulls[0].Closes[0] != forge.Ref{Repo: w.repo, Number: n + 1}) {
					failed = errors.Join(failed, fmt.Errorf("#%d: %d pull requests", n+1, len(look.Pulls)))
				}
			})
		}
		all.Wait()
		w.must(failed)
		if longest > 10*time.Second {
			w.Errorf("the last session was judged after %s", longest)
		}
	})
}
