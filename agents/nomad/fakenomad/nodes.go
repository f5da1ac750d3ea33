package fakenomad

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// report records a node's report. The server sees it only while it hears from the node.
func (f *Server) report(a *alloc, status string, events ...Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a.really, a.truly = status, append(a.truly, events...)
	f.deliver(a)
}

func (f *Server) deliver(a *alloc) {
	if a.node.connected {
		a.client, a.events = a.really, slices.Clone(a.truly)
		f.bump()
	}
}

// start runs the task of an allocation.
func (f *Server) start(a *alloc, j *job) {
	task := j.text["TaskGroups"].([]any)[0].(object)["Tasks"].([]any)[0].(object)
	command, err := f.prepare(a, j.id, task)
	if err == nil {
		defer command.Out.Close()
		var process Process
		if process, err = f.Start(command); err == nil {
			f.run(a, process)
			return
		}
	}
	f.report(a, "failed", Event{Type: "Driver Failure", DisplayMessage: err.Error()})
}

// prepare creates the folders and the environment of a task.
func (f *Server) prepare(a *alloc, id string, task object) (c Command, err error) {
	local, secrets := filepath.Join(a.dir, "local"), filepath.Join(a.dir, "secrets")
	for _, dir := range []string{a.dir, local, secrets} {
		_ = os.MkdirAll(dir, 0o777)
		_ = os.Chmod(dir, 0o777)
	}
	_ = os.MkdirAll(filepath.Join(a.node.data, "client"), 0o755)
	_ = os.WriteFile(filepath.Join(a.node.data, "client/secret-id"), []byte("the node's secret"), 0o600)
	_ = os.MkdirAll(a.node.volume, 0o755)
	_ = os.Chmod(a.node.volume, 0o755)
	f.mu.Lock()
	order, again := f.vars["nomad/jobs/"+id]["order"], a.restarts > 0
	f.mu.Unlock()
	templates, _ := task["Templates"].([]any)
	if len(templates) > 0 && !again {
		path := templates[0].(object)["DestPath"].(string)
		if templates[0].(object)["Envvars"] == true {
			order = "DISINTO_ORDER=" + base64.StdEncoding.EncodeToString([]byte(order))
			c.Env = append(c.Env, order)
		}
		_ = os.WriteFile(filepath.Join(a.dir, path), []byte(order), 0o600)
	}
	c.Env = append(
		c.Env, "PATH="+os.Getenv("PATH"), "NOMAD_ALLOC_ID="+a.id, "NOMAD_TASK_DIR="+local, "NOMAD_SECRETS_DIR="+secrets,
	)
	for name, value := range task["Env"].(object) {
		words := strings.NewReplacer("${node.unique.id}", a.node.id, "${node.unique.name}", a.node.name)
		c.Env = append(c.Env, name+"="+words.Replace(value.(string)))
	}
	config := task["Config"].(object)
	c.Path = config["command"].(string)
	for _, word := range config["args"].([]any) {
		c.Args = append(c.Args, word.(string))
	}
	c.Out, err = os.Create(filepath.Join(a.dir, "stdout"))
	return c, err
}

// run waits for a task and reports its exit. A stopped task is complete, whatever its exit code.
func (f *Server) run(a *alloc, process Process) {
	f.mu.Lock()
	if a.process = process; a.desired == "stop" {
		f.terminate(a)
	}
	f.mu.Unlock()
	f.report(a, "running", Event{Type: "Started"})
	code, signal := process.Wait()
	f.mu.Lock()
	status, restart := "failed", a.restart
	if code == 0 || a.desired == "stop" {
		status = "complete"
	}
	if a.restart = false; restart {
		status, a.process = "running", nil
		a.restarts++
	}
	j := f.jobs[a.job]
	f.mu.Unlock()
	f.report(a, status, Event{Type: "Terminated", Details: map[string]string{
		"exit_code": strconv.Itoa(code), "signal": strconv.Itoa(signal), "oom_killed": "false",
	}})
	if restart {
		f.start(a, j)
	}
}

