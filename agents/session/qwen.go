package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

func init() { adapters["qwen"] = qwen{} }

// qwen is Qwen Code, as recorded in testdata/qwen. Its events resemble claude's.
type qwen struct{}

func (qwen) command(c *call) (argv, env []string) {
	auth := "openai"
	has := func(key string) bool { return agents.Getenv(c.environ, key) != "" }
	if !c.Local && !has("OPENAI_API_KEY") && has("ANTHROPIC_API_KEY") {
		auth = "anthropic"
	}
	argv = []string{"qwen", "--auth-type", auth, "-o", "stream-json", "--yolo"}
	if c.Resume {
		argv = append(argv, "--resume", c.Session)
	} else {
		argv = append(argv, "--session-id", c.Session)
	}
	if c.Model != "" {
		argv = append(argv, "--model", c.Model)
	}
	if c.Tree != "" { // otherwise its tools cannot read the checkout
		argv = append(argv, "--include-directories", c.Tree)
	}
	switch {
	case c.BaseURL != "" && auth == "anthropic":
		env = append(env, "ANTHROPIC_BASE_URL="+c.host())
	case c.BaseURL != "":
		env = append(env, "OPENAI_BASE_URL="+c.v1())
	}
	if c.Local {
		// Without --bare, qwen asks the model after every run what to remember. That prompt evicts the slot's cache.
		argv = append(argv, "--bare")
		env = append(env, "OPENAI_API_KEY="+dummyKey)
	}
	return argv, env
}

func (qwen) credentials() (vars, files []string) {
	return []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY"}, []string{".qwen/oauth_creds.json"}
}

type qwenEvent struct {
	Type, Subtype string
	SessionID     string `json:"session_id"`
	Message       struct {
		ID      string
		Content json.RawMessage
		Usage   qwenUsage
	}
	Data struct {
		Attempt int
		Max     int   `json:"maxRetries"`
		Delay   int64 `json:"delayMs"`
	}
	IsError bool `json:"is_error"`
	Result  string
	Error   struct{ Message string }
	Usage   *qwenUsage
}

// qwenUsage counts the cached tokens in Input.
type qwenUsage struct {
	Input  int64  `json:"input_tokens"`
	Read   *int64 `json:"cache_read_input_tokens"`
	Output int64  `json:"output_tokens"`
}

func (u *qwenUsage) usage() agents.Usage {
	return usageOf(without(u.Input, u.Read), u.Read, u.Output)
}

// qwenPatience is the shortest pause before a retry for which a session is ended: after a 429 or a 503 qwen waits 60 s,
// up to ten times, and holds the slot meanwhile.
const qwenPatience = 30 * time.Second

func (qwen) read(line []byte, r *report) bool {
	var e qwenEvent
	if json.Unmarshal(line, &e) != nil || e.Type == "" {
		return false
	}
	r.Session = cmp.Or(e.SessionID, r.Session)
	switch {
	case e.Type == "system" && e.Subtype == "retry":
		delay := time.Duration(e.Data.Delay) * time.Millisecond
		r.Note = fmt.Sprintf("the backend does not answer well, try %d of %d in %s", e.Data.Attempt, e.Data.Max, delay)
		if delay >= qwenPatience {
			r.fail(failure{What: limited, Words: fmt.Sprintf("it would wait %s before it tries again", delay), After: delay})
			r.Hopeless = true
		}
	case e.Type == "assistant":
		r.answer(e.Message.Content)
		if !strings.HasPrefix(r.Words, "[API Error:") { // which qwen writes itself
			r.Answered = true
			r.count(e.Message.ID, e.Message.Usage.usage())
		}
	case e.Type == "user":
		r.results(e.Message.Content)
	case e.Type == "result":
		r.Ended = true
		if u := e.Usage; u != nil {
			r.Usage, r.TotalTokens = u.usage(), true // covers the whole conversation
		}
		if e.IsError {
			words := strings.Trim(cmp.Or(e.Error.Message, e.Result), "[]")
			r.fail(failure{What: classify(0, words), Words: words})
		}
	}
	return true
}

// diary matches qwen's own record of a conversation. It has the backend's answer, which the event of a long pause does
// not tell: a 503 is no usage limit.
func (qwen) diary(environ []string, r *report) string {
	if r.What != limited || !r.Hopeless {
		return ""
	}
	return filepath.Join(agents.Getenv(environ, "HOME"), ".qwen", "projects", "*", "chats", r.Session+".jsonl")
}

func (qwen) readDiary(line []byte, r *report, _ agents.Usage) {
	var e struct {
		Payload struct {
			Event struct {
				Name   string `json:"event.name"`
				Words  string `json:"error_message"`
				Status int    `json:"status_code"`
			} `json:"uiEvent"`
		} `json:"systemPayload"`
	}
	if json.Unmarshal(line, &e) != nil || e.Payload.Event.Name != "qwen-code.api_error" || e.Payload.Event.Status == 0 {
		return
	}
	t := &e.Payload.Event
	r.failure = failure{What: classify(t.Status, t.Words), Words: firstWords(t.Words), After: r.After}
}
