package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"codeberg.org/johba/disinto/agents"
)

func init() { adapters["claude"] = claude{} }

// claude is Claude Code, as recorded in testdata/claude.
type claude struct{}

func (claude) command(c *call) (argv, env []string) {
	argv = []string{
		"claude", "-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages", "--permission-mode",
		"bypassPermissions",
	}
	if c.Resume {
		argv = append(argv, "--resume", c.Session)
	} else {
		argv = append(argv, "--session-id", c.Session)
	}
	if c.Tree != "" { // claude also looks for skills in folders that it reads
		argv = append(argv, "--setting-sources", "user")
	}
	env = []string{
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1",
		"DISABLE_ERROR_REPORTING=1",
	}
	// claude's own 10 retries would hold the slot for minutes. Waiting for a backend is the scheduler's job.
	env = append(env, c.unlessSet("2", "CLAUDE_CODE_MAX_RETRIES")...)
	if c.BaseURL != "" {
		env = append(env, "ANTHROPIC_BASE_URL="+c.host())
	}
	if c.MaxUSD > 0 && !c.Local { // for this run, without the earlier cost of the conversation
		argv = append(argv, "--max-budget-usd", strconv.FormatFloat(c.MaxUSD, 'f', -1, 64))
	}
	if c.Model != "" {
		env = append(env, "ANTHROPIC_MODEL="+c.Model)
	}
	if c.Local {
		argv = append(argv, "--bare")
		env = append(env, claudeLocal(c)...)
	}
	return argv, env
}

func (claude) credentials() (vars, files []string) {
	return []string{
		"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_USE_BEDROCK",
		"CLAUDE_CODE_USE_VERTEX",
	}, []string{"$CLAUDE_CONFIG_DIR/.credentials.json", ".claude/.credentials.json"}
}

// claudeLocal returns the variables that claude needs on a local server. claude assumes a context of a million tokens
// for unknown models, so the real length is set. It also inserts a system message into the middle of the conversation,
// which Qwen's chat templates reject with a 500; --bare avoids that message and 40 kB of prompt.
func claudeLocal(c *call) []string {
	env := []string{
		"ANTHROPIC_AUTH_TOKEN=" + dummyKey, "ANTHROPIC_API_KEY=", "CLAUDE_CODE_OAUTH_TOKEN=",
		"CLAUDE_CODE_ATTRIBUTION_HEADER=0",
	}
	if c.Model != "" {
		for _, name := range []string{"SMALL_FAST", "DEFAULT_OPUS", "DEFAULT_SONNET", "DEFAULT_HAIKU"} {
			env = append(env, "ANTHROPIC_"+name+"_MODEL="+c.Model)
		}
	}
	length := strconv.Itoa(c.Context)
	return append(env, c.unlessSet(length, "CLAUDE_CODE_MAX_CONTEXT_TOKENS", "CLAUDE_CODE_AUTO_COMPACT_WINDOW")...)
}

// claudeEvent is the union of the relevant events.
type claudeEvent struct {
	Type, Subtype string
	SessionID     string `json:"session_id"`

	Tasks []json.RawMessage // in the background, after a change

	// Fields of a retry.
	Attempt     int
	MaxRetries  int `json:"max_retries"`
	ErrorStatus int `json:"error_status"`

	Message struct {
		ID, Model  string
		Content    json.RawMessage
		StopReason string `json:"stop_reason"`
		Usage      claudeUsage
	}
	// Fields of a part of a message, whose last one says how much the model wrote. The message itself does not.
	Part struct {
		Type    string
		Message struct{ ID string }
		Usage   claudeUsage
	} `json:"event"`

	RateLimit struct {
		Status   string
		ResetsAt int64  // seconds
		Type     string `json:"rateLimitType"`
	} `json:"rate_limit_info"`

	// Fields of the result.
	Result         string
	Errors         []string
	IsError        bool    `json:"is_error"`
	TerminalReason string  `json:"terminal_reason"`
	StopReason     string  `json:"stop_reason"`
	APIStatus      int     `json:"api_error_status"`
	Cost           float64 `json:"total_cost_usd"`
	Usage          *claudeUsage
}

type claudeUsage struct {
	Input   int64  `json:"input_tokens"`
	Created int64  `json:"cache_creation_input_tokens"`
	Read    *int64 `json:"cache_read_input_tokens"`
	Output  int64  `json:"output_tokens"`
}

func (u *claudeUsage) usage() agents.Usage {
	return usageOf(u.Input+u.Created, u.Read, u.Output)
}

// claudeItself is the model of the messages that claude writes itself, such as an error.
const claudeItself = "<synthetic>"

