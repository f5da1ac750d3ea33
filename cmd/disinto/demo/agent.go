package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge/rest"
)

// Agent is the program of the demo's agents, with a script in place of a model. Its only input is the environment
// contract.
type Agent struct {
	Getenv func(string) string
	// Git runs git with these arguments in a directory and returns its output.
	Git func(ctx context.Context, dir string, env []string, args ...string) (string, error)
	// Think is the pause that replaces a model's thinking.
	Think time.Duration
	Out   io.Writer // the session's log
}

// Run runs one session and writes its result to $DISINTO_RESULT.
func (a *Agent) Run(ctx context.Context) error {
	s := &script{
		Agent: a, me: a.Getenv("DISINTO_AGENT"), repo: a.Getenv("DISINTO_REPO"), number: a.Getenv("DISINTO_NUMBER"),
		dir: filepath.Join(a.Getenv("DISINTO_WORKSPACE"), "repo"),
		api: rest.API{URL: a.Getenv("FORGE_URL"), Token: a.Getenv("FORGE_TOKEN")},
	}
	kind := a.Getenv("DISINTO_KIND")
	work := map[string]func(context.Context) error{
		"issue": s.implement, "rework": s.rework, "review": s.review, "schedule": s.errand,
	}[kind]
	if work == nil {
		return fmt.Errorf("DISINTO_KIND is %q, want issue, rework, review or schedule", kind)
	}
	err := work(ctx)
	return errors.Join(err, a.leaveResult(err))
}

func (a *Agent) leaveResult(err error) error {
	result := map[string]any{"outcome": "done"}
	if err != nil {
		result["outcome"], result["reason"] = "failed", err.Error()
	}
	text, _ := json.Marshal(result)
	return os.WriteFile(a.Getenv("DISINTO_RESULT"), text, 0o600)
}

// script is one session.
type script struct {
	*Agent
	me, repo, number string
	dir              string // the clone's directory
	api              rest.API
}

