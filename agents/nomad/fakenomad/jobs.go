package fakenomad

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listJobs returns the jobs of a namespace, or of all, with a prefix: all of them, or only those that were not stopped.
func (f *Server) listJobs(in, prefix string, unstopped bool) []any {
	list := []any{}
	for id, j := range f.jobs {
		if strings.HasPrefix(id, prefix) && !(j.stopped && unstopped) && (in == "*" || in == j.in) {
			list = append(list, object{
				"ID": id, "Namespace": j.in, "ModifyIndex": j.index, "JobSummary": object{"ModifyIndex": f.summary(id)},
			})
		}
	}
	return list
}

func (f *Server) listVariables(in, prefix string) []any {
	list := []any{}
	for path := range f.vars {
		if strings.HasPrefix(path, prefix) && (in == "*" || in == f.varsIn[path]) {
			list = append(list, object{"Path": path, "Namespace": f.varsIn[path]})
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
	healthy := object{"Detected": true, "Healthy": true}
	for _, n := range f.nodes {
		volumes := object{}
		if n.volume != "" {
			volumes["disinto"] = object{"Path": n.volume}
		}
		list = append(list, object{
			"ID": n.id, "Name": n.name, "NodePool": n.pool, "Datacenter": "dc1", "Status": "ready",
			"SchedulingEligibility": "eligible", "Version": "2.0.0",
			"Drivers":     object{"raw_exec": healthy, "exec": healthy},
			"HostVolumes": volumes,
		})
	}
	return list
}

func (f *Server) variable(method, in, path string, cas bool, body []byte) (status int, answer any) {
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
		f.vars[path], f.varsIn[path] = v.Items, in
	case http.MethodDelete:
		delete(f.vars, path)
	}
	if (f.vars[path] == nil || f.varsIn[path] != in) && method == http.MethodGet {
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
	if words := f.refuse(in.Job); words != "" {
		return 500, words
	}
	j := &job{id: id, in: namespaceOf(in.Job), text: in.Job, index: f.bump()}
	f.jobs[id] = j
	if in.Job["Type"] == "sysbatch" {
		for _, n := range f.fitting(j) {
			f.place(j, n)
		}
		return 200, object{"EvalID": "e"}
	}
	f.schedule(j)
	return 200, object{"EvalID": "e"}
}

func namespaceOf(job object) string {
	in, _ := job["Namespace"].(string)
	return cmp.Or(in, "default")
}

// refuse returns why a job can be neither planned nor registered; empty if it can.
func (f *Server) refuse(job object) string {
	pool, _ := job["NodePool"].(string)
	if pool == "" || pool == "all" || slices.ContainsFunc(f.nodes, func(n *node) bool { return n.pool == pool }) {
		return ""
	}
	return fmt.Sprintf("1 error occurred:\n\t* job %q is in nonexistent node pool %q\n\n", job["ID"], pool)
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
	f.place(j, slices.MinFunc(fits, func(a, b *node) int { return cmp.Compare(load(a), load(b)) }))
}

// place starts a job on a node.
func (f *Server) place(j *job, node *node) {
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
	if words := f.refuse(in.Job); words != "" {
		return 500, words
	}
	j := &job{text: in.Job}
	fits := f.fitting(j)
	why := object{"NodesEvaluated": j.reached, "ConstraintFiltered": j.blocked}
	switch {
	case f.full && len(fits) > 0:
		why["NodesExhausted"], why["DimensionExhausted"] = len(fits), map[string]int{"memory": len(fits)}
	case len(fits) > 0:
		return 200, object{}
	}
	return 200, object{"FailedTGAllocs": object{"session": why}}
}

// attributes are those of every node.
var attributes = map[string]string{
	"attr.kernel.name": "linux", "attr.memory.totalbytes": strconv.Itoa(64 << 30), "attr.cpu.reservablecores": "8",
}

// fitting returns the nodes that a job can run on.
func (f *Server) fitting(j *job) (fits []*node) {
	constraints, _ := j.text["Constraints"].([]any)
	j.blocked, j.reached = map[string]int{}, 0
	for _, n := range f.nodes {
		if !n.within(j.text) {
			continue
		}
		j.reached++
		bad := ""
		for _, c := range constraints {
			rule := c.(object)
			if !n.meets(rule) {
				bad = fmt.Sprintf("%s %s %s", rule["LTarget"], rule["Operand"], rule["RTarget"])
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

// within reports whether a node is in the pool and the datacenters of a job.
func (n *node) within(text object) bool {
	pool, _ := text["NodePool"].(string)
	if pool = cmp.Or(pool, "default"); pool != "all" && pool != n.pool {
		return false
	}
	return slices.ContainsFunc(text["Datacenters"].([]any), func(dc any) bool { return dc == "*" || dc == "dc1" })
}

// meets reports whether a node meets a constraint.
func (n *node) meets(rule object) bool {
	name := strings.TrimSuffix(strings.TrimPrefix(rule["LTarget"].(string), "${"), "}")
	has, is := attributes[name]
	if key, ok := strings.CutPrefix(name, "meta."); ok {
		has, is = n.meta[key]
	}
	if name == "node.unique.id" {
		has, is = n.id, true
	}
	want := rule["RTarget"].(string)
	switch rule["Operand"] {
	case "=":
		return has == want
	case "!=":
		return has != want
	case "is_set":
		return is
	case ">=":
		left, err1 := strconv.ParseInt(has, 10, 64)
		right, err2 := strconv.ParseInt(want, 10, 64)
		return err1 == nil && err2 == nil && left >= right
	}
	panic(fmt.Sprintf("the fake does not know the operator %q", rule["Operand"]))
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
	case parts[0] == "vars": // any right on variables includes it
		return nil
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
