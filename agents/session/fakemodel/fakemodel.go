// Package fakemodel is a model whose answers a test chooses, behind the three APIs that agent CLIs use: Anthropic's
// messages, OpenAI's chat completions and OpenAI's responses. Real CLIs run against it on loopback.
package fakemodel

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
)

// Prompt is one request of a CLI.
type Prompt struct {
	API    string // messages, completions or responses
	Model  string
	Text   string // the whole conversation: prompts and results of tools
	Answer bool   // the conversation ends with a tool's result
	Tools  bool   // the CLI offers a shell; without one this is a side request, such as for a title
}

// Turn is one answer of the model. With a nonzero Status it is a server error.
type Turn struct {
	Text  string
	Shell string // a command to run with the shell tool that the CLI offers
	// Tool is a tool that the CLI offers, by its whole name or, for a tool of an MCP server, without the server's. Input
	// holds its arguments.
	Tool  string
	Input map[string]any

	Refuse bool // the model refuses, in the words of Text
	Cut    bool // the stream ends in the middle of the answer

	Status  int
	Type    string // type of the error in Anthropic's terms
	Headers map[string]string
}

// Model is an http.Handler. Its exported fields must not change once it serves.
type Model struct {
	// Answer chooses the answer. It is called from several goroutines at the same time.
	Answer func(Prompt) Turn
	// Context is the context length that /props reports, in tokens; 0 disables /props.
	Context int

	mu      sync.Mutex // guards the fields below
	prompts []Prompt
	auth    []string
}

// Prompts returns all requests for an answer so far. It is safe for concurrent use.
func (m *Model) Prompts() []Prompt {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Prompt(nil), m.prompts...)
}

// Keys returns the credentials of those requests, in order. It is safe for concurrent use.
func (m *Model) Keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.auth...)
}

// ServeHTTP answers a request in its API's format.
func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path := strings.TrimSuffix(r.URL.Path, "/"); {
	case path == "/props" && m.Context > 0:
		fmt.Fprintf(w, `{"total_slots":1,"default_generation_settings":{"n_ctx":%d}}`, m.Context)
	case path == "/v1/models":
		io.WriteString(w, `{"object":"list","data":[{"id":"fake-model","object":"model"}]}`)
	case strings.HasSuffix(path, "/count_tokens"):
		io.WriteString(w, `{"input_tokens":100}`)
	case r.Method == http.MethodPost && path == "/v1/messages":
		m.answer(w, r, "messages", writeMessages)
	case r.Method == http.MethodPost && path == "/v1/chat/completions":
		m.answer(w, r, "completions", writeCompletions)
	case r.Method == http.MethodPost && path == "/v1/responses":
		m.answer(w, r, "responses", writeResponses)
	default:
		http.NotFound(w, r)
	}
}

// request is the union of the three APIs' requests.
type request struct {
	Model    string          `json:"model"`
	Messages []message       `json:"messages"`
	Input    json.RawMessage `json:"input"`
	Tools    []offer         `json:"tools"`
}

// offer is a tool that a CLI offers, or a namespace of tools.
type offer struct {
	Name     string `json:"name"`
	Function struct {
		Name string `json:"name"`
	} `json:"function"`
	Tools []offer `json:"tools"`
}

type message struct {
	Role    string          `json:"role"`
	Type    string          `json:"type"`
	Content json.RawMessage `json:"content"`
	Output  json.RawMessage `json:"output"`
}

// shells are the CLIs' shell tools, with functions that build their arguments.
var shells = map[string]func(command string) map[string]any{
	"Bash": func(c string) map[string]any { return map[string]any{"command": c, "description": "work"} },
	"bash": func(c string) map[string]any { return map[string]any{"command": c, "description": "work"} },
	"run_shell_command": func(c string) map[string]any {
		return map[string]any{"command": c, "description": "work", "is_background": false}
	},
	"exec_command":  func(c string) map[string]any { return map[string]any{"cmd": c} },
	"shell_command": func(c string) map[string]any { return map[string]any{"command": c} },
	"shell":         func(c string) map[string]any { return map[string]any{"command": []string{"sh", "-c", c}} },
}

