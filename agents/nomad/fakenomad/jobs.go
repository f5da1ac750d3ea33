package fakenomad

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
)

// listJobs returns the jobs with a prefix: all of them, or only those that were not stopped.
func (f *Server) listJobs(prefix string, unstopped bool) []any {
	list := []any{}
	for id, j := range f.jobs {
		if strings.HasPrefix(id, prefix) && !(j.stopped && unstopped) {
			list = append(list, object{
				"ID": id, "ModifyIndex": j.index, "JobSummary": object{"ModifyIndex": f.summary(id)},
			})
		}
	}
	return list
}

func (f *Server) listVariables(prefix string) []any {
	list := []any{}
	for path := range f.vars {
		if strings.HasPrefix(path, prefix) {
			list = append(list, object{"Path": path})
		}
	}
	return list
}

// summary returns a number that changes with the allocations of a job.
func (f *Server) summary(id string) (index uint64) {
	for _, a := range f.allocs {
		if a.job == id {
			index += a.index + uint64(len(a.client))<<32
		}
	}
	return index
}

func (f *Server) listNodes() []any {
	list := []any{}
	for _, n := range f.nodes {
		volumes := object{}
		if n.volume != "" {
			volumes["disinto"] = object{"Path": n.volume}
		}
		list = append(list, object{
			"ID": n.id, "Name": n.name, "Status": "ready", "SchedulingEligibility": "eligible", "Version": "2.0.0",
			"Drivers":     object{"raw_exec": object{"Detected": true, "Healthy": true}},
			"HostVolumes": volumes,
		})
	}
	return list
}

func (f *Server) variable(method, path string, cas bool, body []byte) (status int, answer any) {
	switch method {
	case http.MethodPut:
		if cas {
			return 409, "cas error: the variable is not there"
		}
		var v struct{ Items map[string]string }
		if err := json.Unmarshal(body, &v); err != nil { // for example half of a killed client's request
			return 400, err.Error()
		}
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
	return 200, object{"Path": path, "Items": f.vars[path]}
}

func (a *alloc) show() any {
	return object{
		"ID": a.id, "NodeID": a.node.id, "NodeName": a.node.name, "ClientStatus": a.client, "DesiredStatus": a.desired,
		"CreateIndex": a.index, "TaskStates": object{"session": object{"Events": a.events}},
	}
}

func (f *Server) register(body []byte) (status int, answer any) {
	var in struct {
		Job            object
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
	j := &job{id: id, text: in.Job, index: f.bump()}
	f.jobs[id] = j
	f.schedule(j)
	return 200, object{"EvalID": "e"}
}

// schedule places a job on the fitting node with the fewest allocations.
func (f *Server) schedule(j *job) {
	fits := f.fitting(j)
	if len(fits) == 0 {
		return
	}
	load := func(n *node) (count int) {
		for _, a := range f.allocs {
			if a.node == n {
				count++
			}
		}
		return count
	}
	node := slices.MinFunc(fits, func(a, b *node) int { return cmp.Compare(load(a), load(b)) })
	f.serial++
	a := &alloc{
		id: fmt.Sprintf("%08d-alloc", f.serial), job: j.id, node: node, index: f.bump(), client: "pending",
		really: "pending", desired: "run",
	}
	a.dir = filepath.Join(node.data, "alloc", a.id, "session")
	f.allocs = append(f.allocs, a)
	go f.start(a, j)
}

// plan answers where a job would be placed.
func (f *Server) plan(body []byte) (status int, answer any) {
	var in struct{ Job object }
	if err := json.Unmarshal(body, &in); err != nil {
		return 400, err.Error()
	}
	j := &job{text: in.Job}
	fits := f.fitting(j)
	why := object{"NodesEvaluated": 2, "ConstraintFiltered": j.blocked}
	switch {
	case memoryOf(j) > nodeMB:
		why["NodesExhausted"], why["DimensionExhausted"] = len(fits), map[string]int{"memory": len(fits)}
	case f.full:
		why["NodesExhausted"], why["DimensionExhausted"] = len(fits), map[string]int{"memory": len(fits)}
	case len(fits) > 0:
		return 200, object{}
	}
	return 200, object{"FailedTGAllocs": object{"session": why}}
}

// nodeMB is the memory of a node.
const nodeMB = 64 << 10

// memoryOf returns the memory that a job reserves, in MiB.
func memoryOf(j *job) float64 {
	task := j.text["TaskGroups"].([]any)[0].(object)["Tasks"].([]any)[0].(object)
	return task["Resources"].(object)["MemoryMB"].(float64)
}

// fitting returns the nodes that a job can run on.
func (f *Server) fitting(j *job) (fits []*node) {
	constraints, _ := j.text["Constraints"].([]any)
	j.blocked = map[string]int{}
	for _, n := range f.nodes {
		bad := ""
		for _, c := range constraints {
			rule := c.(object)
			name, ok := strings.CutPrefix(rule["LTarget"].(string), "${meta.")
			if ok && n.meta[strings.TrimSuffix(name, "}")] != rule["RTarget"] {
				bad = fmt.Sprintf("%s = %s", rule["LTarget"], rule["RTarget"])
			}
		}
		if bad != "" {
			j.blocked[bad]++
		} else if n.connected {
			fits = append(fits, n)
		}
	}
	return fits
}

// needed returns the rights that a request needs. A job with a volume needs one more to be registered, but not to be
// planned.
func needed(method, path string, body []byte) []string {
	parts := strings.SplitN(strings.Trim(path, "/"), "/", 3)
	switch {
	case parts[0] == "nodes", parts[0] == "node":
		return []string{"node read"}
	case parts[0] == "agent":
		return []string{"agent read"}
	case parts[0] == "vars":
		return []string{"variables list"}
	case parts[0] == "var":
		names := map[string]string{http.MethodGet: "read", http.MethodPut: "write", http.MethodDelete: "destroy"}
		return []string{"variables " + names[method]}
	case path == "/jobs" && method == http.MethodGet:
		return []string{"list-jobs"}
	case path == "/jobs" && strings.Contains(string(body), `"Volumes"`):
		return []string{"submit-job", "host_volume write"}
	case method != http.MethodGet:
		return []string{"submit-job"}
	case parts[0] == "job", parts[0] == "allocations":
		return []string{"read-job"}
	}
	return nil
}

// lacks reports whether the token lacks one of these rights. The mutex is held.
func (f *Server) lacks(rights []string) bool {
	return slices.ContainsFunc(rights, func(right string) bool { return slices.Contains(f.denied, right) })
}