// limitReached matches a result that is only a usage limit. Some versions of claude call it a success.
var limitReached = regexp.MustCompile(`^You've (hit|reached) your [\w -]{0,30}limit( · |$)`)

func (claude) read(line []byte, r *report) bool {
	var e claudeEvent
	if json.Unmarshal(line, &e) != nil || e.Type == "" {
		return false
	}
	r.Session = cmp.Or(e.SessionID, r.Session)
	switch {
	case e.Type == "system" && e.Subtype == "api_retry":
		r.Note = fmt.Sprintf("the backend answers %d, try %d of %d", e.ErrorStatus, e.Attempt, e.MaxRetries)
	case e.Type == "system" && e.Subtype == "background_tasks_changed":
		r.background = len(e.Tasks)
	case e.Type == "system" && e.Subtype == "init": // also when the end of a background task begins another turn
		r.Ended = false
	case e.Type == "assistant":
		r.answer(e.Message.Content)
		if e.Message.Model != claudeItself {
			r.Answered = true
			r.count(e.Message.ID, e.Message.Usage.usage())
		}
		if e.Message.StopReason == "refusal" {
			r.fail(failure{What: refused, Words: "the model refused: " + r.Words})
		}
	case e.Type == "stream_event" && e.Part.Type == "message_start":
		r.writing = e.Part.Message.ID
	case e.Type == "stream_event" && e.Part.Type == "message_delta":
		r.count(r.writing, e.Part.Usage.usage())
	case e.Type == "user":
		r.results(e.Message.Content)
	case e.Type == "rate_limit_event" && e.RateLimit.Status == "rejected":
		t := failure{What: limited, Words: "usage limit " + e.RateLimit.Type}
		if e.RateLimit.ResetsAt > 0 {
			t.Until = time.Unix(e.RateLimit.ResetsAt, 0).UTC()
		}
		r.fail(t)
	case e.Type == "result":
		r.claudeResult(&e)
	}
	return true
}

// claudeResult evaluates a result event. A run has more than one if claude continues after it, such as when a
// background task ends. The last one counts; each has the tokens since the one before.
func (r *report) claudeResult(e *claudeEvent) {
	r.Ended = true
	if u := e.Usage; u != nil {
		r.Usage = r.Usage.Add(u.usage())
	}
	r.Usage.CostUSD, r.TotalCost = e.Cost, true // CostUSD covers the whole conversation, the tokens only this run
	if e.StopReason == "refusal" {
		r.fail(failure{What: refused, Words: "the model refused: " + e.Result})
		return
	}
	if !e.IsError && limitReached.MatchString(e.Result) {
		r.fail(failure{What: limited, Words: e.Result})
		return
	}
	if !e.IsError {
		if r.What != refused && !r.final() { // claude itself waited for the end of a limit
			r.failure = failure{}
		}
		return
	}
	words := cmp.Or(append([]string{e.Result}, e.Errors...)...)
	what := broken
	switch {
	case e.APIStatus != 0 || e.TerminalReason == "api_error" || e.TerminalReason == "":
		what = classify(e.APIStatus, words)
	case e.TerminalReason == "prompt_too_long":
		what = overflown
	case e.TerminalReason == "budget_exhausted":
		what = spent
	}
	r.fail(failure{What: what, Words: words})
}

// answer decodes the content of a model's message in Anthropic's format, which qwen uses too.
func (r *report) answer(content json.RawMessage) {
	var parts []struct {
		Type, Text, Name, ID string
		Input                json.RawMessage
	}
	if json.Unmarshal(content, &parts) != nil {
		return
	}
	for _, p := range parts {
		switch p.Type {
		case "text":
			r.Words, r.Note = p.Text, firstWords(p.Text)
		case "tool_use":
			r.call(p.ID, p.Name, p.Input)
		}
	}
}

// results decodes the results of tools in the same format.
func (r *report) results(content json.RawMessage) {
	var parts []struct {
		Type    string
		ID      string `json:"tool_use_id"`
		Content json.RawMessage
	}
	if json.Unmarshal(content, &parts) != nil {
		return
	}
	for _, p := range parts {
		if p.Type == "tool_result" {
			r.result(p.ID, p.Content)
		}
	}
}

// toolSummary describes a tool call in one line, with its most informative argument.
func toolSummary(name string, input json.RawMessage) string {
	name = firstWords(name)
	var args map[string]json.RawMessage
	if json.Unmarshal(input, &args) == nil {
		for _, key := range []string{"command", "file_path", "filePath", "path", "absolute_path", "pattern", "url", "query"} {
			var s string
			if json.Unmarshal(args[key], &s) == nil && s != "" {
				return name + ": " + firstWords(s)
			}
		}
	}
	return name
}
