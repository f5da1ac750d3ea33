package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"codeberg.org/johba/disinto/agents"
)

// acp is the adapter of an agent that speaks version 1 of the Agent Client Protocol: JSON-RPC on its stdin and stdout,
// a message a line. Both sides send requests, and each numbers its own, so a message's method tells a request from an
// answer, and not its id. Its state is that of one run.
type acp struct {
	argv []string
	dir  string

	session string // id of the conversation; empty for a new one
	kept    bool   // the agent can go on with the conversation in another process
	prompt  string
	spent   float64 // what the conversation cost before the run, in dollars

	id     int
	method string // our request that waits for its answer; empty when nothing is left to ask
	out    []byte // what the agent has not been told yet

	// live is false while what the agent says may be history: gemini repeats it after its answer to session/load.
	live  bool
	text  []byte // the model's words that are being written
	calls []acpCall
}

// acpCall is a call of a tool. Agents tell about it in parts.
type acpCall struct {
	id, title, kind string
	input           []byte // nil while it is not known
	words           string // the last line for the log
}

// The methods that we use of the protocol, and two errors that it has.
const (
	acpInitialize = "initialize"
	acpNew        = "session/new"
	acpLoad       = "session/load"   // repeats the history
	acpResume     = "session/resume" // does not
	acpPrompt     = "session/prompt"
	acpUpdate     = "session/update"
	acpPermission = "session/request_permission"

	acpSignIn   = -32000
	acpNoMethod = -32601
)

// acpIDMost bounds the ids that are sent back to an agent, in bytes.
const acpIDMost = 1 << 10

// command sets the variables that common agents read. Most have a configuration of their own instead.
func (a *acp) command(c *call) (argv, vars []string) {
	vars = slices.Concat(c.unlessSet(c.v1(), "OPENAI_BASE_URL"), c.unlessSet(c.host(), "ANTHROPIC_BASE_URL"),
		c.unlessSet(c.Model, "OPENAI_MODEL", "ANTHROPIC_MODEL"))
	if c.Local {
		vars = append(vars, c.unlessSet(dummyKey, "OPENAI_API_KEY")...)
	}
	return a.argv, vars
}

func (*acp) credentials() (vars, files []string) { return nil, nil }

func (a *acp) begin(c *call, dir, prompt string, before agents.Usage) {
	if !c.Resume {
		c.Session = "" // the agent chooses it
	}
	*a = acp{argv: a.argv, dir: dir, session: c.Session, prompt: prompt, spent: before.CostUSD}
	a.ask(acpInitialize, map[string]any{"protocolVersion": 1, "clientCapabilities": struct{}{}})
}

func (a *acp) say() (text []byte, at stage) {
	text, a.out = a.out, nil
	switch a.method {
	case "":
		return text, saidAll
	case acpPrompt:
		return text, prompted
	}
	return text, starting
}

// ask sends a request.
func (a *acp) ask(method string, params map[string]any) {
	a.id++
	a.method = method
	a.send(map[string]any{"id": a.id, "method": method, "params": params})
}

func (a *acp) send(message map[string]any) {
	message["jsonrpc"] = "2.0"
	text, _ := json.Marshal(message)
	a.out = append(append(a.out, text...), '\n')
}

type acpMessage struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *acpError
}

type acpError struct {
	Code    int
	Message string
	Data    json.RawMessage
}

func (a *acp) read(line []byte, r *report) bool {
	var m acpMessage
	if json.Unmarshal(line, &m) != nil || m.Method == "" && m.ID == nil {
		return false
	}
	asks := m.Method != "" && m.ID != nil && string(m.ID) != "null" && len(m.ID) <= acpIDMost
	switch {
	case m.Method == acpUpdate:
		a.update(&m, r)
	case asks && m.Method == acpPermission:
		a.permit(&m, r)
	case asks: // files and terminals are the agent's own business, in its sandbox
		no := map[string]any{"code": acpNoMethod, "message": "Method not found"}
		a.send(map[string]any{"id": m.ID, "error": no})
	case m.Method == "" && a.method != "" && string(m.ID) == strconv.Itoa(a.id):
		a.answered(&m, r)
	}
	return true
}

