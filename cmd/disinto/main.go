// Disinto is the entrypoint of a container in which AI coding agents work on a self-hosted Forgejo.
//
// Each subcommand is one small file with its flags, its wiring and its exit code, named by its group in disinto help.
// The work is done by the other packages of the module; only this package imports all of them.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/supervisor/control"
)

// Exit codes, the same for every command.
const (
	exitDone   = 0
	exitFailed = 1 // also if nothing has the name or number that the command line gives
	exitUsage  = 2 // the command line was wrong, whatever the factory is; nothing was done
	exitNotNow = 3 // the request was understood, but the item waits or the supervisor finishes it later
)

// cli is a command's access to the outside world. Tests construct their own.
type cli struct {
	environ        []string
	stdin          io.Reader
	stdout, stderr io.Writer
	now            func() time.Time
	// width is that of the screen on which another command shows the output; 0 for a command of its own.
	width int
	// onDocument, if set, receives the document that a command prints as text.
	onDocument func(json.RawMessage)
}

func main() {
	ctx := context.Background()
	if !listensItself() {
		ctx, _ = untilSignal(ctx, syscall.SIGINT, syscall.SIGTERM)
	}
	oneLocalhost(http.DefaultTransport.(*http.Transport))
	c := &cli{environ: os.Environ(), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, now: time.Now}
	os.Exit(c.run(ctx, os.Args[1:]))
}

// run runs the program with its arguments, prints its error and returns its exit code.
func (c *cli) run(ctx context.Context, args []string) int {
	err := c.dispatch(ctx, args)
	for _, line := range errorLines(err) {
		fmt.Fprintln(c.stderr, "disinto: "+screen.Clean(line))
	}
	return exitCode(err)
}

// dispatch runs the command that the arguments name. Cobra runs only commands: it shows the help of a group, and exits
// 0, for whatever follows the group's name.
func (c *cli) dispatch(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return usagef("name a command, such as disinto demo (disinto help lists the commands)")
	}
	if args[0] == "-v" || args[0] == "--version" {
		args = append([]string{"version"}, args[1:]...)
	}
	root := commands(c)
	cmd, rest, err := root.Find(args)
	switch {
	case err != nil:
		return usagef("%v", err)
	case args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd:
		addCompletions(c, root)
	case cmd.Runnable() || len(rest) > 0 && (rest[0] == "-h" || rest[0] == "--help"):
	case cmd == root && foreign(rest[0]):
		return becomeProgram(rest)
	default:
		return unknownCommand(cmd, rest)
	}
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

// lookup reads a variable of the command's environment.
func (c *cli) lookup(name string) (string, bool) {
	for _, kv := range c.environ {
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			return v, true
		}
	}
	return "", false
}

// getenv returns the value of a variable, empty if it is not set.
func (c *cli) getenv(name string) string {
	v, _ := c.lookup(name)
	return v
}

// exitError is an error with its own exit code. Without text nothing is printed: the command's output has the problem.
type exitError struct {
	code int
	text string
}

func (e *exitError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Sprintf(format, args...)}
}

// errSaid and errNotNow end a command whose output already names the problem or the remaining work.
var (
	errSaid   = &exitError{exitFailed, ""}
	errNotNow = &exitError{exitNotNow, ""}
)

func exitCode(err error) int {
	var coded *exitError
	var no *control.Refusal
	var signalled interrupted
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &no) && no.Status == http.StatusBadRequest:
		return exitUsage
	case errors.As(err, &no) && no.Status == http.StatusServiceUnavailable:
		return exitNotNow
	case errors.As(err, &signalled):
		return 128 + int(signalled.Signal)
	}
	return exitFailed
}

// interrupted is the cause of a context that a signal ended.
type interrupted struct{ syscall.Signal }

// Error returns the message that signal.NotifyContext uses.
func (i interrupted) Error() string { return i.String() + " signal received" }

// Is reports whether the target is context.Canceled: callers compare errors with it.
func (i interrupted) Is(target error) bool { return target == context.Canceled }

// untilSignal returns a context that is cancelled by the first of the signals, and a function that cancels it and stops
// listening. Unlike that of signal.NotifyContext, its cause has the signal, which determines the exit code.
func untilSignal(parent context.Context, signals ...os.Signal) (context.Context, func()) {
	ctx, end := context.WithCancelCause(parent)
	came := make(chan os.Signal, 1)
	signal.Notify(came, signals...)
	go func() {
		select {
		case s := <-came:
			end(interrupted{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(came)
		end(context.Canceled)
	}
}

// errorLines returns the lines of an error. Joined errors are several problems, one per line.
func errorLines(err error) []string {
	if err == nil || err.Error() == "" {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}
