package nomad

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// table is a JSON object of Nomad's API.
type table = map[string]any

// deadlineKey is the name of the deadline in the job's metadata.
const deadlineKey = "disinto_deadline"

// describe returns the Nomad job of an order. It contains no secrets.
func describe(id string, o *Order, cfg Config) table {
	j := &o.Job
	meta := table{
		"disinto_instance": j.Instance, "disinto_run": j.RunID, "disinto_agent": j.Agent, "disinto_claim": j.Claim,
		"disinto_item": fmt.Sprintf("%s#%d", j.Repo, j.Number), deadlineKey: o.Deadline.Format(time.RFC3339),
	}
	maps.DeleteFunc(meta, func(_ string, v any) bool { return v == "" })
	job := whereabouts(id, j, cfg)
	job["Type"], job["Meta"], job["Priority"] = "batch", meta, priority(j)
	job["TaskGroups"] = []table{group(id, o, cfg)}
	if node, _, ok := strings.Cut(j.Place, "/"); ok && node != "" {
		job["Affinities"] = []table{{"LTarget": "${node.unique.name}", "RTarget": node, "Operand": "=", "Weight": 100}}
	}
	return job
}

// whereabouts returns a job that says only on which nodes it can run.
func whereabouts(id string, j *agents.Job, cfg Config) table {
	datacenters := j.Target.Datacenters
	if len(datacenters) == 0 {
		datacenters = cfg.Datacenters
	}
	if len(datacenters) == 0 {
		datacenters = []string{"*"}
	}
	job := table{"ID": id, "Name": id, "Datacenters": datacenters, "Constraints": constraints(j.Nodes)}
	for key, value := range map[string]string{
		"Namespace": cmp.Or(j.Target.Namespace, cfg.Namespace), "Region": cfg.Region, "NodePool": j.Target.Pool,
	} {
		if value != "" {
			job[key] = value
		}
	}
	return job
}

// defaultPriority is Nomad's.
const defaultPriority = 50

// priority returns the priority of a job in Nomad, where 100 is the most urgent. All sessions are within nine, because
// a job can only preempt one whose priority is lower by at least ten: no session ends another.
func priority(j *agents.Job) int {
	if j.Priority == 0 {
		return defaultPriority
	}
	return defaultPriority + forge.DefaultPriority - j.Priority
}

// constraints converts rules for nodes to Nomad's format, and adds that the node runs Linux.
func constraints(rules []agents.NodeRule) []table {
	all := []table{constraint("attr.kernel.name", "=", "linux")}
	for _, r := range rules {
		all = append(all, constraint(r.Attribute, cmp.Or(r.Operator, "="), r.Value))
	}
	return all
}

func constraint(attribute, operator, value string) table {
	return table{"LTarget": "${" + attribute + "}", "RTarget": value, "Operand": operator}
}

// group returns the only group of a job. Nomad must start it once, and leave it alone while its node is unreachable.
func group(id string, o *Order, cfg Config) table {
	logMB := 64
	if o.Job.MaxLog > 0 { // no log grows larger, so none is rotated
		logMB = int(o.Job.MaxLog>>20) + 2
	}
	g := bareGroup(&o.Job, cfg)
	g["ReschedulePolicy"] = table{"Attempts": 0, "Unlimited": false}
	g["Disconnect"] = table{
		"LostAfter": longest(&o.Job) + time.Hour, "Replace": false, "Reconcile": "keep_original",
	}
	g["EphemeralDisk"] = table{"SizeMB": 2*logMB + 200}
	task := task(&o.Job, cfg)
	task["KillSignal"], task["KillTimeout"] = "SIGTERM", killTimeout(o.Job.Grace)
	task["Resources"] = resources(&o.Job)
	task["LogConfig"] = table{"MaxFiles": 2, "MaxFileSizeMB": logMB}
	task["Templates"] = []table{template(id, &o.Job)}
	g["Tasks"] = []table{task}
	return g
}

