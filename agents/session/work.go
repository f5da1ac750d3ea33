package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// work is what the environment says about the session: the contract, section 8 of the design.
type work struct {
	RunID, Agent, Role, Thread, Slot string
	Local                            bool // the thread's backend is a server of one's own
	Kind                             agents.Kind
	Repo                             string // owner/name
	Number                           int64  // 0 for scheduled work
	Model, BaseURL                   string // may be empty
	Workspace, ResultPath, Home      string
	ForgeURL, Token                  string
}

// readWork reads the contract. A variable that is missing means that somebody started the program by hand.
func readWork(environ []string) (work, error) {
	get := func(name string) string { return variable(environ, name) }
	w := work{
		RunID: get("DISINTO_RUN_ID"), Agent: get("DISINTO_AGENT"), Role: get("DISINTO_ROLE"), Thread: get("DISINTO_THREAD"),
		Slot: get("DISINTO_SLOT"), Local: get("DISINTO_BACKEND") == "local", Kind: agents.Kind(get("DISINTO_KIND")),
		Repo: get("DISINTO_REPO"), Model: get("DISINTO_MODEL"), BaseURL: strings.TrimSuffix(get("DISINTO_BASE_URL"), "/"),
		Workspace: get("DISINTO_WORKSPACE"), ResultPath: get("DISINTO_RESULT"), Home: get("HOME"),
		ForgeURL: strings.TrimSuffix(get("FORGE_URL"), "/"), Token: get("FORGE_TOKEN"),
	}
	var errs []error
	for _, name := range []string{"DISINTO_RUN_ID", "DISINTO_AGENT", "DISINTO_WORKSPACE", "DISINTO_RESULT", "HOME", "FORGE_URL", "FORGE_TOKEN"} {
		if get(name) == "" {
			errs = append(errs, fmt.Errorf("$%s is not set", name))
		}
	}
	if !forge.ValidRepo(w.Repo) {
		errs = append(errs, fmt.Errorf("$DISINTO_REPO is %q, want owner/name", w.Repo))
	}
	switch w.Kind {
	case agents.KindIssue, agents.KindReview, agents.KindRework:
		n, err := strconv.ParseInt(get("DISINTO_NUMBER"), 10, 64)
		if err != nil || n <= 0 {
			errs = append(errs, fmt.Errorf("$DISINTO_NUMBER is %q, want the number of an issue or pull request", get("DISINTO_NUMBER")))
		}
		w.Number = n
	case agents.KindSchedule:
	default:
		errs = append(errs, fmt.Errorf("$DISINTO_KIND is %q, want issue, review, rework or schedule", w.Kind))
	}
	if len(errs) > 0 {
		return w, fmt.Errorf("cannot work: %w (a supervisor starts this program, see disinto help agent)", errors.Join(errs...))
	}
	return w, nil
}

// variable is the last value of a variable in an environment, empty if there is none.
func variable(environ []string, name string) (value string) {
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}

// The files of a workspace, beside the worktree, so that a commit of everything does not take them along.
func (w *work) treePath() string    { return filepath.Join(w.Workspace, "repo") }
func (w *work) keepPath() string    { return filepath.Join(w.Workspace, "session.json") }
func (w *work) verdictPath() string { return filepath.Join(w.Workspace, "verdict.json") }
func (w *work) answerPath() string  { return filepath.Join(w.Workspace, "answer.json") }
func (w *work) lessonsPath() string { return filepath.Join(w.Workspace, "lessons.md") }

// mirrorPath is where the agent keeps its copy of the repository, for all of its worktrees.
func (w *work) mirrorPath() string {
	return filepath.Join(w.Home, "mirrors", strings.ReplaceAll(w.Repo, "/", "_")+".git")
}

// keep is what a workspace remembers from one session to the next on the same chain.
type keep struct {
	CLI     string `json:"cli"`
	Session string `json:"session"` // the CLI's conversation
	Thread  string `json:"thread"`
	Slot    string `json:"slot"` // whose cache holds it
	// Totals is what the conversation had used in all, for CLIs that count like that.
	Totals agents.Usage `json:"totals"`
	// Running says that a session began and did not end by itself: it was killed, or told to end.
	Running bool `json:"running"`
	// Interrupted says so of the session before this one.
	Interrupted bool `json:"-"`
}

// loadKeep reads what is there. A file that cannot be read costs a conversation, not work.
func loadKeep(path string) (k keep) {
	text, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(text, &k) != nil {
		return keep{}
	}
	return k
}

func (k *keep) save(path string) {
	text, err := json.Marshal(k)
	if err == nil {
		_ = writeFile(path, text)
	}
}

// writeResult leaves the result file, whole or not at all.
func writeResult(path string, o *agents.Outcome) error {
	doc := struct {
		Outcome   agents.Result `json:"outcome"`
		Reason    string        `json:"reason,omitempty"`
		RetryAt   string        `json:"retry_at,omitempty"`
		SessionID string        `json:"session_id,omitempty"`
		Usage     agents.Usage  `json:"usage"`
	}{o.Result, o.Reason, "", o.SessionID, o.Usage}
	if !o.RetryAt.IsZero() {
		doc.RetryAt = o.RetryAt.UTC().Format(time.RFC3339)
	}
	text, err := json.Marshal(doc)
	if err == nil {
		err = writeFile(path, text)
	}
	if err != nil {
		return fmt.Errorf("cannot leave a result: %w", err)
	}
	return nil
}

// writeFile writes a file so that a reader sees the old one or the new one.
func writeFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".writing-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(text)
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
