package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
)

// query sends a request to a running supervisor and prints its answer, a document.
type query struct {
	at   target
	json bool // print the document unchanged: it includes fields of a newer supervisor
}

// flags adds the flags of every query. document names the answer in the help.
func (q *query) flags(flags *pflag.FlagSet, document string) {
	q.at.flags(flags)
	q.jsonFlag(flags, document)
}

func (q *query) jsonFlag(flags *pflag.FlagSet, document string) {
	jsonFlag(flags, &q.json, "print "+document+", for programs")
}

// jsonFlag adds --json and its synonym -o json.
func jsonFlag(flags *pflag.FlagSet, asJSON *bool, usage string) {
	flags.BoolVar(asJSON, "json", false, usage)
	flags.VarP((*format)(asJSON), "output", "o", "json or text; -o json is --json")
}

// format is the value of -o: true for json.
type format bool

func (f *format) Set(text string) error {
	if text != "json" && text != "text" {
		return errors.New("want json or text")
	}
	*f = text == "json"
	return nil
}

func (f *format) String() string { return "" } // the help shows no default

func (f *format) Type() string { return "FORMAT" }

func (q *query) client(c *cli) (*control.Client, error) { return q.at.client(c) }

// get requests the document at a path of the control API and prints it.
func get[T any](ctx context.Context, c *cli, q *query, path string, text func(screen.View, *T) string) error {
	_, err := getDocument(ctx, c, q, path, text)
	return err
}

// getDocument is get, and returns the document.
func getDocument[T any](
	ctx context.Context, c *cli, q *query, path string, text func(screen.View, *T) string,
) (*T, error) {
	var raw json.RawMessage
	client, err := q.client(c)
	if err == nil {
		err = client.Get(ctx, path, &raw)
	}
	if err != nil {
		return nil, err
	}
	return answered(c, q, raw, text)
}

// post sends a request to a path of the control API, and prints and returns the answer.
func post[T any](
	ctx context.Context, c *cli, q *query, path string, request any, text func(screen.View, *T) string,
) (*T, error) {
	var raw json.RawMessage
	client, err := q.client(c)
	if err == nil {
		err = client.Post(ctx, path, request, &raw)
	}
	if err != nil {
		return nil, err
	}
	return answered(c, q, raw, text)
}

func answered[T any](c *cli, q *query, raw json.RawMessage, text func(screen.View, *T) string) (*T, error) {
	answer := new(T)
	if err := json.Unmarshal(raw, answer); err != nil {
		return nil, fmt.Errorf("cannot understand the supervisor's answer: %w", err)
	}
	return answer, c.print(q.json, raw, func(v screen.View) string { return text(v, answer) })
}

// print prints a document: as JSON, or as the text for this terminal.
func (c *cli) print(asJSON bool, document any, text func(screen.View) string) error {
	t := c.terminal()
	raw, err := json.Marshal(document)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(t, raw)
	}
	c.passDocument(raw)
	_, err = io.WriteString(t, text(t.view(c.now())))
	return err
}

// passDocument calls c.onDocument with a document, if that is set.
func (c *cli) passDocument(raw json.RawMessage) {
	if c.onDocument != nil {
		c.onDocument(raw)
	}
}

// printJSON prints an indented document.
func printJSON(w io.Writer, raw json.RawMessage) error {
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(raw), "", "  "); err != nil {
		return fmt.Errorf("cannot understand the supervisor's answer: %w", err)
	}
	_, err := fmt.Fprintln(w, screen.JSON(out.Bytes()))
	return err
}

// postAndPrint posts a request and prints the report. It returns errNotNow while part of the work is pending.
func (q *query) postAndPrint(ctx context.Context, c *cli, path string, request any) error {
	r, err := post(ctx, c, q, path, request, screen.View.Report)
	if err == nil && r.Pending != "" {
		err = errNotNow
	}
	return err
}

// postCommand completes a command that posts the request made from its arguments.
func postCommand(c *cli, cmd *cobra.Command, path string, request func(args []string) (any, error)) *cobra.Command {
	var q query
	q.flags(cmd.Flags(), "the report")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r, err := request(args)
		if err != nil {
			return err
		}
		return q.postAndPrint(cmd.Context(), c, path, r)
	}
	return cmd
}

// checkRef refuses text that is not a reference. Only the supervisor knows the repository of a bare number.
func checkRef(ref string) error {
	if _, err := forge.ParseRef(ref, "owner/name"); err != nil {
		return usagef("%v", err)
	}
	return nil
}
