//go:build linux

package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"codeberg.org/johba/disinto/forge/forgejo"
)

// signIn has the flags for signing in to the forge as an administrator.
type signIn struct {
	token, user, password string
}

func (s *signIn) flags(flags *pflag.FlagSet) {
	flags.StringVar(&s.token, "admin-token", "",
		"`<pat>`, the token of a forge administrator,\n"+
			"- for stdin (default $FORGE_ADMIN_TOKEN, else\n$FORGE_ADMIN_PAT, else a terminal is asked)")
	flags.StringVar(&s.user, "admin-user", "",
		"the `NAME` of a forge administrator, to sign in\nwith a password (default $FORGE_ADMIN_USER)")
	flags.StringVar(&s.password, "admin-password", "", "the password `WORD` of --admin-user, - for\n"+
		"stdin (default $FORGE_ADMIN_PASSWORD)")
}

// noAdmin explains how to sign in.
const noAdmin = "cannot sign in to the forge as administrator: " +
	"set $FORGE_ADMIN_TOKEN, or use --admin-token -, or --admin-user with --admin-password -; " +
	"an administrator creates a token under Settings, Applications with all permissions, or on the forge's machine with " +
	"forgejo admin user generate-access-token --username NAME --token-name hire --scopes all --raw"

// options returns the options of the administrator's client. Flags take precedence over the environment. Upstream's
// names of the variables work too.
//
// from is the flag or variable that the token comes from, for messages: the user may have set several. It is ""
// without a token.
func (s *signIn) options(c *cli, url string) (o forgejo.AdminOptions, from string, err error) {
	o.URL = url
	if s.token == "-" && s.password == "-" {
		return o, "", usagef("only one of --admin-token and --admin-password can be read from stdin")
	}
	user := cmp.Or(s.user, c.getenv("FORGE_ADMIN_USER"))
	password := cmp.Or(s.password, c.getenv("FORGE_ADMIN_PASSWORD"), c.getenv("FORGE_ADMIN_PASS"))
	if user == "" && password != "" {
		user = "disinto-admin" // as upstream calls it
	}
	if o.Token = s.token; o.Token != "" {
		from = "--admin-token"
	}
	for _, name := range []string{"FORGE_ADMIN_TOKEN", "FORGE_ADMIN_PAT"} {
		if o.Token == "" && s.user == "" && s.password == "" && c.getenv(name) != "" { // no flag asks for a password
			o.Token, from = c.getenv(name), name
		}
	}
	if o.Token == "" {
		o.User, o.Password = user, password
	}
	for _, secret := range []*string{&o.Token, &o.Password} {
		if *secret != "-" {
			continue
		}
		line, err := bufio.NewReader(c.stdin).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return o, from, fmt.Errorf("cannot read from stdin: %w", err)
		}
		*secret = strings.TrimSpace(line)
	}
	if o.Token == "" && (o.User == "" || o.Password == "") {
		return s.ask(c, o)
	}
	return o, from, nil
}

// ask asks on a terminal for the secret that is missing, which is not shown.
func (s *signIn) ask(c *cli, o forgejo.AdminOptions) (_ forgejo.AdminOptions, from string, err error) {
	f, ok := c.stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return o, "", errors.New(noAdmin)
	}
	what, secret, from := "an administrator's token with all permissions, not shown", &o.Token, "the keyboard"
	if o.User != "" {
		what, secret, from = "password of "+o.User+", not shown", &o.Password, ""
	}
	fmt.Fprintf(c.stdout, "%s: ", what)
	said, err := term.ReadPassword(int(f.Fd()))
	fmt.Fprintln(c.stdout)
	if *secret = strings.TrimSpace(string(said)); *secret == "" || err != nil {
		return o, "", errors.New(noAdmin)
	}
	return o, from, nil
}