// permit allows what the agent asks for, once. Its sandbox is the limit, as for other CLIs.
func (a *acp) permit(m *acpMessage, r *report) {
	var p struct {
		ToolCall acpTold
		Options  []struct{ OptionID, Kind string }
	}
	_ = json.Unmarshal(m.Params, &p) // without options it is cancelled
	outcome := map[string]any{"outcome": "cancelled"}
	for _, kind := range []string{"allow_always", "allow_once"} {
		for _, o := range slices.Backward(p.Options) {
			if o.Kind == kind && len(o.OptionID) <= acpIDMost {
				outcome = map[string]any{"outcome": "selected", "optionId": o.OptionID}
			}
		}
	}
	a.send(map[string]any{"id": m.ID, "result": map[string]any{"outcome": outcome}})
	if a.method == acpPrompt {
		a.flush(r)
		p.ToolCall.Status = acpRuns
		a.tool(&p.ToolCall, r)
	}
}

// answered processes the answer to our request.
func (a *acp) answered(m *acpMessage, r *report) {
	was := a.method
	a.method = ""
	a.flush(r)
	var res acpResult
	switch {
	case m.Error != nil:
		a.refused(was, m.Error, r)
		return
	case json.Unmarshal(m.Result, &res) != nil:
		a.fails(r, broken, "its answer to "+was+" cannot be read: "+string(m.Result))
		return
	}
	switch was {
	case acpInitialize:
		a.open(&res, r)
	case acpNew:
		if a.session = res.SessionID; a.kept {
			r.Session = a.session
		}
		a.converse(true)
	case acpLoad, acpResume:
		r.Session = a.session
		a.converse(was == acpResume)
	case acpPrompt:
		r.Answered = r.Answered || !a.live
		a.stopped(res.StopReason, r)
	}
}

// acpResult has the fields of all answers.
type acpResult struct {
	Version int `json:"protocolVersion"`
	Can     struct {
		Load    bool                             `json:"loadSession"`
		Session struct{ Resume json.RawMessage } `json:"sessionCapabilities"`
	} `json:"agentCapabilities"`
	SessionID, StopReason string
}

// open starts a conversation, or goes on with one. Without the history that session/load repeats it goes on sooner.
func (a *acp) open(res *acpResult, r *report) {
	resumes := res.Can.Session.Resume != nil && string(res.Can.Session.Resume) != "null"
	a.kept = resumes || res.Can.Load
	params := map[string]any{"cwd": a.dir, "mcpServers": []string{}}
	if a.session != "" {
		params["sessionId"] = a.session
	}
	switch {
	case res.Version != 1:
		a.fails(r, unusable, fmt.Sprintf("it speaks version %d of the Agent Client Protocol, want 1", res.Version))
	case a.session == "":
		a.ask(acpNew, params)
	case resumes:
		a.ask(acpResume, params)
	case res.Can.Load:
		a.ask(acpLoad, params)
	default:
		a.fails(r, forgotten, "it continues no conversations")
	}
}

func (a *acp) converse(live bool) {
	a.live = live
	text := []map[string]string{{"type": "text", "text": a.prompt}}
	a.ask(acpPrompt, map[string]any{"sessionId": a.session, "prompt": text})
}

// fails records the end of a run without success.
func (*acp) fails(r *report, what class, words string) {
	r.Ended = true
	r.fail(failure{What: what, Words: words})
}

// refused processes an error as the answer to our request. Agents have no common error for an unknown conversation. The
// code of some errors is the HTTP status of the backend's answer.
func (a *acp) refused(was string, e *acpError, r *report) {
	var data struct{ Details, Message string }
	words := e.Message
	if json.Unmarshal(e.Data, &data) == nil {
		words += prefixed(": ", cmp.Or(data.Details, data.Message))
	} else if len(e.Data) > 0 {
		words += ": " + string(e.Data)
	}
	what := classify(0, words)
	if e.Code >= 400 && e.Code < 600 {
		what = classify(e.Code, words)
	}
	switch {
	case e.Code == acpSignIn:
		what = signedOut
	case was == acpLoad || was == acpResume:
		what = forgotten
	}
	a.fails(r, what, words)
}

