package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/cmd/disinto/screen"
)

func mcpCommand(c *cli) *cobra.Command {
	var at target
	cmd := &cobra.Command{
		Use: "mcp", Args: cobra.NoArgs,
		Short: "serve the commands to a model as MCP tools on stdin and stdout",
		Long: `
A Model Context Protocol server that claude, codex and other programs start
themselves. Its tools are sling, convoy_create, convoy_start, convoy_status,
convoy_cancel, why, show, status, history, cancel and retry. Each tool runs the
command of that name against the supervisor that the flags or $DISINTO_ADDRESS
name, with the rights of $DISINTO_TOKEN. When stdin is closed, the server
answers the requests that it has read, for at most a minute, and ends.`,
		Example: `
  claude mcp add disinto -- disinto mcp`,
		RunE: func(cmd *cobra.Command, _ []string) error { return serveMCP(cmd.Context(), c, &at) },
	}
	at.flags(cmd.Flags())
	return cmd
}

// serveMCP serves one client until it disconnects.
func serveMCP(ctx context.Context, c *cli, at *target) error {
	if _, err := at.client(c); err != nil {
		return err
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "disinto", Version: version()}, &mcp.ServerOptions{
		Instructions: toolsIntroduction, Capabilities: &mcp.ServerCapabilities{},
	})
	addTools(server, &tools{c: c, at: at.args()})
	server.AddReceivingMiddleware(boundAnswers)
	open := new(openRequests)
	out := &wholeWrites{open: open, to: c.stdout}
	in := io.NopCloser(&lastRequests{ctx, &clientLines{in: bufio.NewReader(c.stdin), out: out, open: open}})
	err := server.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("cannot continue with the MCP client: %w", err)
	}
	return nil
}

// tools runs commands for an MCP client.
type tools struct {
	c  *cli
	at []string // flags that select the supervisor
}

// call is the command line that a tool makes from its arguments.
type call struct {
	name  string // the command's name
	flags []string
	args  []string // arguments, never parsed as flags
	stdin string
}

// flag adds a flag unless its value is empty.
func (l *call) flag(name, value string) {
	if value != "" {
		l.flags = append(l.flags, "--"+name+"="+value)
	}
}

// list adds a flag once for each value. Such a flag parses its value as a line of CSV.
func (l *call) list(name string, values []string) {
	for _, v := range values {
		l.flags = append(l.flags, "--"+name+`="`+strings.ReplaceAll(v, `"`, `""`)+`"`)
	}
}

// on adds a flag if it is set.
func (l *call) on(name string, set bool) {
	if set {
		l.flags = append(l.flags, "--"+name)
	}
}

// run runs a command in this process. The result has the command's text output and the document of --json.
func (t *tools) run(ctx context.Context, l call) *mcp.CallToolResult {
	var stdout, stderr bytes.Buffer
	var document json.RawMessage
	c := &cli{
		environ: t.c.environ, stdin: strings.NewReader(l.stdin), stdout: &stdout, stderr: &stderr, now: t.c.now,
		onDocument: func(raw json.RawMessage) { document = raw },
	}
	line := append(strings.Fields(l.name), t.at...)
	line = append(append(append(line, l.flags...), "--"), l.args...)
	code := c.run(ctx, line)
	result := &mcp.CallToolResult{
		Content: []mcp.Content{&mcp.TextContent{Text: stdout.String() + stderr.String()}},
		IsError: code != exitDone && (code != exitNotNow || stderr.Len() > 0),
	}
	if document != nil && !result.IsError {
		result.StructuredContent = json.RawMessage(screen.JSON(document))
	}
	return result
}

// longestAnswer limits the text and the document of an answer, in bytes each. Clients truncate answers at a few times
// that size.
const longestAnswer = 64 << 10

// boundAnswers limits every answer to a tool call, including the SDK's own errors about arguments.
func boundAnswers(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		answer, err := next(ctx, method, request)
		if result, ok := answer.(*mcp.CallToolResult); ok && result != nil {
			boundAnswer(result)
		}
		return answer, err
	}
}

// boundAnswer truncates the text after the last line that fits, and omits a document that does not fit.
func boundAnswer(result *mcp.CallToolResult) {
	for _, content := range result.Content {
		text, ok := content.(*mcp.TextContent)
		if !ok || len(text.Text) <= longestAnswer {
			continue
		}
		kept := text.Text[:longestAnswer]
		if end := strings.LastIndexByte(kept, '\n'); end >= 0 {
			kept = kept[:end+1]
		}
		text.Text = strings.ToValidUTF8(kept, "") +
			fmt.Sprintf("\n(truncated from %d KiB; ask about one issue, agent or thread)\n", len(text.Text)>>10)
	}
	if raw, ok := result.StructuredContent.(json.RawMessage); ok && len(raw) > longestAnswer {
		result.StructuredContent = nil
	}
}
