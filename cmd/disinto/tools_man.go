package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func manCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "man", Args: cobra.NoArgs,
		Short: "show the manual: the help of every command",
		Long: `
On a terminal it is shown by $MANPAGER, $PAGER or less. A pipe gets the manual
page for man -l; make man writes that to a file.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !c.terminal().shown() {
				writeManual(c.stdout, cmd.Root())
				return nil
			}
			text := manual(cmd.Root())
			becomePager(c, text)
			_, err := io.WriteString(c.stdout, text)
			return err
		},
	}
}

const manualHead = `.TH DISINTO 1 "" "disinto" "User Commands"
.SH NAME
disinto \- run AI coding agents on the issues and pull requests of a Forgejo
.SH SYNOPSIS
.B disinto
.I COMMAND
[\fIARGUMENT\fR]... [\fIFLAG\fR]...
.SH DESCRIPTION
disinto is the entrypoint of a container in which AI coding agents work on a
self-hosted Forgejo. It finds issues and pull requests, gives each to a free
agent, starts that agent's program, and merges approved pull requests.
.PP
.B disinto run
is the supervisor. Most other commands query or control it, or read its files.
.SH COMMANDS
`

const manualFoot = `.SH FILES
.TP
.I factory.toml
The configuration, in the working directory or else in /etc/disinto.
.TP
.I secrets.env
Tokens, in the directory of factory.toml.
.TP
.I /var/lib/disinto
The default state directory: the journal, logs and the control socket.
.SH ENVIRONMENT
.TP
.B DISINTO_STATE_DIR
The state directory, unless --state is given.
.TP
.BR DISINTO_ADDRESS ", " DISINTO_TOKEN
The address of a supervisor on another machine, and the token for its API.
.TP
.BR FORGE_URL ", " FORGE_TOKEN ", " FORGE_REPO
Defaults for [forge] in factory.toml.
.TP
.B NO_COLOR
If set, output has no colour.
.SH EXIT STATUS
.TP
.B 0
Done.
.TP
.B 1
Failed.
.TP
.B 2
The command line was wrong; nothing was done.
.TP
.B 3
Not now: the item waits, or the supervisor finishes the command later.
.TP
.B 128+N
Signal N ended the command; 130 after Ctrl-C.
`

// manual returns the help of the program and of each command, for reading.
func manual(root *cobra.Command) string {
	text := root.Long + "\n"
	for _, cmd := range withMembers(root) {
		if cmd.Runnable() && !cmd.Hidden && cmd.HasParent() {
			cmd.InitDefaultHelpFlag()
			text += "\n\n" + strings.ToUpper(cmd.CommandPath()) + "\n\n" + cmd.Long + "\n\n" + cmd.UsageString()
		}
	}
	return text
}

// writeManual writes disinto(1) as roff.
func writeManual(w io.Writer, root *cobra.Command) {
	io.WriteString(w, manualHead)
	for _, cmd := range withMembers(root) {
		if cmd.Runnable() && !cmd.Hidden {
			writeCommand(w, cmd)
		}
	}
	io.WriteString(w, manualFoot)
}

func writeCommand(w io.Writer, cmd *cobra.Command) {
	fmt.Fprintf(w, ".SS %s\n", roff(cmd.UseLine()))
	verbatim := false
	for line := range strings.Lines(manualText(cmd)) {
		line = strings.TrimRight(line, "\n")
		if indented := strings.HasPrefix(line, "  "); line != "" && indented != verbatim {
			fmt.Fprintln(w, map[bool]string{true: ".PP\n.nf", false: ".fi"}[indented])
			verbatim = indented
		}
		switch {
		case line == "" && !verbatim:
			fmt.Fprintln(w, ".PP")
		default:
			fmt.Fprintln(w, roff(line))
		}
	}
	if verbatim {
		fmt.Fprintln(w, ".fi")
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if value != "" {
			name += " " + value
		}
		fmt.Fprintf(w, ".TP\n.B %s\n%s.\n", roff(name), roff(strings.ReplaceAll(usage, "\n", " ")))
	})
}

// manualText returns a command's description, and its examples as indented lines.
func manualText(cmd *cobra.Command) string {
	if cmd.Example == "" {
		return cmd.Long
	}
	return cmd.Long + "\n\n" + cmd.Example
}

// roff escapes the characters that are special in roff: backslashes, hyphens, and a full stop or quote at the start of
// a line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, `-`, `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