// stopped processes why a turn ended.
func (a *acp) stopped(reason string, r *report) {
	switch r.Ended = true; reason {
	case "end_turn":
	case "refusal":
		a.fails(r, refused, "the model refused: "+r.Words)
	default: // max_tokens, max_turn_requests, cancelled
		a.fails(r, broken, "it stopped in the middle of its work: "+reason)
	}
}

// acpTold is what an agent tells: words of the model, a part of a call of a tool, or what the conversation costs.
type acpTold struct {
	Kind    string `json:"sessionUpdate"`
	Content json.RawMessage

	ID     string `json:"toolCallId"`
	Title  string
	Tool   string `json:"kind"`
	Status string
	Input  json.RawMessage `json:"rawInput"`
	Output json.RawMessage `json:"rawOutput"`

	Cost struct {
		Amount   float64 // of the whole conversation
		Currency string
	}
}

func (a *acp) update(m *acpMessage, r *report) {
	var p struct {
		SessionID string
		Update    acpTold
	}
	if a.method != acpPrompt || json.Unmarshal(m.Params, &p) != nil || p.SessionID != a.session {
		return
	}
	u := &p.Update
	if u.Kind == "agent_message_chunk" {
		var part struct{ Text string }
		if json.Unmarshal(u.Content, &part) == nil && part.Text != "" && len(a.text) < maxLeft {
			a.text = append(a.text, part.Text...)
			r.Answered = r.Answered || a.live
		}
		return
	}
	if u.Kind == "user_message_chunk" { // the words before it are history
		a.text = nil
	}
	a.flush(r)
	switch u.Kind {
	case "agent_thought_chunk":
		r.Answered = r.Answered || a.live
	case "tool_call":
		u.Status = cmp.Or(u.Status, acpPending)
		a.tool(u, r)
	case "tool_call_update":
		a.tool(u, r)
	case "usage_update":
		if u.Cost.Currency == "USD" && u.Cost.Amount > 0 {
			// An agent that forgot what the conversation cost before it was resumed counts from 0.
			r.Usage.CostUSD, r.TotalCost = u.Cost.Amount, u.Cost.Amount >= a.spent
		}
	}
}

// flush ends the words that the model was writing.
func (a *acp) flush(r *report) {
	if len(a.text) > 0 {
		r.Words = string(a.text)
		r.Note, a.text = firstWords(r.Words), nil
	}
}

// The states of a call of a tool. A call in a history has ended.
const (
	acpPending = "pending"
	acpRuns    = "in_progress"
	acpDone    = "completed"
	acpFailed  = "failed"
)

// tool processes what an agent tells about a call of a tool. Its first word may come without the input, or be its last.
func (a *acp) tool(u *acpTold, r *report) {
	begins, ends := u.Status == acpPending || u.Status == acpRuns, u.Status == acpDone || u.Status == acpFailed
	i := slices.IndexFunc(a.calls, func(c acpCall) bool { return c.id == u.ID })
	switch a.live = a.live || begins; {
	case !a.live || i < 0 && !begins && !ends || u.ID == "" || len(u.ID) > acpIDMost:
		return
	case i < 0:
		a.calls = append(last(a.calls, openMost-1), acpCall{id: u.ID})
		i = len(a.calls) - 1
	}
	c := &a.calls[i]
	c.title = cmp.Or(firstWords(u.Title), c.title)
	if u.Tool != "other" { // opencode asks so for what it called execute before
		c.kind = cmp.Or(firstWords(u.Tool), c.kind)
	}
	var args map[string]json.RawMessage
	if json.Unmarshal(u.Input, &args) == nil && len(args) > 0 {
		c.input = u.Input
	}
	r.Answered = true
	// A call whose input is not known counts as a new one.
	tool, input := cmp.Or(c.title, c.kind, "tool"), []byte(strconv.Quote(c.id))
	if c.input != nil {
		tool, input = cmp.Or(c.kind, "tool"), c.input
	}
	words := r.Note
	r.call(c.id, tool, input)
	if u.Status == acpPending || r.Note == c.words {
		r.Note = words
	} else {
		c.words = r.Note
	}
	if ends {
		r.result(c.id, slices.Concat(u.Content, u.Output))
		a.calls = slices.Delete(a.calls, i, i+1)
	}
}
