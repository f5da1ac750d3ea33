package nomad

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// fake is a Nomad of two nodes that runs session-run as real processes of this machine. It has the traps that were
// measured on a real one: a stopped job is dead at once while its process goes on; an allocation that was stopped is
// complete; one whose node is not heard of is lost, and runs a second time; folders of ended allocations are collected;
// no flag tells that memory ran out; a job that fits nowhere waits for ever; a purged job lists no allocation, although
// they run on; and registering answers with an error for a job that is there.
type fake struct {
	t      *testing.T
	server *httptest.Server
	dir    string

	mu       sync.Mutex // guards what follows
	index    uint64
	changed  chan struct{} // closed at each change
	jobs     map[string]*fakeJob
	vars     map[string]map[string]string
	nodes    []*fakeNode
	allocs   []*fakeAlloc
	serial   int
	down     bool     // no answer to anything
	denied   bool     // writing is forbidden
	full     bool     // no node has room for one more
	requests []string // bodies of all requests but those of variables
}

type fakeJob struct {
	id      string
	text    map[string]any
	index   uint64
	stopped bool
	blocked map[string]int // constraints that no node satisfies
}

type fakeNode struct {
	id, name, volume string
	meta             map[string]string
	heard            bool
}

type fakeAlloc struct {
	id, job         string
	node            *fakeNode
	index           uint64
	client, desired string // as the server shows them
	events          []taskEvent
	really          string // as the node would say it
	truly           []taskEvent
	dir             string
	process         *os.Process
}

// newFake starts a fake of the nodes box1 and box2, of which each has the meta llama with its name.
func newFake(t *testing.T) *fake {
	t.Helper()
	dir, err := os.MkdirTemp("", "nomad-")
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Chmod(dir, 0o755)
	f := &fake{
		t: t, dir: dir, index: 10, changed: make(chan struct{}),
		jobs: map[string]*fakeJob{}, vars: map[string]map[string]string{},
	}
	for _, name := range []string{"box1", "box2"} {
		f.nodes = append(f.nodes, &fakeNode{
			id: "id-of-" + name, name: name, volume: filepath.Join(dir, name), meta: map[string]string{"llama": name}, heard: true,
		})
	}
	f.server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(func() {
		f.setDown(true) // or a session that a failed test left would keep the server from closing
		f.killAll()
		f.server.Close()
		_ = os.RemoveAll(dir)
	})
	return f
}

func (f *fake) killAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.allocs {
		if a.process != nil {
			_ = a.process.Kill()
		}
	}
}

