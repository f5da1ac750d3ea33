package session

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

func init() { adapters["opencode"] = opencode{} }

// opencode is opencode, as recorded in testdata/opencode. It chooses the id of a conversation, and reports usage per
// step.
type opencode struct{}

func (opencode) command(c *call) (argv, env []string) {
	// Without a title, opencode would request one from the model, on the same slot.
	argv = []string{"opencode", "run", "--format", "json", "--auto", "--title", "disinto"}
	if c.Resume {
		argv = append(argv, "--session", c.Session)
	}
	env = []string{"OPENCODE_DISABLE_AUTOUPDATE=1"}
	if c.BaseURL == "" {
		if c.Model != "" {
			argv = append(argv, "--model", c.Model)
		}
		if c.Tree != "" {
			env = append(env, `OPENCODE_CONFIG_CONTENT={"lsp":false,"formatter":false}`)
		}
		return argv, env
	}
	model := cmp.Or(c.Model, "default")
	env = append(env, "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_CONFIG_CONTENT="+opencodeConfig(c, model))
	return append(argv, "--model", "disinto/"+model), env
}

func (opencode) credentials() (vars, files []string) {
	return []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY"},
		[]string{"$XDG_DATA_HOME/opencode/auth.json", ".local/share/opencode/auth.json"}
}

const (
	// opencodeContext is the assumed context length, in tokens, of a server that does not report its own. Without a
	// limit opencode never shortens a conversation.
	opencodeContext = 32768
	// opencodeOverflows is how often a conversation may be too long. opencode shortens it each time and retries,
	// forever if the prompt alone does not fit.
	opencodeOverflows = 3
)

// opencodeConfig returns opencode's configuration for a backend with an address. A paid API's key stays in the
// environment.
func opencodeConfig(c *call, model string) string {
	key := "{env:OPENAI_API_KEY}"
	if c.Local {
		key = dummyKey
	}
	window := cmp.Or(c.Context, opencodeContext)
	limit := map[string]int{"context": window, "output": min(8192, window/4)}
	config := map[string]any{
		"model": "disinto/" + model, "small_model": "disinto/" + model,
		"permission": map[string]string{"*": "allow"}, "autoupdate": false, "share": "disabled",
		"provider": map[string]any{"disinto": map[string]any{
			"npm":     "@ai-sdk/openai-compatible",
			"options": map[string]string{"baseURL": c.v1(), "apiKey": key},
			"models":  map[string]any{model: map[string]any{"limit": limit}},
		}},
	}
	if c.Tree != "" { // opencode would load them from the checkout's node_modules
		config["lsp"], config["formatter"] = false, false
	}
	text, _ := json.Marshal(config)
	return string(text)
}

type opencodeEvent struct {
	Type, SessionID string
	Part            struct {
		Text, Tool, Reason string
		CallID             string
		State              struct {
			Input, Output json.RawMessage
			Time          struct{ Start, End int64 } // in milliseconds
		}
		Cost   float64
		Tokens struct {
			Input, Output, Reasoning int64 // input without the cached tokens
			Cache                    struct {
				Read  *int64
				Write int64
			}
		}
	}
	Error struct {
		Name string
		Data struct {
			Message string
			Status  int               `json:"statusCode"`
			Headers map[string]string `json:"responseHeaders"`
			Body    string            `json:"responseBody"`
		}
	}
}

func (opencode) read(line []byte, r *report) bool {
	var e opencodeEvent
	if json.Unmarshal(line, &e) != nil || e.Type == "" {
		return false
	}
	r.Session = cmp.Or(e.SessionID, r.Session)
	switch e.Type {
	case "step_start":
		r.Ended = false
	case "text":
		r.Answered = true
		r.Words, r.Note = e.Part.Text, firstWords(e.Part.Text)
	case "tool_use":
		r.Answered = true
		r.opencodeTool(&e)
	case "step_finish":
		r.Answered = true
		t := e.Part.Tokens
		step := usageOf(t.Input+t.Cache.Write, t.Cache.Read, t.Output+t.Reasoning)
		step.CostUSD = e.Part.Cost
		r.Usage = r.Usage.Add(step)
		r.Running = r.Usage
		r.calling = e.Part.Reason == "tool-calls"
		r.Ended = !r.calling
		if r.What == overflown && !r.Hopeless {
			r.failure = failure{} // opencode has shortened the conversation and continues
		}
	case "error":
		r.opencodeError(&e)
	}
	return true
}

// opencodeTool processes a tool call that includes its result.
func (r *report) opencodeTool(e *opencodeEvent) {
	state := &e.Part.State
	end := r.now
	r.now = end.Add(-time.Duration(max(0, state.Time.End-state.Time.Start)) * time.Millisecond)
	r.call(e.Part.CallID, e.Part.Tool, state.Input)
	r.now = end
	r.result(e.Part.CallID, state.Output)
}

func (r *report) opencodeError(e *opencodeEvent) {
	r.Ended = true
	d := e.Error.Data
	words := cmp.Or(d.Message, e.Error.Name)
	t := failure{What: classify(d.Status, words+" "+d.Body), Words: words}
	switch e.Error.Name {
	case "ContextOverflowError":
		t.What = overflown
		r.overflows++
		r.Hopeless = r.overflows >= opencodeOverflows
	case "ProviderAuthError":
		t.What = signedOut
	case "ContentFilterError":
		t.What = refused
	}
	after := d.Headers["retry-after"]
	if seconds, err := strconv.ParseInt(after, 10, 32); err == nil && seconds > 0 {
		t.After = time.Duration(seconds) * time.Second
	} else if t.Until, err = http.ParseTime(after); err != nil {
		t.Until = resetTime(words+" "+d.Body, r.now)
	}
	r.fail(t)
}
