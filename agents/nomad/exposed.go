package nomad

import (
	"errors"
	"fmt"
	"path/filepath"

	"codeberg.org/johba/disinto/agents"
)

// errExposed is the error for a session that could read the orders of other sessions of its node, with their tokens,
// and the secret id of the node: it has the account of Nomad's client, often root, and nothing confines it.
var errExposed = errors.New("a session without `user` needs a sandbox on a node, because it could read the tokens of " +
	"other sessions there")

// exposed returns an error for a session that needs a sandbox, or an account of its own, and has neither.
func exposed(j *agents.Job) error {
	if j.User == "" && !j.Sandbox.On() && !isolated(j) {
		return fmt.Errorf("%w: set `user`, or do not turn the sandbox off", errExposed)
	}
	return nil
}

// checkExposed is exposed for this node, which may have no sandbox.
func (p *SessionRun) checkExposed(j *agents.Job) error {
	if err := exposed(j); err != nil || j.User != "" || isolated(j) || p.NoSandbox == nil {
		return err
	}
	if err := p.NoSandbox(); err != nil {
		return fmt.Errorf("%w, and this node has none: %w", errExposed, err)
	}
	return nil
}

// nomadDir returns the folder of Nomad's client that contains this allocation, which is
// DATA/alloc/ALLOCATION/TASK/local. It holds the orders of other sessions, and the secret id of the node. Of a folder
// for allocations that has another name, it is known only that it contains them. An isolated session sees of all that
// only the secrets of its own task.
func (p *SessionRun) nomadDir(j *agents.Job) string {
	if isolated(j) {
		return p.getenv("NOMAD_SECRETS_DIR")
	}
	allocs := filepath.Dir(filepath.Dir(filepath.Dir(p.getenv("NOMAD_TASK_DIR"))))
	if filepath.Base(allocs) == "alloc" {
		return filepath.Dir(allocs)
	}
	return allocs
}
