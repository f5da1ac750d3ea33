package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// asked is a supervisor that records its requests.
type asked struct {
	state   string
	answers map[string]string // by method and address; others get 404

	mu       sync.Mutex // guards requests
	requests []string
}

func newAsked(t *testing.T, answers map[string]string) *asked {
	t.Helper()
	a := &asked{state: t.TempDir(), answers: answers}
	l, err := net.Listen("unix", filepath.Join(a.state, "disinto.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: a}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return a
}

func (a *asked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	request := r.Method + " " + r.URL.RequestURI()
	a.mu.Lock()
	a.requests = append(a.requests, strings.TrimSpace(request+" "+string(body)))
	a.mu.Unlock()
	answer, ok := a.answers[request]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		answer = `{"error": "cannot find it: there is no such thing"}`
	}
	fmt.Fprint(w, answer)
}

// taken returns the requests since the last call.
func (a *asked) taken() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	requests := a.requests
	a.requests = nil
	return requests
}

// mcpClient connects a client of the SDK to disinto mcp in this process.
func mcpClient(t *testing.T, environ []string, args ...string) *mcp.ClientSession {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	var stderr bytes.Buffer
	c := testCLI(environ)
	c.stdin, c.stdout, c.stderr = in, out, &stderr
	ended := make(chan int, 1)
	go func() { ended <- c.run(context.Background(), append([]string{"mcp"}, args...)) }()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = session.Close()
		_ = toServer.Close()
		if code := <-ended; code != exitDone || stderr.Len() > 0 {
			t.Errorf("after the client closed: got exit code %d, stderr %q", code, stderr.String())
		}
	})
	return session
}

// said calls a tool and returns its text, its document and whether it failed.
func said(t *testing.T, s *mcp.ClientSession, tool string, args any) (text, document string, failed bool) {
	t.Helper()
	answer, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s %v: %v", tool, args, err)
	}
	for _, content := range answer.Content {
		text += content.(*mcp.TextContent).Text
	}
	if answer.StructuredContent != nil {
		raw, err := json.Marshal(answer.StructuredContent)
		if err != nil {
			t.Fatal(err)
		}
		document = string(raw)
	}
	return text, document, answer.IsError
}

type object = map[string]any

// mcpCalls has at least one call of each tool, with the request to the supervisor and its answer.
var mcpCalls = []struct {
	tool    string
	args    any
	asks    string
	answers string // a file of screen's testdata if it ends in .json
	text    string // a file of screen's testdata if it ends in .txt, else the first line
}{
	{"status", nil, "GET /v1/state", "status/busy.json", "status/busy-pipe.txt"},
	{"why", object{"name": "17"}, "GET /v1/why?ref=17", "why/cycle.json", "why/cycle-pipe.txt"},
	{
		"why",
		object{"name": "20", "at": "-2h"},
		"GET /v1/why?at=2026-11-03T10%3A00%3A00Z&ref=20",
		"why/past.json", "why/past-pipe.txt",
	},
	{"show", object{"ref": "12"}, "GET /v1/show?ref=12", "life/merged.json", "life/merged-pipe.txt"},
	{
		"history",
		object{"agent": "dev-qwen", "since": "7d"},
		"GET /v1/history?agent=dev-qwen&since=2026-10-27T12%3A00%3A00Z", "life/history.json", "life/history-pipe.txt",
	},
	{"convoy_status", object{}, "GET /v1/convoys", "convoys.json", "convoys-pipe.txt"},
	{"convoy_status", object{"ref": "#20"}, "GET /v1/convoys?ref=%2320", "convoys.json", "convoys-pipe.txt"},
	{
		"sling",
		object{"ref": "17"},
		`POST /v1/sling {"ref":"17"}`,
		`{"repo":"o/r","number":17,"agent":"dev-qwen","thread":"llama","slot":1}`, "dev-qwen is on it: o/r#17, slot llama/1",
	},
	{ // a queued issue is not a failure
		"sling",
		object{
			"title": "--json", "body": "a\nb", "repo": "o/r", "role": "dev", "skills": []string{"go", `a,"b`},
			"depends_on": []string{"12"},
		},
		`POST /v1/sling ` +
			`{"title":"--json","body":"a\nb","repo":"o/r","role":"dev","skills":["go","a,\"b"],"depends_on":["12"]}`,
		`{"repo":"o/r","number":18,"filed":true,"agent":null,"why":"blocked by #12"}`, "o/r#18: not yet: blocked by #12",
	},
	{
		"convoy_create",
		object{"title": "Mail", "members": []string{"12", "13"}, "chain": true, "staged": true, "repo": "o/r", "body": "x"},
		`POST /v1/convoy {"title":"Mail","body":"x","repo":"o/r","members":["12","13"],"chain":true,"staged":true}`,
		`{"subject":"o/r#20","did":["made the convoy"]}`, "o/r#20: made the convoy",
	},
	{
		"convoy_create",
		object{"plan": "# Mail\n\n## Read {#a}\n\n## Answer\nDepends on: a\n"},
		`POST /v1/convoy {"plan":{"title":"Mail","tasks":[{"id":"a","title":"Read"},` +
			`{"title":"Answer","depends_on":["a"]}]}}`,
		`{"subject":"o/r#20","did":["made the convoy"]}`, "o/r#20: made the convoy",
	},
	{
		"convoy_start",
		object{"ref": "20"},
		`POST /v1/convoy/start {"ref":"20"}`,
		`{"subject":"o/r#20","did":["took staged off"]}`, "o/r#20: took staged off",
	},
	{
		"convoy_cancel",
		object{"ref": "20", "drain": true, "close": true},
		`POST /v1/convoy/cancel {"ref":"20","drain":true,"close":true}`,
		`{"subject":"o/r#20","did":[],"pending":"closes when the forge answers"}`, "o/r#20: closes when the forge answers",
	},
	{
		"cancel",
		object{"ref": "o/r#17"},
		`POST /v1/cancel {"ref":"o/r#17"}`,
		`{"subject":"o/r#17","did":["ended the session"]}`, "o/r#17: ended the session",
	},
	{
		"retry",
		object{"ref": "17"},
		`POST /v1/retry {"ref":"17"}`, `{"subject":"o/r#17","did":["took blocked off"]}`,
		"o/r#17: took blocked off",
	},
}

