package session

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/forge"
)

// work is the session's part of the environment contract (section 8 of the design).
type work struct {
	RunID, Agent, Role, Thread, Slot string
	Local                            bool // the thread's backend is a server of the operator
	Kind                             agents.Kind
	Tried                            []agents.Tried
	Repo                             string  // owner/name
	Number                           int64   // 0 for scheduled work
	Plan                             bool    // the session plans how to do the issue, and does not do it
	Split                            bool    // the session plans which issues this one becomes
	Conflict                         bool    // the forge reports that the pull request does not merge
	Attempt                          int     // from 1; 0 if unknown
	About                            []int64 // ids of comments: our question or plan, and people's answers
	Model, BaseURL                   string  // may be empty
	ReadAll                          bool    // include texts of accounts without write access
	MaxUnseen                        int64   // size up to which a file that is only listed counts as shown, in bytes
	Workspace, ResultPath, Home      string
	ForgeURL, Token                  string
	Room                             agents.Room
	Egress                           string        // words for the hosts that it may reach; empty: all
	Left                             agents.Budget // the rest of the session's budget; a zero field means no limit
}

// readWork decodes the contract. Variables are missing if a person started the program by hand.
func readWork(environ []string) (work, error) {
	get := func(name string) string { return agents.Getenv(environ, name) }
	w := work{
		RunID: get("DISINTO_RUN_ID"), Agent: get("DISINTO_AGENT"), Role: get("DISINTO_ROLE"), Thread: get("DISINTO_THREAD"),
		Slot: get("DISINTO_SLOT"), Local: agents.Backend(get("DISINTO_BACKEND")).Server(),
		Kind: agents.Kind(get("DISINTO_KIND")),
		Repo: get("DISINTO_REPO"), Model: get("DISINTO_MODEL"), BaseURL: strings.TrimSuffix(get("DISINTO_BASE_URL"), "/"),
		Workspace: get("DISINTO_WORKSPACE"), ResultPath: get("DISINTO_RESULT"), Home: get("HOME"),
		ForgeURL: strings.TrimSuffix(get("FORGE_URL"), "/"), Token: get("FORGE_TOKEN"),
		ReadAll: get("DISINTO_READERS") == agents.ReadersAll,
		Tried:   agents.ParseTried(get("DISINTO_TRIED")),
		Plan:    agents.PlansOnly(get("DISINTO_CAUSE")), Split: get("DISINTO_CAUSE") == agents.CauseSplit,
		Conflict: get("DISINTO_CAUSE") == "conflict",
		About:    numbers(get("DISINTO_COMMENTS")), Egress: get(agents.EgressVar),
	}
	w.Attempt, _ = strconv.Atoi(get("DISINTO_ATTEMPT"))
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, name := range []string{
		"DISINTO_RUN_ID", "DISINTO_AGENT", "DISINTO_WORKSPACE", "DISINTO_RESULT", "HOME", "FORGE_URL", "FORGE_TOKEN",
	} {
		if get(name) == "" {
			wrong("$%s is not set", name)
		}
	}
	var err error
	if w.Room, err = agents.ParseRoom(get(agents.RoomVar)); err != nil {
		wrong("%w", err)
	}
	if text := get("DISINTO_MAX_TOKENS"); text != "" {
		if w.Left.Tokens, err = strconv.ParseInt(text, 10, 64); err != nil || w.Left.Tokens <= 0 {
			wrong("$DISINTO_MAX_TOKENS is %q, want a number of tokens", text)
		}
	}
	if text := get("DISINTO_MAX_USD"); text != "" {
		if w.Left.USD, err = strconv.ParseFloat(text, 64); err != nil || !(w.Left.USD > 0) {
			wrong("$DISINTO_MAX_USD is %q, want an amount of dollars", text)
		}
	}
	if w.MaxUnseen, err = strconv.ParseInt(cmp.Or(get("DISINTO_MAX_UNSEEN"), "0"), 10, 64); err != nil {
		wrong("$DISINTO_MAX_UNSEEN is %q, want a number of bytes", get("DISINTO_MAX_UNSEEN"))
	}
	if !forge.ValidRepo(w.Repo) {
		wrong("$DISINTO_REPO is %q, want owner/name", w.Repo)
	}
	switch w.Kind {
	case agents.KindIssue, agents.KindReview, agents.KindRework:
		if w.Number, err = strconv.ParseInt(get("DISINTO_NUMBER"), 10, 64); err != nil || w.Number <= 0 {
			wrong("$DISINTO_NUMBER is %q, want the number of an issue or pull request", get("DISINTO_NUMBER"))
		}
	case agents.KindSchedule:
	default:
		wrong("$DISINTO_KIND is %q, want issue, review, rework or schedule", w.Kind)
	}
	if len(errs) > 0 {
		return w, fmt.Errorf("cannot work: %w (a supervisor starts this program, see disinto help agent)",
			errors.Join(errs...))
	}
	return w, nil
}