// stream writes one turn in an API's format. use is nil for a text turn.
type stream func(out *events, model string, t Turn, use *use)

// use is a tool call.
type use struct{ namespace, name, arguments string }

// uses returns the tool call of a turn; nil if the turn has none, or the CLI does not offer the tool.
func (q *request) uses(t Turn, shell string) *use {
	switch {
	case t.Shell != "":
		return &use{name: shell, arguments: arguments(shells[shell](t.Shell))}
	case t.Tool == "":
		return nil
	}
	for _, o := range q.Tools {
		if name := o.Name + o.Function.Name; name == t.Tool || strings.HasSuffix(name, "__"+t.Tool) {
			return &use{name: o.Name + o.Function.Name, arguments: arguments(t.Input)}
		}
		for _, member := range o.Tools {
			if member.Name == t.Tool {
				return &use{o.Name, member.Name, arguments(t.Input)}
			}
		}
	}
	return nil
}

func arguments(input map[string]any) string {
	if input == nil {
		input = object{}
	}
	text, _ := json.Marshal(input)
	return string(text)
}

func (m *Model) answer(w http.ResponseWriter, r *http.Request, api string, write stream) {
	var req request
	body, err := io.ReadAll(io.LimitReader(r.Body, 32<<20))
	if err == nil {
		err = json.Unmarshal(body, &req)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ask, tool := req.prompt(api)
	m.mu.Lock()
	m.prompts = append(m.prompts, ask)
	m.auth = append(m.auth, r.Header.Get("Authorization")+r.Header.Get("X-Api-Key"))
	m.mu.Unlock()
	t := Turn{Text: "A side question."}
	if ask.Tools {
		t = m.Answer(ask)
	}
	for name, value := range t.Headers {
		w.Header().Set(name, value)
	}
	if t.Status != 0 {
		refuse(w, t)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := &events{w: w}
	if out.left = -1; t.Cut {
		out.left = 1
	}
	write(out, req.Model, t, req.uses(t, tool))
	if t.Cut { // close the connection, without the end of the stream
		panic(http.ErrAbortHandler)
	}
}

func (q *request) prompt(api string) (a Prompt, tool string) {
	a = Prompt{API: api, Model: q.Model}
	for _, t := range q.Tools {
		name := t.Name + t.Function.Name
		if shells[name] != nil {
			a.Tools, tool = true, name
		}
	}
	messages := q.Messages
	if len(q.Input) > 0 {
		_ = json.Unmarshal(q.Input, &messages)
	}
	var text strings.Builder
	for _, m := range messages {
		said := string(m.Content) + string(m.Output)
		text.WriteString(unescaped(said) + "\n")
		switch {
		case m.Role == "tool", strings.HasSuffix(m.Type, "_output"), strings.Contains(string(m.Content), `"tool_result"`):
			a.Answer = true
		case m.Role == "user":
			a.Answer = false
		}
	}
	a.Text = text.String()
	return a, tool
}

// unescaped decodes the JSON escapes that matter to tests.
func unescaped(s string) string {
	return strings.NewReplacer(`\n`, "\n", `\"`, `"`, `\\`, `\`).Replace(s)
}

func refuse(w http.ResponseWriter, t Turn) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(t.Status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"type": "error", "error": map[string]any{"type": t.Type, "message": t.Text, "code": t.Type},
	})
}

// events writes server-sent events.
type events struct {
	w    http.ResponseWriter
	left int // how many more are written; negative means all
}

func (e *events) send(name string, data any) {
	if e.left == 0 {
		return
	}
	e.left--
	text, _ := json.Marshal(data)
	if name != "" {
		fmt.Fprintf(e.w, "event: %s\n", name)
	}
	fmt.Fprintf(e.w, "data: %s\n\n", text)
	if f, ok := e.w.(http.Flusher); ok {
		f.Flush()
	}
}

// typed sends an event with its name as its type.
func (e *events) typed(name string, more map[string]any) {
	data := map[string]any{"type": name}
	maps.Copy(data, more)
	e.send(name, data)
}

type object = map[string]any

// Usage of every answer, in tokens.
const (
	inputTokens  = 100
	cachedTokens = 40 // of the input
	outputTokens = 7
)
