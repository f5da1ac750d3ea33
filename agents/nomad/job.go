package nomad

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

const (
	jobPrefix = "disinto-"
	taskName  = "session" // name of the only task, and of its group
	// orderFormat is incremented for anything that an older session-run would get wrong: 2 adds a folder of files. Each
	// order has the lowest possible format.
	orderFormat    = 2
	plainFormat    = 1
	documentFormat = 1
	// maxOrder is the maximum size of a Nomad variable, less its key.
	maxOrder = 64<<10 - 64
)

// jobID returns the job name of a run. Nomad accepts each name once.
func jobID(run string) string { return jobPrefix + run }

// Order is everything that session-run must know about a session. It is stored encrypted, because it contains
// secrets.
type Order struct {
	Format   int
	Job      agents.Job
	Secrets  []string          // secrets of the job's environment, as NAME=value
	Own      bool              // the first word of the job's command is disinto itself
	Deadline time.Time         // after which no process of the session runs
	Paths    map[string]string // of the host volume, by node id; empty without a volume
	Folder   *Folder           `json:",omitempty"` // folder that the command names; nil if none
}

// Folder is a folder of small files on the supervisor's machine. The node copies it, and replaces each word of the
// command that equals Path by the path of the copy.
type Folder struct {
	Path  string
	Files map[string]string // text by name
}

const (
	// placeTime is how long a job waits for a node.
	placeTime = 30 * time.Second
	// startTime is how long a node has to start session-run, and session-run to start the program.
	startTime = 2 * time.Minute
	// killSlack is added to the grace period, so that session-run can record how its session ended.
	killSlack = 10 * time.Second
)

// longest is the maximum time from a session's submission to the end of its last process.
func longest(j *agents.Job) time.Duration {
	return placeTime + startTime + j.Timeout + j.Grace + killSlack
}

// newOrder returns the order of a job.
func newOrder(j agents.Job, self string, now time.Time) *Order {
	j.Spent = nil
	return &Order{
		Format: plainFormat, Job: j, Secrets: j.Secrets, Own: len(j.Command) > 0 && j.Command[0] == self,
		Deadline: now.Add(longest(&j)).UTC(),
	}
}

// addFolder adds a folder of files to an order.
func (o *Order) addFolder(f *Folder) {
	if f != nil {
		o.Format, o.Folder = orderFormat, f
	}
}

// variable is the Nomad variable that stores an order. A job can read the variables below its own name without a
// policy.
type variable struct {
	Path  string
	Items map[string]string
}

const orderKey = "order"

func variablePath(id string) string { return "nomad/jobs/" + id }

// putOrder stores an order.
func (c *client) putOrder(ctx context.Context, id string, o *Order) error {
	text, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("internal error: %w", err)
	}
	if len(text) > maxOrder {
		return fmt.Errorf("%w: %d bytes, and a variable of Nomad takes %d", errTooLong, len(text), maxOrder)
	}
	v := variable{variablePath(id), map[string]string{orderKey: string(text)}}
	_, err = c.call(ctx, http.MethodPut, "/var/"+v.Path, nil, v, nil)
	return err
}

// errTooLong is the error for an order that exceeds a variable.
var errTooLong = errors.New("the session's command, environment and prompts are too long")

// getOrder returns a stored order, or nil if there is none.
func (c *client) getOrder(ctx context.Context, id string) (*Order, error) {
	var v variable
	if _, err := c.call(ctx, http.MethodGet, "/var/"+variablePath(id), nil, nil, &v); err != nil {
		if isMissing(err) {
			return nil, nil
		}
		return nil, err
	}
	return parseOrder([]byte(v.Items[orderKey]))
}

// parseOrder decodes an order.
func parseOrder(text []byte) (*Order, error) {
	o := new(Order)
	if err := json.Unmarshal(text, o); err != nil {
		return nil, fmt.Errorf("cannot read the order of the session: %w", err)
	}
	if o.Format < plainFormat || o.Format > orderFormat {
		return nil, fmt.Errorf("cannot read the order of the session: it has the format %d, and this disinto knows %d; "+
			"install the supervisor's version", o.Format, orderFormat)
	}
	o.Job.Secrets = o.Secrets
	return o, nil
}

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
	datacenters := cfg.Datacenters
	if len(datacenters) == 0 {
		datacenters = []string{"*"}
	}
	job := table{
		"ID": id, "Name": id, "Type": "batch", "Datacenters": datacenters, "Meta": meta,
		"Constraints": constraints(j.Nodes), "TaskGroups": []table{group(id, o, cfg)},
	}
	if node, _, ok := strings.Cut(j.Place, "/"); ok && node != "" {
		job["Affinities"] = []table{{"LTarget": "${node.unique.name}", "RTarget": node, "Operand": "=", "Weight": 100}}
	}
	if cfg.Namespace != "" {
		job["Namespace"] = cfg.Namespace
	}
	if cfg.Region != "" {
		job["Region"] = cfg.Region
	}
	return job
}

// constraints converts rules for nodes to Nomad's format, and adds that the node runs Linux.
func constraints(rules []agents.NodeRule) []table {
	all := []table{{"LTarget": "${attr.kernel.name}", "RTarget": "linux", "Operand": "="}}
	for _, r := range rules {
		all = append(all, table{"LTarget": "${" + r.Attribute + "}", "RTarget": r.Value, "Operand": "="})
	}
	return all
}

