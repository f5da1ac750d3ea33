package hire

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// step is one thing that hiring or retiring does. It can be repeated: one that has nothing left to do is skipped.
type step struct {
	name string
	// look returns what is left to do, "" when nothing is. It changes nothing.
	look func(context.Context) (todo string, err error)
	// do does it and returns what it did.
	do func(context.Context) (done string, err error)
}

// Say shows a person what became of a step.
type Say func(step, text string)

// perform runs the steps in order, or with dryRun only says what they would do.
func perform(ctx context.Context, steps []step, dryRun bool, say Say) error {
	for _, s := range steps {
		todo, err := s.look(ctx)
		switch {
		case err != nil:
			return stepError(s.name, err)
		case todo == "":
			say(s.name, "as it should be")
			continue
		case dryRun:
			say(s.name, "would "+todo)
			continue
		}
		done, err := s.do(ctx)
		if err != nil {
			return stepError(s.name, err)
		}
		say(s.name, done)
	}
	return nil
}

// stepError adds to the error of a step that running the command again continues there.
func stepError(name string, err error) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted at %s: run it again to go on from there", name)
	}
	return fmt.Errorf("%w (at %s: run it again to go on from there)", err, name)
}

// always is the look of a step that has something to do every time.
func always(todo string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return todo, nil }
}

// eachOf is a step that acts on everything that find returns. The items are named behind todo and done.
func eachOf[T any](
	name, todo, done string, find func(context.Context) ([]T, error), act func(context.Context, T) error,
) step {
	words := func(items []T) string { return strings.Trim(fmt.Sprint(items), "[]") }
	return step{
		name: name,
		look: func(ctx context.Context) (string, error) {
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
