//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/agents/process/pid1"
)

// execCommand prints the help of disinto exec and refuses wrong command lines. Package pid1 runs a right one before
// main begins.
var execCommand = command{
	name: "exec", args: "[--] COMMAND...",
	minArgs: 1, maxArgs: 1 << 30,
	short: "be the init for one command: signals, orphans, exit code",
	long: `
For the rest of an image: docker run IMAGE exec bash. The command gets a process
group of its own and the terminal. Every signal that can be caught is passed on
to that group, TERM to every descendant. Orphans are reaped. What the command
leaves behind gets TERM, and KILL after 5s. The exit code is the command's: 128
and the number if a signal ended it, 127 if it is not there, 126 if it cannot be
executed.

Called tini or dumb-init, as by a link with that name, it takes the options and
the environment of that program, and prints its texts.

As PID 1 of a container, disinto does the same with a command that is not one of
its own: docker run IMAGE ls -l.`,
	setup: func(flags *pflag.FlagSet) action {
		var o pid1.Options
		flags.SetInterspersed(false)
		flags.BoolVarP(&o.Single, "single-child", "c", false, "signal the command alone, leave its children be")
		flags.VarP((*rewrites)(&o.Rewrites), "rewrite", "r", "TERM:QUIT, or 15:3, passes TERM on as QUIT; 15:0\ndrops it")
		flags.DurationVar(&o.Grace, "grace", 0, "KILL everything this long after TERM")
		return func(_ context.Context, _ *cli, args []string) error {
			if o.Grace < 0 {
				return usagef("--grace %s: less than nothing", o.Grace)
			}
			o.Command = args
			return become(o)
		}
	},
}

// rewrites is a flag that may be repeated.
type rewrites []pid1.Rewrite

func (r *rewrites) Set(text string) error {
	one, err := pid1.ParseRewrite(text)
	*r = append(*r, one)
	return err
}

func (r *rewrites) String() string {
	texts := make([]string, len(*r))
	for i, one := range *r {
		texts[i] = one.String()
	}
	return strings.Join(texts, ",")
}

func (r *rewrites) Type() string { return "from:to" }

// foreign reports whether the first word of a command line is a program to run rather than a mistyped command of
// ours: it is where we are the entrypoint of a container, alone or below docker run --init, and not at a shell.
func foreign(name string) bool {
	return (os.Getpid() == 1 || os.Getppid() == 1) && pid1.Executable(name)
}

// becomeProgram replaces this process by the init for a command that no flag of ours stands before.
func becomeProgram(words []string) error { return become(pid1.Options{Command: words}) }

// become replaces this process by the init for a command.
func become(o pid1.Options) error {
	return fmt.Errorf("cannot run %s: %w", o.Command[0], pid1.Become(o))
}