// group returns the only group of a job. Nomad must start it once, and leave it alone while its node is unreachable.
func group(id string, o *Order, cfg Config) table {
	logMB := 64
	if o.Job.MaxLog > 0 { // no log grows larger, so none is rotated
		logMB = int(o.Job.MaxLog>>20) + 2
	}
	g := table{
		"Name": taskName, "Count": 1,
		"RestartPolicy":    table{"Attempts": 0, "Mode": "fail"},
		"ReschedulePolicy": table{"Attempts": 0, "Unlimited": false},
		"Disconnect": table{
			"LostAfter": longest(&o.Job) + time.Hour, "Replace": false, "Reconcile": "keep_original",
		},
		"EphemeralDisk": table{"SizeMB": 2*logMB + 200},
		"Tasks":         []table{task(id, o, cfg, logMB)},
	}
	if cfg.Volume != "" { // raw_exec mounts nothing: Nomad picks nodes with the volume, and session-run finds it by path
		g["Volumes"] = table{cfg.Volume: table{"Name": cfg.Volume, "Type": "host", "Source": cfg.Volume}}
	}
	return g
}

// Resources of a session. Slots are the scarce resource, and the supervisor counts them. So every session requests
// little CPU, and gets more when the node has more.
const (
	sessionMHz  = 100
	sessionMB   = 2048 // for an agent without a memory limit
	sessionRunB = 48 << 20
)

// task returns the only task of a job.
func task(id string, o *Order, cfg Config, logMB int) table {
	memory := int64(sessionMB)
	if o.Job.Limits.Memory > 0 {
		memory = (o.Job.Limits.Memory + sessionRunB) >> 20
	}
	return table{
		"Name": taskName, "Driver": "raw_exec",
		"Config":      table{"command": cmp.Or(cfg.Program, "disinto"), "args": []string{"session-run"}},
		"Env":         table{"DISINTO_NODE": "${node.unique.id}", "DISINTO_NODE_NAME": "${node.unique.name}"},
		"KillSignal":  "SIGTERM",
		"KillTimeout": killTimeout(o.Job.Grace),
		"Resources":   table{"CPU": sessionMHz, "MemoryMB": memory},
		"LogConfig":   table{"MaxFiles": 2, "MaxFileSizeMB": logMB},
		"Templates": []table{{
			"EmbeddedTmpl": fmt.Sprintf(`{{with nomadVar %q}}{{.%s}}{{end}}`, variablePath(id), orderKey),
			"DestPath":     "secrets/" + orderFile, "Perms": "0600", "ChangeMode": "noop",
		}},
	}
}

// memoryLimit formats the memory of a session, for people.
func memoryLimit(j *agents.Job) string {
	if j.Limits.Memory == 0 {
		return agents.Size(sessionMB<<20) + ", the default without a memory limit"
	}
	return agents.Size(j.Limits.Memory)
}

const orderFile = "order.json"

// register submits a job. Nomad refuses a second job with the same name, so register can be repeated, and the first
// submission counts.
func (c *client) register(ctx context.Context, job table) error {
	_, err := c.call(ctx, http.MethodPut, "/jobs", nil, table{"Job": job, "EnforceIndex": true, "JobModifyIndex": 0}, nil)
	if no, ok := errors.AsType[*refusal](err); ok && strings.Contains(no.words, "job already exists") {
		return nil
	}
	return err
}

// stop makes Nomad end a job. A missing job is a success.
func (c *client) stop(ctx context.Context, id string) error {
	_, err := c.call(ctx, http.MethodDelete, "/job/"+escape(id), nil, nil, nil)
	if isMissing(err) {
		return nil
	}
	return err
}

// dropOrder deletes an order.
func (c *client) dropOrder(ctx context.Context, id string) error {
	_, err := c.call(ctx, http.MethodDelete, "/var/"+variablePath(id), nil, nil, nil)
	if isMissing(err) {
		return nil
	}
	return err
}

// stub is a job in Nomad's list.
type stub struct {
	ID          string
	ModifyIndex uint64
	JobSummary  struct{ ModifyIndex uint64 }
}

// unstopped selects the jobs that were not stopped.
const unstopped = "Stop == false"

// listJobs returns the unstopped jobs whose name begins with a prefix. With an index it waits until the cluster has
// passed that index.
func (c *client) listJobs(ctx context.Context, prefix string, after uint64) (list []stub, index uint64, err error) {
	query := url.Values{"prefix": {prefix}, "filter": {unstopped}}
	if after > 0 {
		query.Set("index", fmt.Sprint(after))
		query.Set("wait", waitTime.String())
	}
	index, err = c.call(ctx, http.MethodGet, "/jobs", query, nil, &list)
	return list, index, err
}

// unreported returns the runs of an instance that have an order or an unstopped job, sorted. A session whose end was
// reported has neither.
func (c *client) unreported(ctx context.Context, instance string) (runs []string, err error) {
	prefix := jobPrefix + instance + "-"
	jobs, _, err := c.listJobs(ctx, prefix, 0)
	if err != nil {
		return nil, err
	}
	var orders []variable
	query := url.Values{"prefix": {variablePath(prefix)}}
	if _, err = c.call(ctx, http.MethodGet, "/vars", query, nil, &orders); err != nil {
		return nil, err
	}
	for _, j := range jobs {
		runs = append(runs, strings.TrimPrefix(j.ID, jobPrefix))
	}
	for _, o := range orders {
		runs = append(runs, strings.TrimPrefix(o.Path, variablePath(jobPrefix)))
	}
	slices.Sort(runs)
	return slices.Compact(runs), nil
}
