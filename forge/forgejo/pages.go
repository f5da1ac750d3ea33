package forgejo

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"codeberg.org/johba/disinto/forge"
)

const (
	// pageSize is Forgejo's upper limit for a page; an administrator can set a lower one.
	pageSize = 50
	// smallestCap is below any limit that an administrator would set. In a list of unknown length, a page with fewer
	// entries is the last one.
	smallestCap = 10
	// maxPages ends the reading of a list that never ends.
	maxPages = 1000
)

var errEndless = errors.New("the list does not end")

// pager reads the pages of one list. The first page is read first, and alone.
type pager struct {
	path string
	size int // entries of a page that we ask for
	full int // entries of the first page; the forge's limit can be lower than size
}

func pagesOf(path string) *pager { return &pager{path: path, size: pageSize, full: pageSize} }

// readPage reads a page of a list. If the answer is too long, it reads the same entries in smaller pages. If the first
// answer is too long, it reads the whole list in smaller pages, because the forge's limit is not known yet.
func readPage[T any](ctx context.Context, c *Client, p *pager, n int) ([]T, *exchange, error) {
	items, x, err := readSized[T](ctx, c, n, p.size, p.path)
	switch {
	case err == nil && n == 1:
		p.full = len(items)
	case errors.Is(err, errTooLong) && n == 1 && p.size > smallestCap:
		p.size, p.full = smallestCap, smallestCap
		return readPage[T](ctx, c, p, n)
	case errors.Is(err, errTooLong):
		return readSmaller[T](ctx, c, (n-1)*p.full, p.full, p.path)
	}
	return items, x, err
}

func readSized[T any](ctx context.Context, c *Client, n, size int, path string) ([]T, *exchange, error) {
	items, x, err := read[[]T](ctx, c, paged(path, n, size))
	for i := range items {
		slim(any(items[i]))
	}
	if x != nil && x.dropped > 0 {
		c.noteUnread(x)
	}
	return items, x, err
}

// readSmaller reads size entries from an offset on, in pages of ten entries or of one. A single entry that is too long
// becomes an empty entry, so that the others are still read.
func readSmaller[T any](ctx context.Context, c *Client, offset, size int, path string) ([]T, *exchange, error) {
	var all []T
	var first *exchange
	step := 1
	if size > smallestCap {
		step = smallestCap
	}
	for at := offset - offset%step; at < offset+size; at += step {
		items, x, err := readSized[T](ctx, c, at/step+1, step, path)
		switch {
		case errors.Is(err, errTooLong) && step > 1:
			items, x, err = readSmaller[T](ctx, c, at, step, path)
		case errors.Is(err, errTooLong):
			x.dropped++
			c.noteUnread(x)
			items, err = make([]T, 1), nil
		}
		if err != nil {
			return nil, x, err
		}
		if first == nil {
			first = x
		}
		if all = append(all, items...); len(items) < step {
			break
		}
	}
	return all, first, nil
}

// list reads all pages of a list one by one, and returns them with the first page's exchange. An item that is added
// meanwhile moves others to later pages, so that some entries come twice; none is lost.
func list[T any](ctx context.Context, c *Client, path string) ([]T, *exchange, error) {
	return listFrom[T](ctx, c, pagesOf(path), 1, nil)
}

// listFrom continues a list with page n; all has the items of the pages before.
func listFrom[T any](ctx context.Context, c *Client, p *pager, n int, all []T) ([]T, *exchange, error) {
	var first *exchange
	seen := known[T]{}
	seen.add(all)
	for ; n <= maxPages; n++ {
		items, x, err := readPage[T](ctx, c, p, n)
		if err != nil {
			return nil, x, err
		}
		if first == nil {
			first = x
		}
		all = append(all, items...)
		if lastPage(len(items), len(all), x.total) || seen.add(items) == 0 {
			return all, first, nil
		}
	}
	return nil, first, errEndless
}