// Each tool sends its command's request, and answers with the command's text and document.
func TestMCPTools(t *testing.T) {
	a := newAsked(t, map[string]string{})
	session := mcpClient(t, nil, "--state", a.state)
	var called []string
	for _, call := range mcpCalls {
		called = append(called, call.tool)
		if strings.HasSuffix(call.answers, ".json") {
			call.answers = readTestdata(t, call.answers)
		}
		address := strings.Join(strings.SplitN(call.asks, " ", 3)[:2], " ")
		a.answers = map[string]string{address: call.answers}
		text, document, failed := said(t, session, call.tool, call.args)
		if got := a.taken(); failed || len(got) != 1 || got[0] != call.asks {
			t.Errorf("%s %v: got request %q, want %q; failed %v: %s", call.tool, call.args, got, call.asks,
				failed, text)
		}
		if strings.HasSuffix(call.text, ".txt") {
			call.text = readTestdata(t, call.text)
		}
		if !strings.HasPrefix(text, call.text) {
			t.Errorf("%s: got\n%s\nwant\n%s", call.tool, text, call.text)
		}
		var got, want map[string]any
		if json.Unmarshal([]byte(document), &got) != nil || json.Unmarshal([]byte(call.answers), &want) != nil {
			t.Fatalf("%s: got document %q", call.tool, document)
		}
		for key, value := range want {
			if !cmp.Equal(got[key], value) {
				t.Errorf("%s: %s of the document (-want +got): %s", call.tool, key, cmp.Diff(value, got[key]))
			}
		}
	}
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	help := disinto(t.Context(), nil, "help", "mcp").stdout
	page, err := os.ReadFile("../../docs/control-room.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		if !slices.Contains(called, tool.Name) || !strings.Contains(help, tool.Name) ||
			!strings.Contains(string(page), "| `"+tool.Name+"`") {
			t.Errorf("the tool %s is missing in mcpCalls, in the help, or in docs/control-room.md", tool.Name)
		}
	}
	raw, err := json.MarshalIndent(list.Tools, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("testdata", "mcp-tools.json"), string(raw)+"\n")
}

