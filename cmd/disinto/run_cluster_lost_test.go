package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
)

// pushingAgent commits. Once a file with the name of its run exists, it pushes as the built-in agent does.
const pushingAgent = `
run=${DISINTO_RUN_ID#node.}
trap 'echo "heard $run" >>"$1/$DISINTO_NUMBER"; exit 3' TERM
url="${FORGE_URL%%//*}//$DISINTO_AGENT:$FORGE_TOKEN@${FORGE_URL#*//}/$DISINTO_REPO.git"
ref=refs/heads/fix/issue-$DISINTO_NUMBER
git clone -q "$url" "$HOME/$run" && cd "$HOME/$run" && echo "$run" >work && git add work &&
	git -c user.name=x -c user.email=x@x commit -q -m work || exit 9
echo "begin $run $DISINTO_ATTEMPT" >>"$1/$DISINTO_NUMBER"
while ! test -e "$1/push-$run"; do test -d "$1" || exit 1; sleep 0.05; done
git push -q --force-with-lease=$ref: "$url" HEAD:$ref 2>"$1/said-$run" && how=pushed || how=refused
echo "$how $run" >>"$1/$DISINTO_NUMBER"
echo '{"outcome":"refused","reason":"marked"}' >"$DISINTO_RESULT"
`

// A session is lost because its node is cut off from Nomad but not from the forge, or because a person stops or
// purges its job. Its issue is started again, and no attempt is counted. If the first program still runs, both push
// to one branch: the first push wins and the other is refused. Nomad's own restart of the first session starts no
// program.
func TestClusterLost(t *testing.T) {
	leftToStorms(t, "TestSecondStart, TestNodeGone and TestPurged of agents/nomad, and TestElsewhereGone of simtest")
	t.Parallel()
	for _, how := range []string{"partition", "stopped", "purged"} {
		t.Run(how, func(t *testing.T) {
			onFarms(t, 1, 1, func(c *farm) {
				c.script = pushingAgent
				if how == "partition" {
					c.partition()
					return
				}
				r := c.start("")
				first := c.begun()
				query := map[string]string{"stopped": "", "purged": "?purge=true"}[how]
				c.call(http.MethodDelete, "/job/disinto-"+first.RunID+query, nil, new(any))
				c.begunAgain(first)
				if lines := c.marked(1); len(lines) != 3 || lines[1] != "heard "+first.RunID {
					c.t.Errorf("got the lines %q", lines)
				}
				r.signal(syscall.SIGTERM)
				r.wait()
			})
		})
	}
}

// begun waits until the program of the first session has started.
func (c *farm) begun() control.SessionDocument {
	c.t.Helper()
	first := c.works(1).Sessions[0]
	eventually(c.t, "the first session's program starts", func() bool { return c.runs("begin") == 1 })
	return first
}

// begunAgain waits for a second session on the issue whose session was lost. It must be a first attempt.
func (c *farm) begunAgain(first control.SessionDocument) (second control.SessionDocument) {
	c.t.Helper()
	d := status(c.t, c.state, "another session", func(d *control.Document) bool {
		return len(d.Sessions) == 1 && d.Sessions[0].RunID != first.RunID && d.Sessions[0].Place != ""
	})
	second = d.Sessions[0]
	begun := "begin " + second.RunID + " 1"
	eventually(c.t, "the second session's program starts", func() bool {
		return strings.Contains(strings.Join(c.marked(1), "\n"), begun)
	})
	if p := c.past(); len(p) != 1 || p[0].Run != first.RunID || p[0].Outcome != agents.Lost || second.Attempt != 1 {
		c.t.Errorf("got ended sessions %+v and attempt %d", p, second.Attempt)
	}
	return second
}