// bump says that something changed. The mutex is held.
func (f *fake) bump() uint64 {
	f.index++
	close(f.changed)
	f.changed = make(chan struct{})
	return f.index
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	down := f.down
	f.mu.Unlock()
	if down {
		panic(http.ErrAbortHandler)
	}
	body, _ := io.ReadAll(r.Body)
	path := strings.TrimPrefix(r.URL.Path, "/v1")
	if !strings.HasPrefix(path, "/var") {
		f.mu.Lock()
		f.requests = append(f.requests, r.URL.String()+"\n"+string(body))
		f.mu.Unlock()
	}
	if strings.HasPrefix(path, "/client/fs/") {
		f.files(w, r, path)
		return
	}
	if wait, _ := strconv.ParseUint(r.URL.Query().Get("index"), 10, 64); wait > 0 {
		f.await(r, wait)
	}
	status, answer := f.answer(r, path, body)
	f.mu.Lock()
	w.Header().Set("X-Nomad-Index", fmt.Sprint(f.index))
	f.mu.Unlock()
	w.WriteHeader(status)
	if words, ok := answer.(string); ok {
		_, _ = io.WriteString(w, words)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// await waits until the index has been passed.
func (f *fake) await(r *http.Request, index uint64) {
	for {
		f.mu.Lock()
		over, changed := f.index > index || f.down, f.changed
		f.mu.Unlock()
		if over {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		case <-time.After(2 * time.Second):
			return
		}
	}
}

// answer does what a request asks for.
func (f *fake) answer(r *http.Request, path string, body []byte) (status int, answer any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	query := r.URL.Query()
	parts := strings.SplitN(strings.Trim(path, "/"), "/", 3)
	switch {
	case f.denied && r.Method == http.MethodPut:
		return 403, "Permission denied"
	case path == "/status/leader":
		return 200, json.RawMessage(`"127.0.0.1:4647"`)
	case path == "/allocations":
		return 200, []any{}
	case parts[0] == "job" && len(parts) == 3 && parts[2] == "plan":
		return f.plan(body)
	case path == "/jobs" && r.Method == http.MethodPut:
		return f.register(body)
	case path == "/jobs":
		list := []any{}
		for id, j := range f.jobs {
			if strings.HasPrefix(id, query.Get("prefix")) && !(j.stopped && query.Get("filter") == unstopped) {
				list = append(list, map[string]any{
					"ID": id, "ModifyIndex": j.index, "JobSummary": map[string]any{"ModifyIndex": f.summary(id)},
				})
			}
		}
		return 200, list
	case path == "/nodes":
		return 200, f.listNodes()
	case parts[0] == "vars":
		list := []any{}
		for path := range f.vars {
			if strings.HasPrefix(path, query.Get("prefix")) {
				list = append(list, map[string]any{"Path": path})
			}
		}
		return 200, list
	case parts[0] == "var":
		return f.variable(r.Method, strings.TrimPrefix(path, "/var/"), query.Has("cas"), body)
	case parts[0] == "job" && len(parts) == 3 && parts[2] == "allocations":
		list := []any{}
		for _, a := range f.allocs {
			if a.job == parts[1] && f.jobs[a.job] != nil {
				list = append(list, a.show())
			}
		}
		return 200, list
	case parts[0] == "job" && f.jobs[parts[1]] == nil:
		return 404, "job not found"
	case parts[0] == "job" && len(parts) == 3:
		return 200, []any{map[string]any{"Status": "complete", "FailedTGAllocs": map[string]any{
			taskName: map[string]any{"NodesEvaluated": 2, "ConstraintFiltered": f.jobs[parts[1]].blocked},
		}}}
	case parts[0] == "job" && r.Method == http.MethodDelete:
		f.stop(f.jobs[parts[1]])
		if query.Get("purge") == "true" {
			delete(f.jobs, parts[1])
		}
		return 200, map[string]any{}
	case parts[0] == "job":
		return 200, map[string]any{"ID": parts[1]}
	}
	return 404, "no such page: " + path
}

// summary changes with the allocations of a job.
func (f *fake) summary(id string) (index uint64) {
	for _, a := range f.allocs {
		if a.job == id {
			index += a.index + uint64(len(a.client))<<32
		}
	}
	return index
}

func (f *fake) listNodes() []any {
	list := []any{}
	for _, n := range f.nodes {
		volumes := map[string]any{}
		if n.volume != "" {
			volumes["disinto"] = map[string]any{"Path": n.volume}
		}
		list = append(list, map[string]any{
			"ID": n.id, "Name": n.name, "Status": "ready", "SchedulingEligibility": "eligible", "Version": "2.0.0",
			"Drivers":     map[string]any{"raw_exec": map[string]any{"Detected": true, "Healthy": true}},
			"HostVolumes": volumes,
		})
	}
	return list
}

func (f *fake) variable(method, path string, cas bool, body []byte) (status int, answer any) {
	switch method {
	case http.MethodPut:
		if cas {
			return 409, "cas error: the variable is not there"
		}
		var v variable
		_ = json.Unmarshal(body, &v)
		size := 0
		for key, value := range v.Items {
			size += len(key) + len(value)
		}
		if size > 64<<10 {
			return 400, "items are limited to 65536 bytes in total"
		}
		f.vars[path] = v.Items
	case http.MethodDelete:
		delete(f.vars, path)
	}
	if f.vars[path] == nil && method == http.MethodGet {
		return 404, "variable not found"
	}
	return 200, map[string]any{"Path": path, "Items": f.vars[path]}
}

func (a *fakeAlloc) show() any {
	return map[string]any{
		"ID": a.id, "NodeID": a.node.id, "NodeName": a.node.name, "ClientStatus": a.client, "DesiredStatus": a.desired,
		"CreateIndex": a.index, "TaskStates": map[string]any{taskName: map[string]any{"Events": a.events}},
	}
}

func (f *fake) register(body []byte) (status int, answer any) {
	var in struct {
		Job            map[string]any
		EnforceIndex   bool
		JobModifyIndex uint64
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return 400, err.Error()
	}
	id := in.Job["ID"].(string)
	if old := f.jobs[id]; old != nil && in.EnforceIndex && in.JobModifyIndex == 0 {
		return 500, "Enforcing job modify index 0: job already exists"
	}
	j := &fakeJob{id: id, text: in.Job, index: f.bump()}
	f.jobs[id] = j
	f.schedule(j)
	return 200, map[string]any{"EvalID": "e"}
}

// schedule places a job on a node that it may run on, and that has the fewest allocations.
func (f *fake) schedule(j *fakeJob) {
	fits := f.fitting(j)
	if len(fits) == 0 {
		return
	}
	load := func(n *fakeNode) (count int) {
		for _, a := range f.allocs {
			if a.node == n {
				count++
			}
		}
		return count
	}
	node := slices.MinFunc(fits, func(a, b *fakeNode) int { return cmp.Compare(load(a), load(b)) })
	f.serial++
	a := &fakeAlloc{
		id: fmt.Sprintf("%08d-alloc", f.serial), job: j.id, node: node, index: f.bump(), client: "pending",
		really: "pending", desired: "run",
	}
	a.dir = filepath.Join(f.dir, node.name+"-"+a.id)
	f.allocs = append(f.allocs, a)
	go f.start(a, j)
}

// plan says where a job would be placed.
func (f *fake) plan(body []byte) (status int, answer any) {
	var in struct{ Job map[string]any }
	if err := json.Unmarshal(body, &in); err != nil {
		return 400, err.Error()
	}
	j := &fakeJob{text: in.Job}
	fits := f.fitting(j)
	why := map[string]any{"NodesEvaluated": 2, "ConstraintFiltered": j.blocked}
	switch {
	case f.full:
		why["NodesExhausted"], why["DimensionExhausted"] = len(fits), map[string]int{"memory": len(fits)}
	case len(fits) > 0:
		return 200, map[string]any{}
	}
	return 200, map[string]any{"FailedTGAllocs": map[string]any{taskName: why}}
}

// fitting are the nodes that a job may run on.
func (f *fake) fitting(j *fakeJob) (fits []*fakeNode) {
	constraints, _ := j.text["Constraints"].([]any)
	j.blocked = map[string]int{}
	for _, n := range f.nodes {
		bad := ""
		for _, c := range constraints {
			rule := c.(map[string]any)
			name, ok := strings.CutPrefix(rule["LTarget"].(string), "${meta.")
			if ok && n.meta[strings.TrimSuffix(name, "}")] != rule["RTarget"] {
				bad = fmt.Sprintf("%s = %s", rule["LTarget"], rule["RTarget"])
			}
		}
		if bad != "" {
			j.blocked[bad]++
		} else if n.heard {
			fits = append(fits, n)
		}
	}
	return fits
}

// says has a node report, and the server hear it when it hears of the node.
func (f *fake) says(a *fakeAlloc, status string, events ...taskEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a.really, a.truly = status, append(a.truly, events...)
	f.hear(a)
}

func (f *fake) hear(a *fakeAlloc) {
	if a.node.heard {
		a.client, a.events = a.really, slices.Clone(a.truly)
		f.bump()
	}
}

// start runs the task of an allocation.
func (f *fake) start(a *fakeAlloc, j *fakeJob) {
	task := j.text["TaskGroups"].([]any)[0].(map[string]any)["Tasks"].([]any)[0].(map[string]any)
	config := task["Config"].(map[string]any)
	local, secrets := filepath.Join(a.dir, "local"), filepath.Join(a.dir, "secrets")
	for _, dir := range []string{a.dir, local, secrets} {
		_ = os.MkdirAll(dir, 0o777)
		_ = os.Chmod(dir, 0o777)
	}
	_ = os.MkdirAll(a.node.volume, 0o755)
	_ = os.Chmod(a.node.volume, 0o755)
	f.mu.Lock()
	order := f.vars["nomad/jobs/"+j.id][orderKey]
	f.mu.Unlock()
	_ = os.WriteFile(filepath.Join(secrets, orderFile), []byte(order), 0o600)
	cmd := exec.Command(config["command"].(string), "session-run")
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "NOMAD_ALLOC_ID=" + a.id, "NOMAD_TASK_DIR=" + local, "NOMAD_SECRETS_DIR=" + secrets,
	}
	for name, value := range task["Env"].(map[string]any) {
		words := strings.NewReplacer("${node.unique.id}", a.node.id, "${node.unique.name}", a.node.name)
		cmd.Env = append(cmd.Env, name+"="+words.Replace(value.(string)))
	}
	out, err := os.Create(filepath.Join(a.dir, "stdout"))
	if err == nil {
		defer out.Close()
		cmd.Stdout, cmd.Stderr = out, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		err = cmd.Start()
	}
	if err != nil {
		f.says(a, "failed", taskEvent{Type: "Driver Failure", DisplayMessage: err.Error()})
		return
	}
	f.mu.Lock()
	a.process = cmd.Process
	f.mu.Unlock()
	f.says(a, "running", taskEvent{Type: "Started"})
	f.ended(a, cmd.Wait())
}

// ended reports the exit of a task: a stopped one is complete, whatever its exit code is.
func (f *fake) ended(a *fakeAlloc, err error) {
	code, signal := 0, 0
	if exit, ok := err.(*exec.ExitError); ok {
		code = exit.ExitCode()
		if ws := exit.Sys().(syscall.WaitStatus); ws.Signaled() {
			code, signal = 128+int(ws.Signal()), int(ws.Signal())
		}
	}
	f.mu.Lock()
	status := "failed"
	if code == 0 || a.desired == "stop" {
		status = "complete"
	}
	f.mu.Unlock()
	f.says(a, status, taskEvent{Type: "Terminated", Details: map[string]string{
		"exit_code": strconv.Itoa(code), "signal": strconv.Itoa(signal), "oom_killed": "false",
	}})
}

// stop ends a job: it is dead at once, and its task when it has ended.
func (f *fake) stop(j *fakeJob) {
	j.stopped = true
	j.index = f.bump()
	for _, a := range f.allocs {
		if a.job == j.id && a.desired == "run" {
			a.desired = "stop"
			f.terminate(a)
		}
	}
}

// terminate sends TERM, and KILL when the kill timeout has passed.
func (f *fake) terminate(a *fakeAlloc) {
	process := a.process
	if process == nil || !a.node.heard {
		return
	}
	_ = process.Signal(syscall.SIGTERM)
	time.AfterFunc(30*time.Second, func() { _ = process.Kill() })
}

// loseSight has the server hear no more of a node. With replace its jobs run a second time, elsewhere.
func (f *fake) loseSight(name string, replace bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		if n.name == name {
			n.heard = false
		}
	}
	for _, a := range slices.Clone(f.allocs) {
		if a.node.name != name || a.client != "running" && a.client != "pending" {
			continue
		}
		if a.client = "unknown"; replace {
			a.client, a.desired = "lost", "stop"
			f.schedule(f.jobs[a.job])
		}
	}
	f.bump()
}

