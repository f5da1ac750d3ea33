//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/supervisor/fleet"
	"codeberg.org/johba/disinto/threads"
)

// maxComplaint limits the error output of ssh, in bytes.
const maxComplaint = 4 << 10

// sshOptions prevent prompts and trust in unknown host keys, and set timeouts for a host that does not answer. The
// remote command is constant, so nothing needs quoting.
var sshOptions = []string{
	"-T", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=5",
	"-o", "ServerAliveInterval=3", "-o", "ServerAliveCountMax=2", "-o", "ForwardAgent=no",
	"-o", "ClearAllForwardings=yes", "-o", "PermitLocalCommand=no", "-o", "LogLevel=ERROR",
}

// sshExport returns the command line that reads a host. The host follows --, and its parts cannot start with a dash:
// see threads.Host.
func sshExport(h threads.Host) []string {
	argv := append([]string{"ssh"}, sshOptions...)
	if h.Port > 0 {
		argv = append(argv, "-p", strconv.Itoa(h.Port))
	}
	return append(argv, "--", h.Destination(), "disinto", "fleet", "export")
}

// sshEnviron are the variables that ssh gets. They include no token, because ssh starts programs that its configuration
// names.
var sshEnviron = []string{"PATH", "HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK", "LANG", "LC_ALL"}

// hostReader returns a function that reads other hosts through ssh. run starts ssh as a child of the reaper, and ends
// it when the context is done.
func hostReader(run func(context.Context, process.Cmd) error, environ []string) fleet.ReadHost {
	environ = slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return !slices.Contains(sshEnviron, name)
	})
	return func(ctx context.Context, h threads.Host) ([]byte, error) {
		out, complaint := limited{most: fleet.MaxExport}, limited{most: maxComplaint}
		err := run(ctx, process.Cmd{Argv: sshExport(h), Dir: "/", Env: environ, Stdout: &out, Stderr: &complaint})
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, withStderr(err, complaint.text.String())
		case out.over:
			return nil, fmt.Errorf("its output is longer than %d KiB", fleet.MaxExport>>10)
		}
		return out.text.Bytes(), nil
	}
}

// limited is a writer that keeps the first most bytes. It accepts and drops the rest, so that the writer can finish.
type limited struct {
	most int
	text bytes.Buffer
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	keep := min(len(p), l.most-l.text.Len())
	l.text.Write(p[:keep])
	l.over = l.over || keep < len(p)
	return len(p), nil
}