// readUpTo reads a list page by page, but at most the given number of entries. A page that is shorter than pageSize
// need not be the last: the forge's administrator can set a lower limit (MAX_RESPONSE_ITEMS).
func readUpTo[T any](ctx context.Context, get getter, path string, most int) (all []T, err error) {
	seen := known[T]{}
	for page := 1; page <= most/smallestCap && len(all) < most; page++ {
		var some []T
		total, err := get(ctx, paged(path, page, pageSize), &some)
		if err != nil {
			return nil, err
		}
		if seen.add(some) == 0 {
			break
		}
		if all = append(all, some...); total >= 0 && len(all) >= total {
			break
		}
	}
	return all[:min(len(all), most)], nil
}

// paged returns the path of a page of a list.
func paged(path string, page, size int) string {
	mark := "?"
	if strings.Contains(path, "?") {
		mark = "&"
	}
	return fmt.Sprintf("%s%spage=%d&limit=%d", path, mark, page, size)
}

// known holds the ids of the entries that a list had so far. A page without a new entry comes after the last page: some
// lists ignore paging and always come whole, and a faulty forge can repeat a page for ever.
type known[T any] map[int64]bool

// add returns how many entries are new. An entry without an id counts as new.
func (k known[T]) add(items []T) (fresh int) {
	for i := range items {
		if id := idOf(any(items[i])); id == 0 || !k[id] {
			k[id] = true
			fresh++
		}
	}
	return fresh
}

func lastPage(here, soFar, total int) bool {
	if total >= 0 {
		return here == 0 || soFar >= total
	}
	return here < smallestCap
}

// listAtOnce reads a long list with concurrent requests: the first page says how many entries there are. Items that are
// added or removed meanwhile move others between pages, so the caller has to list the changes afterwards.
func listAtOnce[T any](ctx context.Context, c *Client, path string) ([]T, *exchange, error) {
	p := pagesOf(path)
	all, first, err := readPage[T](ctx, c, p, 1)
	if err != nil || lastPage(len(all), len(all), first.total) {
		return all, first, err
	}
	if first.total < 0 {
		all, _, err = listFrom(ctx, c, p, 2, all)
		return all, first, err
	}
	last := min((first.total+len(all)-1)/len(all), maxPages)
	seen := known[T]{}
	seen.add(all)
	for next := 2; next <= last; next += pagesAtOnce {
		some, err := readPages[T](ctx, c, p, next, min(pagesAtOnce, last-next+1))
		if err != nil {
			return nil, first, err
		}
		all = append(all, some...)
		if seen.add(some) == 0 {
			break // the forge promises more entries, but repeats the old ones
		}
	}
	return all, first, nil
}

// pagesAtOnce is how many pages are read before a check whether they contained new entries.
const pagesAtOnce = 8 * atOnce

// readPages reads n pages of a list concurrently, beginning with page from.
func readPages[T any](ctx context.Context, c *Client, p *pager, from, n int) ([]T, error) {
	pages := make([][]T, n)
	err := inParallel(ctx, n, func(ctx context.Context, i int) error {
		items, _, err := readPage[T](ctx, c, p, from+i)
		pages[i] = items
		return err
	})
	if err != nil {
		return nil, err
	}
	return slices.Concat(pages...), nil
}

// inParallel runs n tasks and returns their errors joined. A panic in a task becomes its error. An error that means
// that the whole forge is down cancels the other tasks, and is then the only error returned. Only a few tasks run at a
// time, because their requests share few slots.
func inParallel(ctx context.Context, n int, task func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	errs := make([]error, n)
	turns := make(chan struct{}, 2*atOnce)
	var wg sync.WaitGroup
	for i := range n {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			if ctx.Err() != nil {
				return
			}
			errs[i] = safely(ctx, i, task)
			if isOutage(errs[i]) {
				cancel(errs[i])
			}
		})
	}
	wg.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return errors.Join(errs...)
}

// safely runs a task and turns a panic into an error: a panic in a goroutine would end PID 1.
func safely(ctx context.Context, i int, task func(context.Context, int) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &forge.Panic{What: "a forge request", Value: v, Stack: debug.Stack()}
		}
	}()
	return task(ctx, i)
}