// findAgain has the server hear of a node again: it ends what runs there and was replaced.
func (f *fake) findAgain(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		n.heard = n.heard || n.name == name
	}
	for _, a := range f.allocs {
		if a.node.name == name {
			f.hear(a)
			if a.desired == "stop" && a.really == "running" {
				f.terminate(a)
			}
		}
	}
}

// setFull has all nodes lack room for one more session, or not.
func (f *fake) setFull(full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full = full
}

// setDown stops or starts the server.
func (f *fake) setDown(down bool) {
	f.mu.Lock()
	f.down = down
	f.bump()
	f.mu.Unlock()
	if down {
		f.server.CloseClientConnections()
	}
}

// files answers for files of allocations.
func (f *fake) files(w http.ResponseWriter, r *http.Request, path string) {
	parts := strings.Split(path, "/") // client fs cat ALLOC
	f.mu.Lock()
	var dir string
	for _, a := range f.allocs {
		if a.id == parts[4] && a.node.heard && f.jobs[a.job] != nil {
			dir = a.dir
		}
	}
	f.mu.Unlock()
	query := r.URL.Query()
	name := "stdout"
	if parts[3] == "cat" {
		name = strings.TrimPrefix(query.Get("path"), taskName+"/")
	}
	file, err := os.Open(filepath.Join(dir, name))
	if dir == "" || err != nil || strings.HasPrefix(name, "secrets") {
		http.Error(w, "Unknown allocation", 404)
		return
	}
	defer file.Close()
	offset, _ := strconv.ParseInt(query.Get("offset"), 10, 64)
	_, _ = file.Seek(offset, io.SeekStart)
	for {
		_, _ = io.Copy(w, file)
		if query.Get("follow") != "true" {
			return
		}
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}