// numbers reads numbers with commas between them.
func numbers(text string) (list []int64) {
	for word := range strings.SplitSeq(text, ",") {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			list = append(list, n)
		}
	}
	return list
}

// ref returns the item's reference.
func (w *work) ref() forge.Ref { return forge.Ref{Repo: w.Repo, Number: w.Number} }

// repoURL returns the repository's address for git, without credentials.
func (w *work) repoURL() string { return w.ForgeURL + "/" + w.Repo + ".git" }

// maxLeft is the maximum size of each file read from a workspace, in bytes: a session can replace it with anything.
const maxLeft = 1 << 20

// The files of a workspace are beside the worktree, so that no commit includes them.
func (w *work) treePath() string { return filepath.Join(w.Workspace, "repo") }

// asidePath is the folder in which a review's CLI starts. The branch's author controls the worktree, and every CLI runs
// programs that its working directory, or a parent of it, configures: hooks, servers, plugins.
func (w *work) asidePath() string { return filepath.Join(w.Workspace, "aside") }

func (w *work) statePath() string   { return filepath.Join(w.Workspace, "session.json") }
func (w *work) damagedPath() string { return filepath.Join(w.Workspace, "damaged.git") }
func (w *work) promptPath() string  { return filepath.Join(w.Workspace, "prompt.md") }
func (w *work) verdictPath() string { return filepath.Join(w.Workspace, "verdict.json") }
func (w *work) answerPath() string  { return filepath.Join(w.Workspace, "answer.json") }
func (w *work) lessonsPath() string { return filepath.Join(w.Workspace, "lessons.md") }

// mirrorPath is the agent's clone of the repository, which all its worktrees share. The first _ separates owner and
// repository. An owner's _ becomes ~, which names cannot contain; otherwise a_b/c and a/b_c would share a mirror.
func (w *work) mirrorPath() string {
	owner, repo, _ := strings.Cut(w.Repo, "/")
	return filepath.Join(w.Home, "mirrors", strings.ReplaceAll(owner, "_", "~")+"_"+repo+".git")
}

// chainState is the state that a workspace stores for the next session on the chain.
type chainState struct {
	CLI     string       `json:"cli"`
	Session string       `json:"session"` // id of the CLI's conversation
	Thread  string       `json:"thread"`
	Slot    string       `json:"slot"`    // the slot whose cache may still hold the conversation
	Totals  agents.Usage `json:"totals"`  // usage of the whole conversation, for CLIs that report it
	Running bool         `json:"running"` // the session did not end by itself: it was killed, or asked to end
	Branch  string       `json:"branch"`  // the branch of the last session; empty for a review
	// Interrupted is Running of the session before this one: it had no time to save its work.
	Interrupted bool `json:"-"`
	// HandIn is work that the forge refused in the last session.
	HandIn *handIn `json:"hand_in,omitempty"`
	// Asked says that the last session ended with a question or a plan; the next session resumes its conversation.
	Asked bool `json:"asked,omitempty"`
}

// loadState reads the stored state. An unreadable file costs a conversation, not work.
func loadState(path string) (k chainState) {
	text, err := plainfile.Read(path, maxLeft)
	if err != nil || json.Unmarshal(text, &k) != nil {
		return chainState{}
	}
	return k
}

func (k *chainState) save(path string) {
	if text, err := json.Marshal(k); err == nil {
		_ = writeFile(path, text)
	}
}

// writeFile replaces a file atomically.
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
