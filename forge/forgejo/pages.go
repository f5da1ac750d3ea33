package forgejo

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"

	"codeberg.org/johba/disinto/forge"
)

const (
	// pageSize is Forgejo's cap for a page, whatever is asked for; an administrator may set less.
	pageSize = 50
	// smallestCap is below any cap that an administrator would set. In a list of unknown length a page that holds fewer is
	// the last one.
	smallestCap = 10
	// maxPages ends a list that a forge repeats for ever.
	maxPages = 4000
)

var errEndless = errors.New("the list does not end")

func readPage[T any](ctx context.Context, c *Client, n int, path string) ([]T, *exchange, error) {
	mark := "?"
	if strings.Contains(path, "?") {
		mark = "&"
	}
	return read[[]T](ctx, c, fmt.Sprintf("%s%spage=%d&limit=%d", path, mark, n, pageSize))
}

// list reads all pages of a list one after the other and returns the first page's exchange with them. An item that is
// added meanwhile moves others to later pages, so that they come twice; none is lost.
func list[T any](ctx context.Context, c *Client, path string) ([]T, *exchange, error) {
	return listFrom[T](ctx, c, 1, nil, path)
}

// listFrom goes on with page n behind the items of the pages before.
func listFrom[T any](ctx context.Context, c *Client, n int, all []T, path string) ([]T, *exchange, error) {
	var first *exchange
	for ; n <= maxPages; n++ {
		items, x, err := readPage[T](ctx, c, n, path)
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

// listAtOnce reads a long list with several requests under way: the first page says how many there are. Items that are
// added or removed meanwhile move others between pages, so the caller has to look for changes afterwards.
func listAtOnce[T any](ctx context.Context, c *Client, path string) ([]T, *exchange, error) {
	all, first, err := readPage[T](ctx, c, 1, path)
	if err != nil || lastPage(len(all), len(all), first.total) {
		return all, first, err
	}
	if first.total < 0 {
		all, _, err = listFrom(ctx, c, 2, all, path)
		return all, first, err
	}
	last := min((first.total+len(all)-1)/len(all), maxPages)
	pages := make([][]T, last+1)
	err = inParallel(ctx, last-1, func(ctx context.Context, i int) error {
		items, _, err := readPage[T](ctx, c, i+2, path)
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

// inParallel runs n tasks and returns their errors joined. A task that panics has failed. The error of a task ends the
// others only when it says that the forge as a whole is down, and is then the only one returned. Few tasks run at a
// time, because their requests take turns.
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

// safely runs a task and ends a panic in it: a goroutine of ours that panics would end PID 1.
func safely(ctx context.Context, i int, task func(context.Context, int) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &forge.Panic{What: "a reading of the forge", Value: v, Stack: debug.Stack()}
		}
	}()
	return task(ctx, i)
}
