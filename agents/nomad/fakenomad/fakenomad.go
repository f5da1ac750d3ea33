// Package fakenomad is a Nomad with two nodes for tests, whose tasks are real processes on this machine. It has the
// traps that were measured on a real Nomad:
//
//   - a stopped job is dead at once, while its process still runs;
//   - a stopped allocation is complete;
//   - an allocation on a node that is not heard from is lost, and a second one starts;
//   - folders of ended allocations are collected;
//   - no flag reports that memory ran out;
//   - a job that fits on no node waits for ever, but one in a node pool that does not exist is refused;
//   - a job with a host volume needs a right of its own to be registered, and none to be planned;
//   - a purged job lists no allocations, although they still run;
//   - registering an existing job returns an error;
//   - servers without a leader answer 500 to everything that the nodes do not answer themselves;
//   - the agent of a node answers 200 for a file of an unknown allocation, and all for a missing right;
//   - a client that starts writes the files of its tasks' templates again.
package fakenomad

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Command is a task as the driver of a node starts it, in its own session (setsid).
type Command struct {
	Path string
	Args []string // without the path
	Env  []string
	Out  *os.File
}

// Process is a started task.
type Process interface {
	Signal(os.Signal) error
	Kill() error
	// Wait returns when the process has ended, with its exit code and the signal that killed it; 0 for none.
	Wait() (code, signal int)
}

// Server is an http.Handler. Its exported fields must not change once it serves.
type Server struct {
	Dir   string                         // for nodes and allocations; the accounts of tasks need search permission on it
	Start func(Command) (Process, error) // starts a task

	mu       sync.Mutex // guards the fields below
	index    uint64
	changed  chan struct{} // closed at each change
	jobs     map[string]*job
	vars     map[string]map[string]string
	varsIn   map[string]string // namespace of each variable
	nodes    []*node
	allocs   []*alloc
	serial   int
	down     bool     // the server answers no request
	headless bool     // the servers have no leader
	denied   []string // rights that the token lacks, as needed names them
	full     bool     // no node has room for another session
	maxKill  string   // max_kill_timeout of the nodes; empty as in an agent without the key
	agent    bool     // a node's agent answers instead of a server
	silent   string   // message that replaces every file of an allocation; empty: the files are served
	requests []string // bodies of all requests except those for variables
}

type job struct {
	id, in  string // in is its namespace
	text    map[string]any
	index   uint64
	stopped bool
	blocked map[string]int // constraints that no node satisfies
	reached int            // nodes in its pool and datacenters
}

type node struct {
	id, name, volume string
	data             string // data_dir of its client
	pool             string
	meta             map[string]string
	connected        bool
}

type alloc struct {
	id, job         string
	node            *node
	index           uint64
	client, desired string // as the server shows them
	events          []Event
	really          string // as the node would report it
	truly           []Event
	dir             string // of the task
	process         Process
	restart         bool // a person wants the task to be restarted
	restarts        int
}

// Event is an event of a task.
type Event struct {
	Type, DisplayMessage string
	Details              map[string]string
}

// Alloc is an allocation: as the server shows it, and as its node would.
type Alloc struct {
	ID, Job, Node  string
	Client, Really string
	Events         []Event // as the node reports them
	Dir            string
	Process        Process // nil before it is started
}

// New returns a server with the nodes box1 and box2. The meta value llama of each is its name.
func New(dir string, start func(Command) (Process, error)) *Server {
	f := &Server{
		Dir: dir, Start: start, index: 10, changed: make(chan struct{}),
		jobs: map[string]*job{}, vars: map[string]map[string]string{}, varsIn: map[string]string{},
	}
	for _, name := range []string{"box1", "box2"} {
		f.nodes = append(f.nodes, &node{
			id: "id-of-" + name, name: name, pool: "default", volume: filepath.Join(dir, name), connected: true,
			data: filepath.Join(dir, name+"-data"),
			meta: map[string]string{"llama": name},
		})
	}
	return f
}

// Close kills all tasks and answers no more requests.
func (f *Server) Close() {
	f.SetDown(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.allocs {
		if a.process != nil {
			_ = a.process.Kill()
		}
	}
}

// set changes one of the server's conditions, and wakes all waiting requests.
func (f *Server) set(condition *bool, value bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*condition = value
	f.bump()
}

// SetDown stops or starts the server.
func (f *Server) SetDown(down bool) { f.set(&f.down, down) }

// SetLeader sets whether the servers have a leader. Without one they refuse every request.
func (f *Server) SetLeader(leads bool) { f.set(&f.headless, !leads) }

// SetFull sets whether all nodes lack room for another session.
func (f *Server) SetFull(full bool) { f.set(&f.full, full) }

// Deny takes rights from the token: list-jobs, read-job, submit-job, read-fs, "host_volume write", "node read",
// "agent read", and "variables" with read, write or destroy.
func (f *Server) Deny(rights ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.denied = rights
}

// SetMaxKill sets the max_kill_timeout of all nodes.
func (f *Server) SetMaxKill(most string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.maxKill = most
}

// SetAgent makes a node's agent answer instead of a server, or the server again.
func (f *Server) SetAgent(agent bool) { f.set(&f.agent, agent) }

// SetSilent sets the message that replaces every file of an allocation, such as NoPath or Unknown. With "" the files
// are served.
func (f *Server) SetSilent(words string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.silent = words
}

// SetPool moves a node to another pool.
func (f *Server) SetPool(name, pool string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		if n.name == name {
			n.pool = pool
		}
	}
}

