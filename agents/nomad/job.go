package nomad

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	// startTime is how long a node has to start session-run, and session-run to start the program. An image may have to be
	// fetched before.
	startTime = 2 * time.Minute
	// killSlack is added to the grace period, so that session-run can record how its session ended.
	killSlack = 10 * time.Second
)

// startLimit is how long a session may take to start on its node.
func startLimit(j *agents.Job) time.Duration {
	if j.Target.Driver == agents.DriverDocker {
		return pullTime + startTime
	}
	return startTime
}

// longest is the maximum time from a session's submission to the end of its last process.
func longest(j *agents.Job) time.Duration {
	return placeTime + startLimit(j) + j.Timeout + j.Grace + killSlack
}

// newOrder returns the order of a job.
func newOrder(j agents.Job, self string, now time.Time) *Order {
	j.Spent, j.Doing = nil, nil
	if j.Target.Driver == agents.DriverExec {
		j.OwnUser = false // Nomad starts session-run itself under the agent's account
	}
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
	Namespace string `json:",omitempty"`
	Path      string
	Items     map[string]string
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
	v := variable{Path: variablePath(id), Items: map[string]string{orderKey: string(text)}}
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

// orderFile is the file of an order in the secrets folder of its task, and orderVar the variable that has it instead,
// in base64, where a driver isolates the task.
const (
	orderFile = "order.json"
	orderVar  = "DISINTO_ORDER"
)

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
	Namespace   string
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

// listOrders returns the stored orders of the jobs whose name begins with a prefix, without their text.
func (c *client) listOrders(ctx context.Context, prefix string) (list []variable, err error) {
	query := url.Values{"prefix": {variablePath(prefix)}}
	_, err = c.call(ctx, http.MethodGet, "/vars", query, nil, &list)
	return list, err
}

// locate returns a client for the namespace of a job or its order, or for the configured one if neither exists.
func (e *Executor) locate(ctx context.Context, id string) (*client, error) {
	c := e.api().in(everywhere)
	var jobs []stub
	if _, err := c.call(ctx, http.MethodGet, "/jobs", url.Values{"prefix": {id}}, nil, &jobs); err != nil {
		return nil, err
	}
	for _, j := range jobs {
		if j.ID == id {
			return c.in(j.Namespace), nil
		}
	}
	orders, err := c.listOrders(ctx, id)
	for _, o := range orders {
		if o.Path == variablePath(id) {
			return c.in(o.Namespace), nil
		}
	}
	return e.api(), err
}

// unreported returns the runs of an instance that have an order or an unstopped job, sorted. A session whose end was
// reported has neither.
func (c *client) unreported(ctx context.Context, instance string) (runs []string, err error) {
	prefix := jobPrefix + instance + "-"
	jobs, _, err := c.listJobs(ctx, prefix, 0)
	if err != nil {
		return nil, err
	}
	orders, err := c.listOrders(ctx, prefix)
	if err != nil {
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
