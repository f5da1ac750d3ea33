package hire

import (
	"context"
	"errors"
	"fmt"
)

// step is one thing that hiring or retiring does. A step says what is left to do and what it did; one with nothing left
// to do is skipped, so that all of them can be run again.
type step struct {
	name string
	// look says what is to be done; "" when it is done already. It changes nothing.
	look func(context.Context) (todo string, err error)
	// do does it and says so.
	do func(context.Context) (done string, err error)
}

// Say tells a person about a step.
type Say func(step, text string)

// perform runs steps in their order, or only says what they would do.
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

// stepError says that running the command again goes on from there, unless the reason says what else to do.
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