// DropVolume removes the host volume from a node.
func (f *Server) DropVolume(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		if n.name == name {
			n.volume = ""
		}
	}
}

// Written returns the names of the existing jobs and variables, sorted.
func (f *Server) Written() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := slices.AppendSeq(slices.Collect(maps.Keys(f.jobs)), maps.Keys(f.vars))
	slices.Sort(names)
	return names
}

// Requests returns the URLs and bodies of all requests except those for variables.
func (f *Server) Requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

// object is an answer or a part of one.
type object = map[string]any

// bump signals a change. The mutex is held.
func (f *Server) bump() uint64 {
	f.index++
	close(f.changed)
	f.changed = make(chan struct{})
	return f.index
}

// ServeHTTP answers like a Nomad server, below /v1.
func (f *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	f.mu.Lock()
	unread := f.lacks([]string{"read-fs"})
	f.mu.Unlock()
	if strings.HasPrefix(path, "/client/fs/") && unread {
		fileless(w, r, "Permission denied", true) // with status 200
		return
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

// await waits until the index has passed.
func (f *Server) await(r *http.Request, index uint64) {
	for {
		f.mu.Lock()
		over, changed := f.index > index || f.down || f.headless, f.changed
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

// answer executes a request.
func (f *Server) answer(r *http.Request, path string, body []byte) (status int, answer any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	query := r.URL.Query()
	parts := strings.SplitN(strings.Trim(path, "/"), "/", 3)
	in := cmp.Or(query.Get("namespace"), "default")
	switch {
	case f.headless:
		return 500, "rpc error: No cluster leader"
	case f.lacks(needed(r.Method, path, body)):
		return 403, "Permission denied"
	case path == "/status/leader":
		return 200, json.RawMessage(`"127.0.0.1:4647"`)
	case strings.HasPrefix(path, "/client/allocation/"):
		return f.act(parts[2][:strings.LastIndexByte(parts[2], '/')], filepath.Base(path))
	case path == "/allocations":
		return 200, []any{}
	case path == "/jobs" && r.Method == http.MethodPut:
		return f.register(body)
	case path == "/jobs":
		return 200, f.listJobs(in, query.Get("prefix"), query.Get("filter") != "")
	case path == "/agent/self":
		return 200, object{"config": object{"Client": object{"MaxKillTimeout": f.maxKill}}}
	case parts[0] == "node":
		return 200, object{"HTTPAddr": r.Host, "TLSEnabled": false}
	case path == "/nodes":
		return 200, f.listNodes()
	case parts[0] == "vars":
		return 200, f.listVariables(in, query.Get("prefix"))
	case parts[0] == "var":
		return f.variable(r.Method, in, strings.TrimPrefix(path, "/var/"), query.Has("cas"), body)
	case parts[0] == "job" && len(parts) == 3:
		return f.jobPart(in, parts[1], parts[2], body)
	case parts[0] == "job" && f.jobIn(in, parts[1]) == nil:
		return 404, "job not found"
	case parts[0] == "job" && r.Method == http.MethodDelete:
		f.stop(f.jobs[parts[1]])
		if query.Get("purge") == "true" {
			delete(f.jobs, parts[1])
		}
		return 200, object{}
	case parts[0] == "job":
		return 200, object{"ID": parts[1], "Meta": f.jobs[parts[1]].text["Meta"]}
	}
	return 404, "no such page: " + path
}

// jobPart answers requests for a part of a job.
func (f *Server) jobPart(in, id, what string, body []byte) (status int, answer any) {
	switch {
	case what == "plan":
		return f.plan(body)
	case what == "allocations":
		list := []any{}
		for _, a := range f.allocs {
			if a.job == id && f.jobIn(in, id) != nil {
				list = append(list, a.show())
			}
		}
		return 200, list
	case f.jobIn(in, id) == nil:
		return 404, "job not found"
	}
	return 200, []any{object{"Status": "complete", "FailedTGAllocs": object{
		"session": object{"NodesEvaluated": 2, "ConstraintFiltered": f.jobs[id].blocked},
	}}}
}

// jobIn returns a job of a namespace; nil if there is none.
func (f *Server) jobIn(in, id string) *job {
	if j := f.jobs[id]; j != nil && j.in == in {
		return j
	}
	return nil
}
