//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/agents/process/pid1"
)

// execCommand prints the help of disinto exec and refuses invalid command lines. Package pid1 handles a valid one
// before main starts.
func execCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "exec [--] COMMAND...", Args: cobra.MinimumNArgs(1),
		Short: "run one command under an init: forward signals, reap orphans",
		Long: `
Runs any program of the image: docker run IMAGE exec bash. The command gets its
own process group and the terminal. disinto forwards every signal that can be
caught to that group, and TERM to every descendant. It reaps orphans. Processes
that outlive the command get TERM, and KILL after 5s. The exit code is the
command's: 128 plus the signal number if a signal ended it, 127 if the command
was not found, 126 if it cannot be executed.

Called as tini or dumb-init, for example through a symlink, it accepts the
options and environment variables of that program and prints its messages.

As PID 1 of a container, disinto also runs any command that is not one of its
own: docker run IMAGE ls -l.`,
		Example: `
  disinto exec --rewrite TERM:QUIT nginx`,
	}
	flags := cmd.Flags()
	var o pid1.Options
	flags.SetInterspersed(false)
	flags.BoolVarP(&o.Single, "single-child", "c", false, "signal only the command, not its children")
	flags.VarP((*rewrites)(&o.Rewrites), "rewrite", "r", "TERM:QUIT, or 15:3, forwards TERM as QUIT; 15:0\ndrops it")
	flags.DurationVar(&o.Grace, "grace", 0, "KILL all processes this `TIME` after TERM")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if o.Grace < 0 {
			return usagef("--grace %s: want a time that is not negative", o.Grace)
		}
		o.Command = args
		return become(o)
	}
	return cmd
}

// rewrites is the value of --rewrite, a flag that may be repeated.
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

// foreign reports whether the first word of a command line is another program rather than a mistyped command of
// disinto. It can be a program only if disinto is the entrypoint of a container, alone or below docker run --init.
func foreign(name string) bool {
	return (os.Getpid() == 1 || os.Getppid() == 1) && pid1.Executable(name)
}

// becomeProgram replaces this process by the init for a command, without options.
func becomeProgram(words []string) error { return become(pid1.Options{Command: words}) }

// become replaces this process by the init for a command.
func become(o pid1.Options) error {
	return fmt.Errorf("cannot run %s: %w", o.Command[0], pid1.Become(o))
}