// think logs the text about, then waits for Think. When ctx is done it returns early with an error.
func (s *script) think(ctx context.Context, about string) error {
	fmt.Fprintln(s.Out, about)
	select {
	case <-time.After(s.Think):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *script) path(format string, args ...any) string {
	return "/repos/" + s.repo + fmt.Sprintf(format, args...)
}

// git runs git as the agent. It passes the token in the environment, because every user of the machine can read
// arguments, and the clone's configuration outlives the session.
func (s *script) git(ctx context.Context, args ...string) (string, error) {
	env := []string{
		"GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.extraHeader",
		"GIT_CONFIG_VALUE_0=Authorization: token " + s.api.Token,
	}
	out, err := s.Git(ctx, s.dir, env, args...)
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(out), nil
}

// clone clones the repository into the workspace, or fetches if an earlier session has cloned it.
func (s *script) clone(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(s.dir, ".git")); err == nil {
		_, err := s.git(ctx, "fetch", "--quiet", "--prune", "origin")
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	_, err := s.git(ctx, "clone", "--quiet", s.api.URL+"/"+s.repo+".git", ".")
	return err
}

var quoted = regexp.MustCompile("`([A-Za-z0-9][A-Za-z0-9._/-]*)`")

// implement opens a pull request for an issue.
func (s *script) implement(ctx context.Context) error {
	var issue wireIssue
	if err := s.api.Get(ctx, s.path("/issues/%s", s.number), &issue); err != nil {
		return err
	}
	if err := s.clone(ctx); err != nil {
		return err
	}
	branch := "fix/issue-" + s.number
	if _, err := s.git(ctx, "checkout", "--quiet", "-B", branch, "origin/main"); err != nil {
		return err
	}
	file := "notes/issue-" + s.number + ".md"
	for i, name := range quoted.FindAllStringSubmatch(issue.Body, -1) {
		if i == 0 {
			file = filepath.Clean(name[1])
		} else if _, err := os.Stat(filepath.Join(s.dir, filepath.Clean(name[1]))); err != nil {
			return fmt.Errorf("cannot build on %s: it does not exist yet", name[1])
		}
	}
	if !filepath.IsLocal(file) {
		return fmt.Errorf("refusing to write %s: it is outside the repository", file)
	}
	if err := s.think(ctx, "writing "+file); err != nil {
		return err
	}
	text := "# " + issue.Title + "\n"
	if _, mind, ok := strings.Cut(issue.Body, "Mind: "); ok {
		text += "# TODO: " + firstLine(mind) + "\n"
	}
	if err := s.publish(ctx, file, text, issue.Title, branch); err != nil {
		return err
	}
	pull := map[string]string{
		"title": fmt.Sprintf("%s (created by %s)", issue.Title, s.me), "head": branch, "base": "main",
		"body": fmt.Sprintf("created by %s\n\nFixes #%s", s.me, s.number),
	}
	return s.api.Post(ctx, s.path("/pulls"), pull, nil)
}

// publish writes, commits and pushes one file.
func (s *script) publish(ctx context.Context, file, text, message, branch string) error {
	path := filepath.Join(s.dir, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"add", "--", file},
		{"commit", "--quiet", "-m", message},
		{"push", "--quiet", "--force-with-lease", "origin", branch},
	} {
		if _, err := s.git(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// pull reads the pull request of this session and fetches its head and its base.
func (s *script) pull(ctx context.Context) (p wirePull, err error) {
	if err = s.api.Get(ctx, s.path("/pulls/%s", s.number), &p); err != nil {
		return p, err
	}
	return p, s.clone(ctx)
}

// review reads the diff against the target branch and posts a formal review for this head.
func (s *script) review(ctx context.Context) error {
	p, err := s.pull(ctx)
	if err != nil {
		return err
	}
	// Without --text, a NUL byte or an attribute of the branch hides its text.
	diff, err := s.git(ctx, "diff", "--text", "origin/"+p.Base.Ref+"..."+p.Head.SHA)
	if err != nil {
		return err
	}
	if err := s.think(ctx, fmt.Sprintf("reading a diff of %d lines", strings.Count(diff, "\n")+1)); err != nil {
		return err
	}
	verdict, words := "APPROVED", "Looks right."
	for line := range strings.Lines(diff) {
		if _, todo, ok := strings.Cut(line, "TODO: "); ok && strings.HasPrefix(line, "+") {
			verdict, words = "REQUEST_CHANGES", "This is still to do: "+strings.TrimSpace(todo)
		}
	}
	review := map[string]string{
		"event": verdict, "commit_id": p.Head.SHA, "body": words + "\n\nreviewed by " + s.me,
	}
	return s.api.Post(ctx, s.path("/pulls/%s/reviews", s.number), review, nil)
}

// rework completes the TODOs that the review has found.
func (s *script) rework(ctx context.Context) error {
	p, err := s.pull(ctx)
	if err != nil {
		return err
	}
	if _, err := s.git(ctx, "checkout", "--quiet", "-B", p.Head.Ref, p.Head.SHA); err != nil {
		return err
	}
	changed, err := s.git(ctx, "diff", "--name-only", "origin/main...")
	if err != nil {
		return err
	}
	if err := s.think(ctx, "answering the review"); err != nil {
		return err
	}
	for file := range strings.FieldsSeq(changed) {
		text, err := os.ReadFile(filepath.Join(s.dir, file))
		if err != nil {
			return err
		}
		done := strings.ReplaceAll(string(text), "TODO: ", "Done: ")
		if done == string(text) {
			continue
		}
		if err := s.publish(ctx, file, done, "Answer the review", p.Head.Ref); err != nil {
			return err
		}
	}
	answer := map[string]string{"body": "Done.\n\ncreated by " + s.me}
	return s.api.Post(ctx, s.path("/issues/%s/comments", s.number), answer, nil)
}

// errand is scheduled work: it counts open issues, and those without a text.
func (s *script) errand(ctx context.Context) error {
	var open []wireIssue
	if err := s.api.Get(ctx, s.path("/issues?state=open&type=issues&limit=50"), &open); err != nil {
		return err
	}
	silent := slices.DeleteFunc(slices.Clone(open), func(is wireIssue) bool { return strings.TrimSpace(is.Body) != "" })
	return s.think(ctx, fmt.Sprintf("%d issues are open, %d of them have no text", len(open), len(silent)))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return strings.TrimSpace(line)
}
