package forgejo

import (
	"context"
	"errors"
	"sync"

	"code.gitea.io/sdk/gitea"
)

const (
	// pageSize is what Forgejo caps a page at, whatever is asked for; an administrator may set less.
	pageSize = 50
	// smallestCap is below any cap that somebody would set. A page that holds fewer is the last one, for lists that do
	// not say how long they are.
	smallestCap = 10
	// maxPages ends a list that a forge repeats for ever.
	maxPages = 4000
)

var errEndless = errors.New("the list does not end")

// pageRequest asks for one page of a list.
type pageRequest[T any] func(*gitea.Client, gitea.ListOptions) ([]T, *gitea.Response, error)

func readPage[T any](ctx context.Context, c *Client, n int, ask pageRequest[T]) ([]T, *exchange, error) {
	return read(ctx, c, func(sdk *gitea.Client) ([]T, *gitea.Response, error) {
		return ask(sdk, gitea.ListOptions{Page: n, PageSize: pageSize})
	})
}

// list reads all pages of a list one after the other and returns the first page's exchange with them. An item that is
// added while we read moves others to later pages, so that they come twice; none is lost.
func list[T any](ctx context.Context, c *Client, ask pageRequest[T]) ([]T, *exchange, error) {
	return listFrom(ctx, c, 1, nil, ask)
}

// listFrom goes on with page n behind what was read before.
func listFrom[T any](ctx context.Context, c *Client, n int, all []T, ask pageRequest[T]) ([]T, *exchange, error) {
	var first *exchange
	for ; n <= maxPages; n++ {
		items, x, err := readPage(ctx, c, n, ask)
		if err != nil {
			return nil, x, err
		}
		if first == nil {
			first = x
		}
		all = append(all, items...)
		if lastPage(len(items), len(all), x.total) {
			return all, first, nil
		}
	}
	return nil, first, errEndless
}

func lastPage(here, soFar, total int) bool {
	if total >= 0 {
		return here == 0 || soFar >= total
	}
	return here < smallestCap
}

// listAtOnce reads a long list with several requests under way: its first page says how many there are. What is
// added or taken away meanwhile moves items between pages, so the caller has to look for changes afterwards.
func listAtOnce[T any](ctx context.Context, c *Client, ask pageRequest[T]) ([]T, *exchange, error) {
	all, first, err := readPage(ctx, c, 1, ask)
	if err != nil || lastPage(len(all), len(all), first.total) {
		return all, first, err
	}
	if first.total < 0 {
		all, _, err = listFrom(ctx, c, 2, all, ask)
		return all, first, err
	}
	last := min((first.total+len(all)-1)/len(all), maxPages)
	pages := make([][]T, last+1)
	err = inParallel(ctx, last-1, func(ctx context.Context, i int) error {
		items, _, err := readPage(ctx, c, i+2, ask)
		pages[i+2] = items
		return err
	})
	if err != nil {
		return nil, first, err
	}
	for _, page := range pages {
		all = append(all, page...)
	}
	return all, first, nil
}

// inParallel runs n tasks and returns their errors joined, without the echoes of the first that ended the others. A
// task's error ends the others only when it says that the forge as a whole is out. The tasks themselves are few at a
// time, because the requests they make are.
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
			errs[i] = task(ctx, i)
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
