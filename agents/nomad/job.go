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
	taskName  = "session" // of the only task, and of its group
	// orderFormat counts up with what an older session-run would get wrong: 2 is for a folder of files. An order has the
	// lowest format that it can.
	orderFormat    = 2
	plainFormat    = 1
	documentFormat = 1
	// maxOrder is the size of a variable that Nomad takes, less its key.
	maxOrder = 64<<10 - 64
)

// jobID is the name of the job of a run. Nomad accepts it once.
func jobID(run string) string { return jobPrefix + run }

// Order is a session as session-run needs it. It is stored encrypted, because it has the session's secrets.
type Order struct {
	Format   int
	Job      agents.Job
	Secrets  []string          // of the job's environment, as NAME=value
	Own      bool              // the first word of the job's command is disinto
	Deadline time.Time         // after which nothing of the session runs any more
	Paths    map[string]string // of the host volume, by the id of the node; empty without one
	Folder   *Folder           `json:",omitempty"` // that the command names; nil for none
}

// Folder is a folder of small files on the supervisor's machine. On the node each word of the command that is its path
// becomes that of a copy.
type Folder struct {
	Path  string
	Files map[string]string // text by name
}

const (
	// placeTime is how long a job may wait for a node that takes it.
	placeTime = 30 * time.Second
	// startTime is how long a node may take to start session-run, and that to begin.
	startTime = 2 * time.Minute
	// killSlack is added to the grace for session-run, which then writes down how its session ended.
	killSlack = 10 * time.Second
)

// longest is the most time that a session takes from its submission to the end of its last process.
func longest(j *agents.Job) time.Duration {
	return placeTime + startTime + j.Timeout + j.Grace + killSlack
}

// newOrder is the order of a job.
func newOrder(j agents.Job, self string, now time.Time) *Order {
	j.Spent = nil
	return &Order{
		Format: plainFormat, Job: j, Secrets: j.Secrets, Own: len(j.Command) > 0 && j.Command[0] == self,
		Deadline: now.Add(longest(&j)).UTC(),
	}
}

// carry adds a folder of files to an order.
func (o *Order) carry(f *Folder) {
	if f != nil {
		o.Format, o.Folder = orderFormat, f
	}
}

// variable is where Nomad keeps an order: a job reads the variables below its own name without a policy.
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

// errTooLong is about a session that no variable can hold.
var errTooLong = errors.New("the session's command, environment and prompts are too long")

// getOrder reads an order back; nil when there is none.
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

// parseOrder reads an order.
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

// table is an object of Nomad's API.
type table = map[string]any

// deadlineKey is the name of the deadline in the metadata.
const deadlineKey = "disinto_deadline"

// describe is the job of an order. It has no secret in it.
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

// constraints are rules for nodes, in Nomad's words, and that the node is a Linux one.
func constraints(rules []agents.NodeRule) []table {
	all := []table{{"LTarget": "${attr.kernel.name}", "RTarget": "linux", "Operand": "="}}
	for _, r := range rules {
		all = append(all, table{"LTarget": "${" + r.Attribute + "}", "RTarget": r.Value, "Operand": "="})
	}
	return all
}

// group is the only group of a job. Nomad is to start it once, and to leave it alone when its node is out of reach.
func group(id string, o *Order, cfg Config) table {
	logMB := 64
	if o.Job.MaxLog > 0 { // no log grows beyond that, so none is rotated
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
	if cfg.Volume != "" { // raw_exec mounts none: session-run finds it by its path, and Nomad the nodes that have it
		g["Volumes"] = table{cfg.Volume: table{"Name": cfg.Volume, "Type": "host", "Source": cfg.Volume}}
	}
	return g
}

// Resources of a session. Slots are scarce, and they are counted elsewhere: so every session asks for little of a
// processor, and gets more wherever there is more.
const (
	sessionMHz  = 100
	sessionMB   = 2048 // of an agent without a limit of memory
	sessionRunB = 48 << 20
)

// task is the only task of a job.
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
		"KillTimeout": o.Job.Grace + killSlack,
		"Resources":   table{"CPU": sessionMHz, "MemoryMB": memory},
		"LogConfig":   table{"MaxFiles": 2, "MaxFileSizeMB": logMB},
		"Templates": []table{{
			"EmbeddedTmpl": fmt.Sprintf(`{{with nomadVar %q}}{{.%s}}{{end}}`, variablePath(id), orderKey),
			"DestPath":     "secrets/" + orderFile, "Perms": "0600", "ChangeMode": "noop",
		}},
	}
}

// memoryLimit is the memory that a session gets, for people.
func memoryLimit(j *agents.Job) string {
	if j.Limits.Memory == 0 {
		return agents.Size(sessionMB<<20) + ", as it has none of its own"
	}
	return agents.Size(j.Limits.Memory)
}

const orderFile = "order.json"

// register submits a job. A second one of the same name is refused, so that the first one counts: register may be
// repeated.
func (c *client) register(ctx context.Context, job table) error {
	_, err := c.call(ctx, http.MethodPut, "/jobs", nil, table{"Job": job, "EnforceIndex": true, "JobModifyIndex": 0}, nil)
	if no, ok := errors.AsType[*refusal](err); ok && strings.Contains(no.words, "job already exists") {
		return nil
	}
	return err
}

// stop asks Nomad to end a job. A job that is not there is a success.
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

// stub is a job in a list.
type stub struct {
	ID          string
	ModifyIndex uint64
	JobSummary  struct{ ModifyIndex uint64 }
}

// unstopped selects the jobs that were not stopped.
const unstopped = "Stop == false"

// listJobs returns the jobs whose name begins with a prefix and that were not stopped. With an index it waits until
// that has been passed.
func (c *client) listJobs(ctx context.Context, prefix string, after uint64) (list []stub, index uint64, err error) {
	query := url.Values{"prefix": {prefix}, "filter": {unstopped}}
	if after > 0 {
		query.Set("index", fmt.Sprint(after))
		query.Set("wait", waitTime.String())
	}
	index, err = c.call(ctx, http.MethodGet, "/jobs", query, nil, &list)
	return list, index, err
}

// kept returns the runs of an instance that have an order or a job that was not stopped, sorted. A session whose end
// was told has neither.
func (c *client) kept(ctx context.Context, instance string) (runs []string, err error) {
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
