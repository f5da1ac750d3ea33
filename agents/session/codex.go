package session

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"

	"codeberg.org/johba/disinto/agents"
)

func init() { adapters["codex"] = codex{} }

// codex is Codex CLI, as recorded in testdata/codex. It chooses the id of a conversation.
type codex struct{}

func (codex) command(c *call) (argv, env []string) {
	argv = []string{"codex", "exec"}
	if c.Resume {
		argv = append(argv, "resume")
	}
	argv = append(argv, "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
	if c.Model != "" {
		argv = append(argv, "--model", c.Model)
	}
	if c.BaseURL != "" {
		key := "OPENAI_API_KEY"
		if c.Local {
			key = "DISINTO_LOCAL_KEY"
			env = append(env, key+"="+dummyKey)
		}
		for _, setting := range []string{
			`model_provider="disinto"`,
			`model_providers.disinto.name="disinto"`,
			fmt.Sprintf("model_providers.disinto.base_url=%q", c.v1()),
			fmt.Sprintf("model_providers.disinto.env_key=%q", key),
			`model_providers.disinto.wire_api="responses"`,
			"model_providers.disinto.request_max_retries=2",
			"model_providers.disinto.stream_max_retries=2",
		} {
			argv = append(argv, "-c", setting)
		}
	}
	if c.Local && c.Context > 0 {
		argv = append(argv, "-c", "model_context_window="+strconv.Itoa(c.Context))
	}
	if c.Resume {
		argv = append(argv, c.Session)
	}
	return append(argv, "-"), env
}

func (codex) credentials() (vars, files []string) {
	return []string{"CODEX_API_KEY", "OPENAI_API_KEY"}, []string{"$CODEX_HOME/auth.json", ".codex/auth.json"}
}

type codexEvent struct {
	Type     string
	ThreadID string `json:"thread_id"`
	Message  string
	Error    struct{ Message string }
	Item     struct {
		ID, Type, Text, Command string
		Output                  string          `json:"aggregated_output"`
		Exit                    json.RawMessage `json:"exit_code"`
		// Fields of a call of an MCP server's tool.
		Server, Tool      string
		Arguments, Result json.RawMessage

		Changes []struct{ Path string }
	}
	Usage *codexUsage
}

// codexUsage counts the cached tokens in Input, and the reasoning in Output.
type codexUsage struct {
	Input  int64  `json:"input_tokens"`
	Cached *int64 `json:"cached_input_tokens"`
	Output int64  `json:"output_tokens"`
}

func (u *codexUsage) usage() agents.Usage {
	return usageOf(without(u.Input, u.Cached), u.Cached, u.Output)
}

// diary matches codex's own record of a conversation, which grows with each answer of the model.
func (codex) diary(environ []string, r *report) string {
	home := cmp.Or(agents.Getenv(environ, "CODEX_HOME"), filepath.Join(agents.Getenv(environ, "HOME"), ".codex"))
	return filepath.Join(home, "sessions", "*", "*", "*", "rollout-*-"+r.Session+".jsonl")
}

func (c codex) readDiary(line []byte, r *report, before agents.Usage) {
	if u, ok := c.usageLine(line); ok {
		r.Running = r.Running.Max(u.Less(before))
	}
}

// usageLine decodes a line with the usage of the whole conversation. ok is false for other lines.
func (codex) usageLine(line []byte) (agents.Usage, bool) {
	if !bytes.Contains(line, []byte(`"token_count"`)) {
		return agents.Usage{}, false
	}
	var e struct {
		Payload struct {
			Type string
			Info *struct {
				Total codexUsage `json:"total_token_usage"`
			}
		}
	}
	if json.Unmarshal(line, &e) != nil || e.Payload.Type != "token_count" || e.Payload.Info == nil {
		return agents.Usage{}, false
	}
	return e.Payload.Info.Total.usage().Bounded(), true
}

func (codex) read(line []byte, r *report) bool {
	var e codexEvent
	if json.Unmarshal(line, &e) != nil || e.Type == "" {
		return false
	}
	switch e.Type {
	case "thread.started":
		r.Session = e.ThreadID
	case "item.started":
		r.Answered = true
		r.codexCall(&e)
	case "item.completed":
		r.Answered = r.Answered || e.Item.Type != "error"
		r.codexItem(&e)
	case "error": // reports a retry, or ends the run; the last event, if there is one, says whether it mattered
		r.Said = e.Message
		r.Note = firstWords(e.Message)
	case "turn.failed":
		r.Ended = true
		r.fail(failure{What: classify(0, e.Error.Message), Words: e.Error.Message})
	case "turn.completed":
		r.Ended = true
		if u := e.Usage; u != nil {
			r.Usage, r.TotalTokens = u.usage(), true // covers the whole conversation
			r.Answered = r.Answered || u.Output > 0
		}
	}
	return true
}

// codexCall records the call of a tool; its result follows.
func (r *report) codexCall(e *codexEvent) {
	switch it := &e.Item; it.Type {
	case "command_execution":
		r.call(it.ID, "shell", commandInput(it.Command))
	case "mcp_tool_call":
		r.call(it.ID, it.Server+"."+it.Tool, it.Arguments)
	}
}

// commandInput formats a command as other CLIs do.
func commandInput(command string) []byte {
	text, _ := json.Marshal(map[string]string{"command": command})
	return text
}

func (r *report) codexItem(e *codexEvent) {
	switch e.Item.Type {
	case "command_execution":
		r.result(e.Item.ID, append([]byte(e.Item.Output), e.Item.Exit...))
	case "mcp_tool_call":
		r.result(e.Item.ID, e.Item.Result)
	case "agent_message":
		r.Words, r.Note = e.Item.Text, firstWords(e.Item.Text)
	case "file_change":
		r.finished = true
		for _, c := range e.Item.Changes {
			r.Note = "change: " + firstWords(c.Path)
			r.changed = append(r.changed, c.Path)
		}
	}
}
