package main

import (
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/supervisor/control"
)

// target selects the supervisor of a command: the one of a state directory on this machine, or one at an address.
type target struct {
	location
	address, tokenFile string
}

func (t *target) flags(flags *pflag.FlagSet) {
	t.location.flags(flags)
	flags.StringVar(&t.address, "address", "",
		"ask the supervisor at this `URL`, with the token in\n$DISINTO_TOKEN (default $DISINTO_ADDRESS)")
	flags.StringVar(&t.tokenFile, "token-file", "", "read the token from this `FILE`")
}

// args returns the flags that select the same supervisor for another command.
func (t *target) args() (args []string) {
	for _, flag := range [][2]string{
		{"config", t.config}, {"state", t.state}, {"address", t.address}, {"token-file", t.tokenFile},
	} {
		if flag[1] != "" {
			args = append(args, "--"+flag[0]+"="+flag[1])
		}
	}
	return args
}

// client returns the client of the supervisor. A flag for a supervisor on this machine takes precedence over
// $DISINTO_ADDRESS.
func (t *target) client(c *cli) (*control.Client, error) {
	address := t.address
	if address == "" && t.state == "" && t.config == "" {
		address = c.getenv("DISINTO_ADDRESS")
	}
	switch {
	case address == "" && runtime.GOOS != "linux" && t.state == "":
		return nil, usagef("use --address URL or set $DISINTO_ADDRESS: supervisors run on Linux, not on this machine")
	case address == "":
		return control.NewClient(t.supervisorDir(c)), nil
	}
	base, err := addressOf(address)
	if err != nil {
		return nil, err
	}
	token, err := t.token(c)
	if err != nil {
		return nil, err
	}
	return control.NewRemoteClient(base, token), nil
}

// supervisorDir returns the state directory of the supervisor to ask. An account that may not write to the machine's
// state directory, such as an agent's account in a container, gets that directory here, where stateDir would return the
// account's own.
func (t *target) supervisorDir(c *cli) string {
	dir := t.stateDir(c)
	return supervisorIn(dir, t.stateGiven(c), systemState)
}

func supervisorIn(dir string, said bool, system string) string {
	if !said && filepath.Base(dir) == localState && !exists(filepath.Join(dir, control.SocketName)) &&
		exists(filepath.Join(system, control.SocketName)) {
		return system
	}
	return dir
}

// addressOf returns the base URL for an address: host:port, or a URL, which may have a path.
func addressOf(address string) (string, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	switch {
	case err == nil && u.User != nil:
		return "", usagef("--address: the URL contains a password, visible to other users: put the token into $DISINTO_TOKEN")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.RawQuery+u.Fragment != "":
		return "", usagef("--address: %q, want host:port, or a URL such as https://factory.example.org", address)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// longestToken limits the size of a token file, in bytes.
const longestToken = 4096

// token returns the value of [factory] listen_token. There is no flag for it, because other users can see command
// lines.
func (t *target) token(c *cli) (string, error) {
	token, from := c.getenv("DISINTO_TOKEN"), "$DISINTO_TOKEN"
	if t.tokenFile != "" {
		text, err := readToken(t.tokenFile)
		if err != nil {
			return "", err
		}
		token, from = text, t.tokenFile
	}
	token = strings.TrimSpace(token)
	switch {
	case token == "":
		return "", usagef("there is no token for the supervisor's address: set $DISINTO_TOKEN or use --token-file FILE")
	case len(token) > longestToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", usagef("%s is not a token: it contains white space or special characters, or is too long", from)
	}
	return token, nil
}

// readToken reads a token file, and refuses one that other accounts can read.
func readToken(path string) (string, error) {
	f, err := plainfile.OpenNamed(path)
	if err != nil {
		return "", fmt.Errorf("cannot read the token: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 { // Windows has no such mode
		return "", fmt.Errorf("cannot use %s: others can read it; chmod 600 %s", path, path)
	}
	text, err := io.ReadAll(io.LimitReader(f, longestToken+2))
	if err != nil {
		return "", fmt.Errorf("cannot read the token: %w", err)
	}
	return string(text), nil
}