// Hostile or invalid arguments are refused with one line and no request to the supervisor.
func TestMCPHostile(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret.toml")
	if err := os.WriteFile(secret, []byte("the token = hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := newAsked(t, nil)
	session := mcpClient(t, nil, "--state", a.state)
	const noIssue = "write 12, #12 or owner/name#12"
	long := 128 << 10
	if storms() {
		long = 1 << 20
	}
	for _, tt := range []struct {
		tool string
		args any
		want string
	}{
		{"show", object{"ref": "--help"}, noIssue},
		{"show", object{"ref": ""}, noIssue},
		{"cancel", object{"ref": "--address=http://127.0.0.1:1"}, noIssue},
		{"cancel", object{"ref": "12 13"}, noIssue},
		{"cancel", object{}, "missing properties: [\"ref\"]"},
		{"cancel", object{"ref": 12}, "has type \"integer\", want \"string\""},
		{"retry", object{"ref": "12", "state": "/"}, "unexpected additional properties"},
		{"sling", object{}, "give REF, or --title to create an issue"},
		{"sling", object{"ref": "12", "title": "x"}, "an existing issue is not edited"},
		{"history", object{"since": "--json"}, "--json"},
		{"convoy_create", object{"title": "x", "members": []string{secret}}, noIssue},
		{"convoy_create", object{"title": "x", "members": []string{"-"}}, noIssue},
		{"convoy_create", object{"title": "x"}, "give members or a plan"},
		{"convoy_create", object{"plan": "# x", "members": []string{"1"}}, "not both"},
		{"convoy_create", object{"plan": "# T\n" + strings.Repeat("word ", longestPlan/5)}, "it is longer than 8 MiB"},
		{"show", object{"ref": strings.Repeat("x", long)}, fmt.Sprintf("(truncated from %d KiB", long>>10)},
		{"show", object{"ref": "1", strings.Repeat("x", long): 1}, fmt.Sprintf("(truncated from %d KiB", long>>10)},
	} {
		if !storms() && strings.Contains(tt.want, "MiB") {
			continue // the SDK takes seconds to read it; TestPlanFromStdin checks the bound
		}
		text, document, failed := said(t, session, tt.tool, tt.args)
		if !failed || !strings.Contains(text, tt.want) || strings.Contains(text, "hush") || document != "" ||
			len(text) > longestAnswer+200 {
			t.Errorf("%s %.100v: got failed %v, %.300q", tt.tool, tt.args, failed, text)
		}
	}
	if got := a.taken(); got != nil {
		t.Errorf("got requests %q, want none", got)
	}
	// A name for why may be any text: it is data.
	text, _, failed := said(t, session, "why", object{"name": "--all\x1b[2J&x=1"})
	if got := a.taken(); !failed || len(got) != 1 || got[0] != "GET /v1/why?ref=--all%1B%5B2J%26x%3D1" {
		t.Errorf("why: got request %q; failed %v: %s", got, failed, text)
	}
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "run"}); err == nil {
		t.Error("calling an unknown tool: got no error")
	}
}

// A supervisor's answer is bounded, and has no control characters, when it reaches a model.
func TestMCPAnswers(t *testing.T) {
	long := strings.Repeat(`{"repo":"o/r","number":1,"why":"`+strings.Repeat("ü", 4000)+`"},`, 20)
	a := newAsked(t, map[string]string{
		"GET /v1/state":   `{"version":"v1","queue":[` + strings.TrimSuffix(long, ",") + `]}`,
		"GET /v1/convoys": `{"convoys": [{"repo":"o/r","number":20,"title":"a\u202eb` + "\u202e" + `\u001b[2J"}]}`,
	})
	session := mcpClient(t, nil, "--state", a.state)
	text, document, failed := said(t, session, "status", nil)
	if failed || document != "" || len(text) > longestAnswer+200 || !strings.Contains(text, "\n(truncated from ") {
		t.Errorf("long reasons: got failed %v, %d bytes of text, %d of the document", failed, len(text), len(document))
	}
	text, document, failed = said(t, session, "convoy_status", nil)
	if failed || strings.ContainsAny(text, "\u202e\x1b") || document == "" {
		t.Errorf("a hostile title: got failed %v, %q, %q", failed, text, document)
	}
}

// Without a supervisor each tool returns its command's error, and status also the last state.
func TestMCPAlone(t *testing.T) {
	state := t.TempDir()
	if err := os.WriteFile(filepath.Join(state, "status.json"), []byte(readTestdata(t, "status/busy.json")),
		0o600); err != nil {
		t.Fatal(err)
	}
	session := mcpClient(t, []string{"DISINTO_STATE_DIR=" + state})
	for _, tool := range []string{"status", "convoy_status"} {
		want := disinto(t.Context(), nil, append(strings.Split(tool, "_"), "--state", state)...)
		text, document, failed := said(t, session, tool, nil)
		if !failed || text != want.stdout+want.stderr || document != "" {
			t.Errorf("%s: got failed %v, %q, want %q", tool, failed, text, want.stdout+want.stderr)
		}
	}
	for _, environ := range [][]string{{"DISINTO_ADDRESS=:"}, {"DISINTO_ADDRESS=http://127.0.0.1:1"}} {
		if got := disinto(t.Context(), environ, "mcp"); got.code != exitUsage || got.stdout != "" {
			t.Errorf("%v: got %+v", environ, got)
		}
	}
}