func (c *farm) partition() {
	t := c.t
	t.Helper()
	c.nomad.hurry(8 * time.Second)
	r := c.start("")
	first := c.begun()
	node, _, _ := strings.Cut(first.Place, "/")
	mend := c.cut(node)
	defer mend()
	eventually(t, "Nomad's own second start is refused", func() bool { return c.refused(first.RunID) })
	r.signal(syscall.SIGKILL) // the next supervisor finds the deadline passed
	r.wait()
	c.expire(first.RunID)
	r = c.start("")
	second := c.begunAgain(first)
	if other, _, _ := strings.Cut(second.Place, "/"); other == node {
		t.Errorf("both sessions are on node %s", node)
	}
	for _, run := range []string{second.RunID, first.RunID} {
		c.touch("push-" + run)
		eventually(t, "the push", func() bool { return c.runs("pushed")+c.runs("refused") > 0 && c.said(run) })
	}
	lines := strings.Join(c.marked(1), "\n")
	want := strings.Join([]string{
		"begin " + first.RunID + " 1", "begin " + second.RunID + " 1", "pushed " + second.RunID, "refused " + first.RunID,
	}, "\n")
	said, _ := os.ReadFile(filepath.Join(c.marks, "said-"+first.RunID))
	if lines != want || !bytes.Contains(said, []byte("[rejected]")) {
		t.Errorf("got the lines\n%s\nwant\n%s\nand git printed %s", lines, want, said)
	}
	t.Logf("git printed for the first session: %s", said)
	mend()
	d := status(t, c.state, "no session runs", func(d *control.Document) bool { return len(d.Sessions) == 0 })
	if d.Recent[0].RunID != second.RunID || d.Recent[0].Outcome != agents.Refused {
		t.Errorf("got the last session %+v", d.Recent[0])
	}
	r.signal(syscall.SIGTERM)
	r.wait()
	c.wantNothingLeft()
}

// said reports whether a run's session has written the result of its push.
func (c *farm) said(run string) bool {
	lines := strings.Join(c.marked(1), "\n") + "\n"
	return strings.Contains(lines, "pushed "+run+"\n") || strings.Contains(lines, "refused "+run+"\n")
}

// cut disconnects a node from Nomad, but leaves its processes running and connected to the forge. mend reconnects it
// and may be called more than once.
func (c *farm) cut(node string) (mend func()) {
	if c.fake != nil {
		c.fake.Disconnect(node, true)
		return func() { c.fake.Reconnect(node) }
	}
	program := os.Getenv("NOMAD_TEST_AGENTS")
	if program == "" {
		c.t.Skip("NOMAD_TEST_AGENTS is not set")
	}
	control := func(what string) {
		if out, err := exec.Command(program, what, node).CombinedOutput(); err != nil {
			c.t.Errorf("%s %s: %v\n%s", what, node, err, out)
		}
	}
	control("stop")
	return func() { control("cont") }
}

// refused reports whether the fence refused a second start of a run.
func (c *farm) refused(run string) bool {
	var list []struct {
		TaskStates map[string]struct {
			Events []struct{ Details map[string]string }
		}
	}
	c.call(http.MethodGet, "/job/disinto-"+run+"/allocations?all=true", nil, &list)
	for _, a := range list {
		for _, e := range a.TaskStates["session"].Events {
			if e.Details["exit_code"] == "75" {
				return true
			}
		}
	}
	return false
}

// expire sets the deadline of a run to a time long past.
func (c *farm) expire(run string) {
	c.t.Helper()
	var v struct {
		Path  string
		Items map[string]string
	}
	path := "/var/nomad/jobs/disinto-" + run
	c.call(http.MethodGet, path, nil, &v)
	var order map[string]any
	if err := json.Unmarshal([]byte(v.Items["order"]), &order); err != nil {
		c.t.Fatal(err)
	}
	order["Deadline"] = time.Now().Add(-2 * time.Minute)
	text, _ := json.Marshal(order)
	v.Items["order"] = string(text)
	c.call(http.MethodPut, path, v, new(any))
}

// hurry shortens the time after which Nomad treats a disconnected node's sessions as lost, in each job registered.
func (g *gateway) hurry(lostAfter time.Duration) {
	to := g.to
	g.to = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && r.URL.Path == "/v1/jobs" {
			var body map[string]any
			if json.NewDecoder(r.Body).Decode(&body) != nil { // the client has gone
				return
			}
			group := body["Job"].(map[string]any)["TaskGroups"].([]any)[0].(map[string]any)
			group["Disconnect"].(map[string]any)["LostAfter"] = lostAfter
			text, _ := json.Marshal(body)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		}
		to.ServeHTTP(w, r)
	})
}
