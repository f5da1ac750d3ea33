package supervisor

import (
	"context"
	"strings"

	"codeberg.org/johba/disinto/supervisor/control"
)

// command wraps do, which carries out a command and fills in its report. The command waits for the start of the
// supervisor, and is refused while it stops or is replaced. While the command runs, the supervisor does not end.
func command[T, A any](c *core, do func(context.Context, T, *A) error) func(context.Context, T) (*A, error) {
	return func(ctx context.Context, request T) (*A, error) {
		leave, err := c.enterCommand(ctx)
		if err != nil {
			return nil, err
		}
		defer leave()
		report := new(A)
		return report, do(ctx, request, report)
	}
}

// enterCommand admits a command once the supervisor has started, and keeps the supervisor from ending until leave.
func (c *core) enterCommand(ctx context.Context) (leave func(), err error) {
	leave, err = c.gate.enter(ctx, &c.running)
	if err == nil && c.state.config() == nil {
		leave()
		return nil, control.NotNow("not now: there is no valid configuration")
	}
	return leave, err
}

// noConfig refuses a question that needs a valid configuration, with the first error of the configuration.
func (c *core) noConfig() error {
	config, err := c.state.inForce()
	switch {
	case config != nil:
		return nil
	case err == nil:
		return control.NotNow("cannot explain anything without a configuration")
	}
	first, _, _ := strings.Cut(err.Error(), "\n")
	return control.NotNow("cannot explain anything without a valid configuration: %s", first)
}