// The tools call the supervisor at the given address, with the token that the MCP server was started with.
func TestMCPAddress(t *testing.T) {
	const token = "a-token-of-16-letters"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprint(w, `{"convoys": []}`)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, session := range []*mcp.ClientSession{
		mcpClient(t, nil, "--address", server.URL, "--token-file", file),
		mcpClient(t, []string{"DISINTO_ADDRESS=" + server.URL, "DISINTO_TOKEN=" + token}),
	} {
		if text, _, failed := said(t, session, "convoy_status", nil); failed || text != "no open convoys\n" {
			t.Errorf("got failed %v, %q", failed, text)
		}
	}
	session := mcpClient(t, []string{"DISINTO_TOKEN=another-token-than-that"}, "--address", server.URL)
	if text, _, failed := said(t, session, "convoy_status", nil); !failed || strings.Contains(text, "another") {
		t.Errorf("with another token: got failed %v, %q", failed, text)
	}
}

// startMCP starts the built program as an MCP server, and a client on its stdin and stdout.
func startMCP(t *testing.T, state string) (r *running, session *mcp.ClientSession) {
	t.Helper()
	stdin, toServer := pipe(t)
	fromServer, stdout := pipe(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r = startWith(t, stdin, stdout, nil, self, "mcp", "--state", state)
	_, _ = stdin.Close(), stdout.Close()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err = client.Connect(t.Context(), &mcp.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r, session
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// The program answers over pipes. It ends without output when the client closes or sends TERM.
func TestMCPProgram(t *testing.T) {
	a := newAsked(t, map[string]string{"GET /v1/convoys": `{"convoys": []}`})
	for name, end := range map[string]func(*running, *mcp.ClientSession){
		"closed": func(_ *running, s *mcp.ClientSession) { _ = s.Close() },
		"TERM":   func(r *running, _ *mcp.ClientSession) { r.signal(syscall.SIGTERM) },
	} {
		r, session := startMCP(t, a.state)
		if text, _, failed := said(t, session, "convoy_status", nil); failed || text != "no open convoys\n" {
			t.Errorf("%s: got failed %v, %q", name, failed, text)
		}
		end(r, session)
		if code := r.wait(); code != exitDone || r.read(r.stderr) != "" {
			t.Errorf("%s: got exit code %d, stderr %q", name, code, r.read(r.stderr))
		}
	}
}

// A line that is not a message gets an error as its answer, and the session continues.
func TestMCPGoesOn(t *testing.T) {
	stdin, toServer := pipe(t)
	fromServer, stdout := pipe(t)
	r := startWith(t, stdin, stdout, nil, executable(t), "mcp", "--state", t.TempDir())
	_, _ = stdin.Close(), stdout.Close()
	answers := bufio.NewScanner(fromServer)
	ask := func(line string, want ...string) {
		t.Helper()
		if _, err := io.WriteString(toServer, line+"\n"); err != nil || !answers.Scan() {
			t.Fatalf("sending %q: %v, %v", line, err, answers.Err())
		}
		for _, w := range want {
			if !strings.Contains(answers.Text(), w) {
				t.Errorf("%.100q: got %s, want %s", line, answers.Text(), w)
			}
		}
	}
	const parse, invalid = `"code":-32700`, `"code":-32600`
	ask("Welcome to the machine\r", parse, `"id":null`, `"jsonrpc":"2.0"`)
	ask(`{"jsonrpc":"2.0","id":1,`, parse)
	ask(strings.Repeat("x", 100_000), parse)
	ask("\n5", invalid)
	ask(`{"id":1}`, invalid)
	ask(`[]`, invalid)
	ask(`[{"jsonrpc":"2.0","id":1,"method":"ping"},5]`, invalid)
	ask(`{"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},`+
		`"clientInfo":{"name":"t","version":"1"}}}`, `"id":2`, `"serverInfo"`)
	ask("noise", parse)
	ask(`[{"jsonrpc":"2.0","id":3,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"},`+
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}},`+
		`{"jsonrpc":"2.0","id":4,"method":"nothing"}]`, `[{`, `"id":3`, `"id":4`, `"error":{`, `}]`)
	ask(`[{"jsonrpc":"2.0","id":5,"method":"ping"},{"jsonrpc":"2.0","id":5,"method":"ping"}]`, invalid)
	ask(`[{"jsonrpc":"2.0","id":5,"method":"ping"}]`, `[{`, `"id":5`, `"result":{}`, `}]`)
	ask(`{"jsonrpc":"2.0","id":3,"method":"ping"}`, `{"jsonrpc":"2.0","id":3,"result":{}}`)
	_ = toServer.Close()
	if code := r.wait(); code != exitDone || r.read(r.stderr) != "" {
		t.Errorf("got exit code %d, stderr %q", code, r.read(r.stderr))
	}
}

// A line that does not end, or is longer than any message, ends the program with a one-line error.
func TestMCPNoise(t *testing.T) {
	for name, noise := range map[string]io.Reader{
		"long":    io.MultiReader(strings.NewReader(`{"a":"`), &endless{left: longestMessage}, strings.NewReader("\"}\n")),
		"endless": io.MultiReader(strings.NewReader(`{"jsonrpc":"2.0","method":"`), &endless{left: 64 << 20}),
	} {
		if name == "long" && !storms() {
			continue
		}
		var stderr bytes.Buffer
		c := testCLI(nil)
		c.stdin, c.stderr = noise, &stderr
		code := c.run(t.Context(), []string{"mcp", "--state", t.TempDir()})
		if said := stderr.String(); code != exitFailed || strings.Count(said, "\n") != 1 ||
			!strings.HasPrefix(said, "disinto: cannot continue with the MCP client: ") {
			t.Errorf("%s: got exit code %d, stderr %q", name, code, said)
		}
		if e, ok := noise.(*endless); ok && e.left < 32<<20 {
			t.Errorf("%s: only %d bytes were left unread", name, e.left)
		}
	}
}

