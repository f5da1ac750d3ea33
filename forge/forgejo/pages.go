package forgejo

import (
	"context"
	"errors"
	"math"
	"runtime/debug"
	"slices"
	"sync"

	"code.gitea.io/sdk/gitea"

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

// list reads the pages of one list, such as the open issues of a repository.
type list[T any] struct {
	*connection
	// page reads one page. An entry that could not be read is nil.
	page func(context.Context, gitea.ListOptions) ([]*T, *exchange, error)
	id   func(*T) int64 // tells entries apart; nil: the entries have no ids
	slim func(*T)       // drops what no decision needs, for lists that can have thousands of entries; nil: nothing
	// number is that of an issue or pull request; nil: the entries are neither. An entry without one becomes nil: the
	// forge cannot load it, or hides it.
	number func(*T) int64
}

// newList returns a list whose pages the SDK reads.
func newList[T any](
	c *connection, id func(*T) int64, ask func(*gitea.Client, gitea.ListOptions) ([]*T, *gitea.Response, error),
) list[T] {
	return list[T]{connection: c, id: id, page: func(ctx context.Context, o gitea.ListOptions) ([]*T, *exchange, error) {
		g, x := c.sdk(ctx)
		all, _, err := ask(g, o)
		all, err = entries(x, all, err)
		return all, x, err
	}}
}

// pager is the size of a list's pages. The first page is read first, and alone.
type pager struct {
	size int // entries of a page that we ask for
	full int // entries of the first page; the forge's limit can be lower than size
}

func newPager() *pager { return &pager{size: pageSize, full: pageSize} }

// read reads a page. If the answer is too long, it reads the same entries in smaller pages. If the first answer is too
// long, it reads the whole list in smaller pages, because the forge's limit is not known yet.
func (l list[T]) read(ctx context.Context, p *pager, n int) ([]*T, *exchange, error) {
	items, x, err := l.readSized(ctx, n, p.size)
	switch {
	case err == nil && n == 1:
		p.full = len(items)
	case errors.Is(err, errTooLong) && n == 1 && p.size > smallestCap:
		p.size, p.full = smallestCap, smallestCap
		return l.read(ctx, p, n)
	case errors.Is(err, errTooLong):
		return l.readSmaller(ctx, (n-1)*p.full, p.full)
	}
	return items, x, err
}

func (l list[T]) readSized(ctx context.Context, n, size int) ([]*T, *exchange, error) {
	items, x, err := l.page(ctx, gitea.ListOptions{Page: n, PageSize: size})
	for i, in := range items {
		switch {
		case in == nil:
		case l.number != nil && l.number(in) <= 0:
			items[i] = nil
		case l.slim != nil:
			l.slim(in)
		}
	}
	if x.dropped > 0 {
		l.misread.record(x)
	}
	return items, x, err
}

// readSmaller reads size entries from an offset on, in pages of ten entries or of one. A single entry that is too long
// becomes an empty entry, so that the others are still read.
func (l list[T]) readSmaller(ctx context.Context, offset, size int) ([]*T, *exchange, error) {
	var all []*T
	var first *exchange
	step := 1
	if size > smallestCap {
		step = smallestCap
	}
	for at := offset - offset%step; at < offset+size; at += step {
		items, x, err := l.readSized(ctx, at/step+1, step)
		switch {
		case errors.Is(err, errTooLong) && step > 1:
			items, x, err = l.readSmaller(ctx, at, step)
		case errors.Is(err, errTooLong):
			x.dropped++
			l.misread.record(x)
			items, err = make([]*T, 1), nil
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

// all reads all pages one by one, and returns them with the first page's exchange. An item that is added meanwhile
// moves others to later pages, so that some entries come twice; none is lost.
func (l list[T]) all(ctx context.Context) ([]*T, *exchange, error) {
	return l.from(ctx, newPager(), 1, nil, maxPages, math.MaxInt)
}

// upTo reads pages one by one, but at most the given number of entries. The number of requests is bounded too: a page
// can be shorter than we ask for, if the forge's administrator has set a lower limit (MAX_RESPONSE_ITEMS).
func (l list[T]) upTo(ctx context.Context, most int) ([]*T, error) {
	all, _, err := l.from(ctx, newPager(), 1, nil, most/smallestCap, most)
	if err != nil && !errors.Is(err, errEndless) {
		return nil, err
	}
	return all[:min(len(all), most)], nil
}

// from continues a list with page n; all has the items of the pages before. It ends with the list, or once it has most
// entries. After page last it returns errEndless and the entries so far.
func (l list[T]) from(
	ctx context.Context, p *pager, n int, all []*T, last, most int,
) (_ []*T, first *exchange, err error) {
	seen := known[T]{l.id, map[int64]bool{}}
	seen.add(all)
	for ; n <= last; n++ {
		items, x, err := l.read(ctx, p, n)
		if err != nil {
			return nil, x, err
		}
		if first == nil {
			first = x
		}
		all = append(all, items...)
		if lastPage(len(items), len(all), x.total) || len(all) >= most || seen.add(items) == 0 {
			return all, first, nil
		}
	}
	return all, first, errEndless
}

// known holds the ids of the entries that a list had so far. A page without a new entry comes after the last page: some
// lists ignore paging and always come whole, and a faulty forge can repeat a page for ever.
type known[T any] struct {
	id  func(*T) int64
	ids map[int64]bool
}

// add returns how many entries are new. An entry without an id counts as new.
func (k known[T]) add(items []*T) (fresh int) {
	for _, in := range items {
		id := int64(0)
		if in != nil && k.id != nil {
			id = k.id(in)
		}
		if id == 0 || !k.ids[id] {
			k.ids[id] = true
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

// atOnce reads a long list with concurrent requests: the first page says how many entries there are. Items that are
// added or removed meanwhile move others between pages, so the caller has to list the changes afterwards.
func (l list[T]) atOnce(ctx context.Context) ([]*T, *exchange, error) {
	p := newPager()
	all, first, err := l.read(ctx, p, 1)
	if err != nil || lastPage(len(all), len(all), first.total) {
		return all, first, err
	}
	if first.total < 0 {
		all, _, err = l.from(ctx, p, 2, all, maxPages, math.MaxInt)
		return all, first, err
	}
	last := min((first.total+len(all)-1)/len(all), maxPages)
	seen := known[T]{l.id, map[int64]bool{}}
	seen.add(all)
	for next := 2; next <= last; next += pagesAtOnce {
		some, err := l.readSome(ctx, p, next, min(pagesAtOnce, last-next+1))
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

// newest reads the last pages of a list that begins with the oldest entry, about so many entries.
func (l list[T]) newest(ctx context.Context, about int) ([]*T, *exchange, error) {
	p := newPager()
	all, first, err := l.read(ctx, p, 1)
	if err != nil || lastPage(len(all), len(all), first.total) {
		return all, first, err
	}
	pages := about / max(len(all), smallestCap)
	from, n := 2, pages-1
	if first.total >= 0 {
		last := (first.total + len(all) - 1) / len(all)
		from = max(2, last-pages+1)
		n = last - from + 1
	}
	some, err := l.readSome(ctx, p, from, n)
	return append(all, some...), first, err
}

// pagesAtOnce is how many pages are read before a check whether they contained new entries.
const pagesAtOnce = 8 * atOnce

// readSome reads n pages concurrently, beginning with page from.
func (l list[T]) readSome(ctx context.Context, p *pager, from, n int) ([]*T, error) {
	pages := make([][]*T, n)
	err := inParallel(ctx, n, func(ctx context.Context, i int) error {
		items, _, err := l.read(ctx, p, from+i)
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