// bareGroup returns a group without its task, which starts once on a node with the volume. raw_exec mounts nothing:
// Nomad picks nodes with the volume, and session-run finds it by path.
func bareGroup(j *agents.Job, cfg Config) table {
	g := table{"Name": taskName, "Count": 1, "RestartPolicy": table{"Attempts": 0, "Mode": "fail"}}
	if cfg.Volume != "" {
		g["Volumes"] = table{cfg.Volume: table{"Name": cfg.Volume, "Type": "host", "Source": cfg.Volume}}
	}
	return g
}

// mounted is the path of the volume for a session that its driver isolates from its node.
const mounted = "/disinto"

// rawExec is the driver that starts sessions on the node itself.
const rawExec = "raw_exec"

func driverOf(j *agents.Job) string { return cmp.Or(j.Target.Driver, rawExec) }

// isolated reports whether the driver keeps a session away from the files of its node.
func isolated(j *agents.Job) bool { return driverOf(j) != rawExec }

// task returns the only task of a job, as far as each session needs it.
func task(j *agents.Job, cfg Config) table {
	config := table{"command": cmp.Or(cfg.Program, "disinto"), "args": []string{"session-run"}}
	env := table{"DISINTO_NODE": "${node.unique.id}", "DISINTO_NODE_NAME": "${node.unique.name}"}
	t := table{"Name": taskName, "Driver": driverOf(j), "Config": config, "Env": env}
	if j.Target.Driver == agents.DriverDocker {
		// The node's network, as with the other drivers: the addresses of forge and model are the same everywhere. The image
		// may have an entrypoint of its own.
		config["image"], config["network_mode"] = j.Target.Image, "host"
		config["entrypoint"], config["command"] = []string{config["command"].(string)}, "session-run"
		delete(config, "args")
	}
	if j.Target.Driver == agents.DriverExec && j.User != "" {
		t["User"] = j.User // session-run, too: by default Nomad refuses to start root there
	}
	if isolated(j) && cfg.Volume != "" {
		env["DISINTO_VOLUME"] = mounted
		t["VolumeMounts"] = []table{{"Volume": cfg.Volume, "Destination": mounted}}
	}
	return t
}

// template returns the template that hands the order to session-run: as a file that session-run deletes, or in the
// environment where session-run has an account that cannot read Nomad's files.
func template(id string, j *agents.Job) table {
	t := table{
		"EmbeddedTmpl": fmt.Sprintf(`{{with nomadVar %q}}{{.%s}}{{end}}`, variablePath(id), orderKey),
		"DestPath":     "secrets/" + orderFile, "Perms": "0600", "ChangeMode": "noop",
	}
	if isolated(j) {
		t["EmbeddedTmpl"] = fmt.Sprintf(
			`%s={{with nomadVar %q}}{{.%s.Value | base64Encode}}{{end}}`, orderVar, variablePath(id), orderKey)
		t["Envvars"] = true
	}
	return t
}

// Resources of a session. Slots are the scarce resource, and the supervisor counts them. So every session requests
// little CPU, and gets more when the node has more.
const (
	sessionMHz  = 100
	sessionMB   = 2048 // for an agent without a memory limit
	sessionRunB = 48 << 20
)

func resources(j *agents.Job) table {
	r := table{"CPU": sessionMHz, "MemoryMB": memoryMB(j)}
	if j.Limits.Cores > 0 {
		delete(r, "CPU") // Nomad takes one of them
		r["Cores"] = j.Limits.Cores
	}
	if j.Limits.MemoryMax > 0 {
		r["MemoryMaxMB"] = (j.Limits.MemoryMax + sessionRunB) >> 20
	}
	return r
}

// memoryMB returns the memory that Nomad reserves for a session, in MiB.
func memoryMB(j *agents.Job) int64 {
	if j.Limits.Memory == 0 {
		return sessionMB
	}
	return (j.Limits.Memory + sessionRunB) >> 20
}

// memoryLimit formats the memory of a session, for people.
func memoryLimit(j *agents.Job) string {
	if j.Limits.Memory == 0 {
		return agents.Size(sessionMB<<20) + ", the default without a memory limit"
	}
	return agents.Size(max(j.Limits.Memory, j.Limits.MemoryMax))
}