var letters = bytes.Repeat([]byte("x"), 64<<10)

// endless reads as left letters.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	n := copy(p, letters)
	e.left -= n
	return n, nil
}

// Requests that were read before stdin closed are answered: the factory carries them out in any case.
func TestMCPLastAnswers(t *testing.T) {
	a := newAsked(t, map[string]string{"GET /v1/convoys": `{"convoys": []}`})
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
		`"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
	requests := hello
	for id := 2; id < 12; id++ {
		requests += fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"convoy_status"}}`, id) + "\n"
	}
	var stdout, stderr bytes.Buffer
	c := testCLI(nil)
	c.stdin, c.stdout, c.stderr = strings.NewReader(strings.TrimSpace(requests)), &stdout, &stderr
	code := c.run(t.Context(), []string{"mcp", "--state", a.state})
	if code != exitDone || stderr.Len() > 0 {
		t.Errorf("got exit code %d, stderr %q", code, stderr.String())
	}
	if n := strings.Count(stdout.String(), `no open convoys`); n != 10 {
		t.Errorf("got %d answers, want 10:\n%s", n, stdout.String())
	}
}

// The end of the input waits for answers and for nothing else, and not for ever.
func TestOpenRequests(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for name, x := range map[string]struct {
		read, wrote []string
		waits       time.Duration
	}{
		"none":      {waits: 0},
		"open":      {read: []string{ping}, wrote: []string{`{"jsonrpc":"2.0","id":2,"result":{}}`}, waits: lastAnswers},
		"answered":  {read: []string{ping}, wrote: []string{`{"jsonrpc":"2.0","id":1,"result":{}}`}},
		"refused":   {read: []string{ping}, wrote: []string{`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}`}},
		"batch":     {read: []string{"[" + ping + "]"}, wrote: []string{`[{"jsonrpc":"2.0","id":1,"result":{}}]`}},
		"cancelled": {read: []string{ping, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, began := new(openRequests), time.Now()
				for _, line := range x.read {
					if _, fault := o.read([]byte(line)); fault != nil {
						t.Fatal(fault)
					}
				}
				go func() {
					for _, line := range x.wrote {
						o.wrote([]byte(line))
					}
				}()
				o.wait(t.Context())
				if got := time.Since(began); got != x.waits {
					t.Errorf("waited %s, want %s", got, x.waits)
				}
			})
		})
	}
}
