package session

import (
	"encoding/json"
	"fmt"
	"strconv"

	"codeberg.org/johba/disinto/agents"
)

func init() { adapters["codex"] = codex{} }

// codex is Codex CLI (0.169.0). It chooses the id of a conversation itself.
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
		Type, Text, Command string
		Changes             []struct{ Path string }
	}
	Usage *struct {
		Input  int64 `json:"input_tokens"`
		Cached int64 `json:"cached_input_tokens"`
		Output int64 `json:"output_tokens"`
	}
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
		if e.Item.Type == "command_execution" {
			r.Note = "shell: " + firstWords(e.Item.Command)
		}
	case "item.completed":
		r.codexItem(&e)
	case "error":
		r.Note = firstWords(e.Message) // of a retry; the end says whether it mattered
	case "turn.failed":
		r.Ended = true
		r.fail(trouble{What: classify(0, e.Error.Message), Words: e.Error.Message})
	case "turn.completed":
		r.Ended = true
		if u := e.Usage; u != nil {
			// Of the whole conversation. Input includes the cached tokens, output the reasoning.
			r.Usage = agents.Usage{InputTokens: max(0, u.Input-u.Cached), CachedTokens: u.Cached, OutputTokens: u.Output}
			r.TotalTokens = true
		}
	}
	return true
}

func (r *report) codexItem(e *codexEvent) {
	switch e.Item.Type {
	case "agent_message":
		r.Turns++
		r.Words, r.Note = e.Item.Text, firstWords(e.Item.Text)
	case "file_change":
		for _, c := range e.Item.Changes {
			r.Note = "change: " + firstWords(c.Path)
		}
	}
}