// act restarts the task of an allocation, as nomad alloc restart does, or sends it SIGKILL. After a restart the task's
// folders are as they were, and its template is not written again.
func (f *Server) act(id, what string) (status int, answer any) {
	for _, a := range f.allocs {
		switch {
		case a.id != id || a.process == nil:
			continue
		case what == "signal":
			_ = a.process.Kill()
		default:
			a.restart = true
			f.terminate(a)
		}
		return 200, object{}
	}
	return 404, fmt.Sprintf("%s %q", Unknown, id)
}

// stop ends a job. The job is dead at once, its task only when it has ended.
func (f *Server) stop(j *job) {
	j.stopped = true
	j.index = f.bump()
	for _, a := range f.allocs {
		if a.job == j.id && a.desired == "run" {
			a.desired = "stop"
			f.terminate(a)
		}
	}
}

// terminate sends TERM, and KILL after the kill timeout.
func (f *Server) terminate(a *alloc) {
	process := a.process
	if process == nil || !a.node.connected {
		return
	}
	_ = process.Signal(syscall.SIGTERM)
	time.AfterFunc(30*time.Second, func() { _ = process.Kill() })
}

// Disconnect cuts the server off from a node. With replace, the node's jobs are started a second time elsewhere.
func (f *Server) Disconnect(name string, replace bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		if n.name == name {
			n.connected = false
		}
	}
	for _, a := range slices.Clone(f.allocs) {
		if a.node.name != name || a.client != "running" && a.client != "pending" {
			continue
		}
		if a.client = "unknown"; replace && f.jobs[a.job] != nil {
			a.client, a.desired = "lost", "stop"
			f.schedule(f.jobs[a.job])
		}
	}
	f.bump()
}

// Reconnect reconnects the server to a node, and ends the allocations that were replaced.
func (f *Server) Reconnect(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.nodes {
		n.connected = n.connected || n.name == name
	}
	for _, a := range f.allocs {
		if a.node.name == name {
			f.deliver(a)
			if a.desired == "stop" && a.really == "running" {
				f.terminate(a)
			}
		}
	}
}

// Allocs returns all allocations, oldest first.
func (f *Server) Allocs() (list []Alloc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.allocs {
		list = append(list, Alloc{
			a.id, a.job, a.node.name, a.client, a.really, slices.Clone(a.truly), a.dir, a.process,
		})
	}
	return list
}

// Nomad's messages when it cannot read an allocation's files: no server has a connection to its node, or the allocation
// is unknown, which is also true for a server that was just started.
const (
	NoPath  = "No path to node"
	Unknown = "Unknown allocation"
)

// fileless answers a message instead of a file: a server with 404, a node's agent with 200. The agent compresses it for
// clients that accept that.
func fileless(w http.ResponseWriter, r *http.Request, words string, agent bool) {
	text, status := []byte(words), http.StatusNotFound
	if agent {
		status = http.StatusOK
		if r.Header.Get("Accept-Encoding") == "gzip" {
			w.Header().Set("Content-Encoding", "gzip")
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			_, _ = z.Write(text)
			_ = z.Close()
			text = packed.Bytes()
		}
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// files serves the files of allocations.
func (f *Server) files(w http.ResponseWriter, r *http.Request, path string) {
	parts := strings.Split(path, "/") // client fs cat ALLOC
	f.mu.Lock()
	var dir string
	for _, a := range f.allocs {
		if a.id == parts[4] && a.node.connected && f.jobs[a.job] != nil {
			dir = a.dir
		}
	}
	agent, silent := f.agent, f.silent
	f.mu.Unlock()
	query := r.URL.Query()
	name := "stdout"
	if parts[3] == "cat" {
		name = strings.TrimPrefix(query.Get("path"), "session/")
	}
	file, err := os.Open(filepath.Join(dir, name))
	if dir == "" || err != nil || silent != "" || strings.HasPrefix(name, "secrets") {
		words := silent
		if words == "" && dir != "" {
			words = "no such file"
		}
		if words == "" || words == Unknown {
			words = fmt.Sprintf("%s %q", Unknown, parts[4])
		}
		fileless(w, r, words, agent)
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
