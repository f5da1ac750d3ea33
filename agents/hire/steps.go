package hire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
)

// step is a part of hiring or retiring. It can be repeated: a step with nothing left to do is skipped.
type step struct {
	name       string
	concurrent bool // does not depend on the step before, and runs at the same time
	// pending returns what is left to do, or "". It changes nothing.
	pending func(context.Context) (todo string, err error)
	// do performs the step and returns what it did.
	do func(context.Context) (done string, err error)
}

// Report shows a person what a step does, or its result.
type Report func(step, text string)

// perform runs the steps in order, the steps of a batch at the same time. With dryRun it only reports what they would
// do. A step is reported when it begins, because the forge may need seconds for it.
func perform(ctx context.Context, steps []step, dryRun bool, say Report) error {
	for len(steps) > 0 {
		n := 1
		for n < len(steps) && steps[n].concurrent {
			n++
		}
		if err := performAtOnce(ctx, steps[:n], dryRun, say); err != nil {
			return err
		}
		steps = steps[n:]
	}
	return nil
}

// performAtOnce runs the steps of a batch. If one of them fails, the others still finish.
func performAtOnce(ctx context.Context, steps []step, dryRun bool, say Report) error {
	words, errs := make([]string, len(steps)), make([]error, len(steps))
	each := func(f func(i int)) error {
		var all sync.WaitGroup
		for i := range steps {
			all.Go(func() { f(i) })
		}
		all.Wait()
		for i, err := range errs {
			if err != nil {
				return stepError(steps[i].name, err)
			}
		}
		return nil
	}
	if err := each(func(i int) { words[i], errs[i] = steps[i].pending(ctx) }); err != nil {
		return err
	}
	for i, s := range steps {
		switch {
		case words[i] == "":
			say(s.name, "nothing to do")
		case dryRun:
			say(s.name, "would "+words[i])
		default:
			say(s.name, words[i]+" ...")
		}
	}
	if dryRun {
		return nil
	}
	err := each(func(i int) {
		if words[i] != "" {
			words[i], errs[i] = steps[i].do(ctx)
		}
	})
	for i, s := range steps {
		if words[i] != "" && errs[i] == nil {
			say(s.name, words[i])
		}
	}
	return err
}

// stepError adds to a step's error that repeating the command continues at this step.
func stepError(name string, err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted at %s: run it again to continue from there", name)
	}
	return fmt.Errorf("%w (at %s: run it again to continue from there)", err, name)
}

// always returns the pending function of a step that always has something to do.
func always(todo string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return todo, nil }
}

// eachOf returns a step that acts on everything that find returns. Its reports name the items after todo and done.
func eachOf[T any](
	name, todo, done string, find func(context.Context) ([]T, error), act func(context.Context, T) error,
) step {
	words := func(items []T) string { return strings.Trim(fmt.Sprint(items), "[]") }
	return step{
		name: name,
		pending: func(ctx context.Context) (string, error) {
			items, err := find(ctx)
			if err != nil || len(items) == 0 {
				return "", err
			}
			return todo + words(items), nil
		},
		do: func(ctx context.Context) (string, error) {
			items, err := find(ctx)
			for _, item := range items {
				if err := act(ctx, item); err != nil {
					return "", err
				}
			}
			return done + words(items), err
		},
	}
}
