//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/agents/upstream"
)

// upstreamCommand is the program of roles whose work upstream's scripts do.
func upstreamCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "upstream [SCRIPT [ARGS]]", Args: cobra.MaximumNArgs(9),
		Short: "print a factory.toml for upstream's agents, or run a script",
		Long: `
Without SCRIPT it prints a factory.toml made from upstream's projects/*.toml and
the environment. disinto run uses the same one when there are projects and no
factory.toml. Save the output to edit it.

With SCRIPT it is an agent's program, as in
command = ["disinto", "upstream", "--root", "/home/agent/disinto",
"dev/dev-agent.sh", "{{.Issue}}"]. It creates the agent's own clone, git
credentials and a private /tmp, sets the variables of upstream's entrypoint, and
runs the script. Without ARGS, the script gets its project's file.`,
		Example: `
  disinto upstream >factory.toml`,
	}
	flags := cmd.Flags()
	var u upstreamRun
	flags.StringVar(&u.root, "root", ".", "the `DIR` of upstream's checkout")
	flags.StringVar(&u.inside, "inside", "", "")
	flags.Lookup("inside").Hidden = true
	flags.SetInterspersed(false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return u.do(cmd.Context(), c, args) }
	return cmd
}

// upstreamRun has the flags of the upstream command.
type upstreamRun struct {
	root   string
	inside string // the directory to mount over /tmp: the process runs in the new namespace
}

func (u *upstreamRun) do(ctx context.Context, c *cli, args []string) error {
	root, err := filepath.Abs(u.root)
	switch {
	case err != nil:
		return fmt.Errorf("cannot find upstream's checkout: %w", err)
	case u.inside != "":
		return u.enter(c, args)
	case len(args) == 0:
		text, err := projectsText(filepath.Join(root, projectsDir), c.lookup)
		if err != nil {
			return err
		}
		_, err = io.WriteString(c.stdout, text)
		return err
	}
	reaper, err := process.NewReaper()
	if err != nil {
		return err
	}
	p := &upstream.Program{
		Root: root, Script: args[0], Args: args[1:], Environ: c.environ, Run: sessionRun(reaper), Out: c.stdout,
	}
	namespace := privateTmp(reaper, c, root)
	p.Private = namespace != nil
	script, err := p.Prepare(ctx)
	if err != nil {
		return err
	}
	return runScript(ctx, c, reaper, script, namespace)
}

// enter runs in the new namespace. It mounts the private /tmp and executes argv; without argv it only tests that.
func (u *upstreamRun) enter(c *cli, argv []string) error {
	runtime.LockOSThread() // Exec drops the privileges of this thread
	path := ""
	if len(argv) > 0 {
		found, err := process.Lookup(argv[0], "", c.environ)
		if err != nil {
			return err
		}
		path = found
	}
	return upstream.Exec(u.inside, path, argv, c.environ)
}

// privateTmp tries the kinds of namespaces and returns the first in which /tmp can be private. If none works it prints
// a message and returns nil.
func privateTmp(reaper *process.Reaper, c *cli, root string) *syscall.SysProcAttr {
	home := c.getenv("HOME")
	used := []string{home, root, c.getenv("DISINTO_WORKSPACE"), c.getenv("DISINTO_RESULT"), c.getenv("CLAUDE_CONFIG_DIR")}
	if upstream.Fits(used...) {
		for _, attr := range upstream.Namespaces() {
			if tryNamespace(reaper, c, home, attr) {
				return attr
			}
		}
	}
	fmt.Fprintln(c.stdout, "disinto: no private /tmp here: upstream's files there get the agent's name instead")
	return nil
}

func tryNamespace(reaper *process.Reaper, c *cli, dir string, attr *syscall.SysProcAttr) bool {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer null.Close()
	files := []uintptr{null.Fd(), null.Fd(), null.Fd()}
	child, err := reaper.Start("/proc/self/exe", []string{"disinto", "upstream", "--inside", dir}, &syscall.ProcAttr{
		Env: c.environ, Files: files, Sys: attr,
	})
	if err != nil {
		return false
	}
	exit := <-child.Exit()
	return exit.Status == 0
}

// runScript runs the script until it ends and, if s.Waits, until every process that it started has ended. It returns
// the script's exit code in its error.
func runScript(
	ctx context.Context, c *cli, reaper *process.Reaper, s *upstream.Script, namespace *syscall.SysProcAttr,
) error {
	argv := s.Argv
	path, err := process.Lookup(argv[0], s.Dir, s.Env)
	if err != nil {
		return err
	}
	if namespace != nil {
		path, argv = "/proc/self/exe", append([]string{"disinto", "upstream", "--inside", s.Tmp, "--"}, argv...)
	}
	// Every process of the script inherits the other end of the pipe: ours reads EOF when all of them have ended.
	ours, theirs, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cannot make a pipe: %w", err)
	}
	defer ours.Close()
	child, err := reaper.Start(path, argv, &syscall.ProcAttr{
		Dir: s.Dir, Env: s.Env, Files: []uintptr{0, 1, 2, theirs.Fd()}, Sys: namespace,
	})
	theirs.Close()
	if err != nil {
		return fmt.Errorf("cannot run %s: %w", s.Argv[1], err)
	}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(child.PID, syscall.SIGTERM) })
	defer stop()
	shown := showLogs(c)
	defer shown()
	exit := <-child.Exit()
	if s.Waits && ctx.Err() == nil {
		context.AfterFunc(ctx, func() { ours.Close() })
		_, _ = io.Copy(io.Discard, ours)
	}
	switch code := exit.Status.ExitStatus(); {
	case exit.Status.Signaled():
		return fmt.Errorf("%s was ended by %s", s.Argv[1], exit.Status.Signal())
	case code != 0:
		return &exitError{code, ""}
	}
	return nil
}

// logInterval is how often upstream's logs are copied.
const logInterval = time.Second

// showLogs copies the log files of upstream's scripts to stdout, until shown is called.
func showLogs(c *cli) (shown func()) {
	logs := upstream.NewLogs(c.getenv("HOME"))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				_ = logs.Copy(c.stdout)
				return
			case <-time.After(logInterval):
				_ = logs.Copy(c.stdout)
			}
		}
	}()
	return func() { close(stop); <-done }
}
