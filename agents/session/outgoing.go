package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// outgoing is a Desk whose posts contain no secret of the session, and no keyword that closes an issue of others. What
// a model wrote becomes our words on the forge.
type outgoing struct {
	Desk
	repo    string
	secrets []string
	own     []forge.Ref // the issues that the work may close
}

func (o *outgoing) hide(text string) string { return agents.RedactPost(text, o.secrets) }

func (o *outgoing) clean(text string) string { return forge.Defuse(o.hide(text), o.repo, o.own) }

func (o *outgoing) Comment(ctx context.Context, ref forge.Ref, body string) error {
	return o.Desk.Comment(ctx, ref, o.clean(body))
}

func (o *outgoing) OpenPull(ctx context.Context, p forge.PullDraft) (number int64, err error) {
	p.Title, p.Body = o.clean(p.Title), o.clean(p.Body)
	return o.Desk.OpenPull(ctx, p)
}

func (o *outgoing) PostReview(ctx context.Context, pull forge.Ref, r *forge.FullReview) error {
	given := *r
	given.Body, given.Lines = o.clean(r.Body), slices.Clone(r.Lines)
	for i := range given.Lines {
		given.Lines[i].Body = o.clean(given.Lines[i].Body)
	}
	return o.Desk.PostReview(ctx, pull, &given)
}

func (o *outgoing) Edit(ctx context.Context, repo, message string, edits []forge.Edit) error {
	edits = slices.Clone(edits)
	for i := range edits {
		edits[i].Text = o.hide(edits[i].Text)
	}
	return o.Desk.Edit(ctx, repo, o.hide(message), edits)
}

// notForForge says that unpushed commits contain what must not become public. It is never altered in code.
type notForForge struct {
	what string
	mend string // what to do instead of committing it
}

func (e *notForForge) Error() string {
	return "a commit contains " + e.what + ", so that nothing is pushed"
}

// checkCommits returns a *notForForge if a commit that is not on the forge, or one of its ancestors, contains a secret
// of the session, in its message, its author or the lines that it adds, or a file that the repository's setup made.
func (t *tree) checkCommits(ctx context.Context, commit string) error {
	if err := t.checkMade(ctx, commit); err != nil || len(t.secrets) == 0 {
		return err
	}
	unpushed := notOnForge(commit)
	dir := t.mirror
	if _, err := os.Stat(filepath.Join(t.dir, ".git")); err == nil {
		dir = t.dir // a clone of another program knows what is on the forge
	}
	for _, args := range [][]string{
		{"log", "--format=%an %ae %cn %ce%n%B"},
		{"log", "--format=", "--patch", "--cc", "--unified=0", "--text", "--no-color", "--no-ext-diff", "--no-textconv"},
	} {
		found := &finder{secrets: t.secrets, added: len(args) > 2}
		var complaint bytes.Buffer
		err := t.run(ctx, agents.Cmd{
			Argv: slices.Concat([]string{"git"}, args, unpushed), Dir: dir, Env: t.environ,
			Stdout: found, Stderr: &complaint,
		})
		if err != nil {
			return gitError("log", err, complaint.String())
		}
		if found.line(); found.name != "" {
			return &notForForge{"the value of $" + found.name, "read it from the environment where it is needed"}
		}
	}
	return nil
}

// notOnForge returns arguments of git log for a commit and those of its ancestors that are not on the forge.
func notOnForge(commit string) []string {
	return []string{commit, "--not", "--remotes", "--glob=" + strings.TrimSuffix(pushedRefs, "/")}
}

// finder is a writer that looks for secrets in lines. A secret of several lines is found by its longest.
type finder struct {
	secrets []agents.SecretVar
	added   bool   // only in lines that a diff adds
	buf     []byte // the line so far
	name    string // of the first secret found
}

func (f *finder) Write(p []byte) (int, error) {
	for part := range bytes.Lines(p) {
		f.buf = append(f.buf, part...)
		if bytes.HasSuffix(part, []byte("\n")) || len(f.buf) > maxLine {
			f.line()
		}
	}
	return len(p), nil
}

// line looks at the line that is complete.
func (f *finder) line() {
	line := f.buf
	f.buf = f.buf[:0]
	if f.name != "" || f.added && !bytes.Contains(line[:min(len(line), 2)], []byte("+")) {
		return
	}
	for _, s := range f.secrets {
		if s.Value.Searched() && bytes.Contains(line, []byte(longestLine(s.Value.Reveal()))) {
			f.name = s.Name
			return
		}
	}
}

func longestLine(text string) (longest string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); len(line) > len(longest) {
			longest = line
		}
	}
	return longest
}

// cleanCommits asks the CLI once to remove secrets and conflict markers from its unpushed commits, and closing words
// for the issues of others from their messages: merges take them to the forge. Commits that stay as they are end the
// session, unless people were asked about them. Conflict markers may stay: a test may be about them.
func (r *run) cleanCommits(ctx context.Context, since string) (asked bool, err error) {
	wrong, err := r.uncleanCommits(ctx, since)
	if err != nil || wrong == nil {
		return false, err
	}
	if _, err := r.followUp(ctx, wrong.words); err != nil {
		return true, err
	}
	if err := r.settle(ctx, since); err != nil {
		return true, err
	}
	wrong, err = r.uncleanCommits(ctx, since)
	switch {
	case err != nil || wrong == nil:
		return true, err
	case wrong.secret != nil:
		return true, end(agents.Failed, wrong.secret.Error())
	case wrong.messages == "":
		return true, nil // the agent was asked: its reviewer sees the markers
	case r.answered || r.Kind == agents.KindSchedule:
		r.logf("these commit messages stay: %s", wrong.messages)
		return true, nil
	}
	return true, endWithText(agents.Question, "Messages of my commits name issues that a merge would close:\n\n"+
		wrong.messages+"\n\nMay it close them? Tell me how to word the messages otherwise.")
}

// unclean is what is wrong with commits.
type unclean struct {
	words    string // for the CLI
	messages string // the messages that close issues, as Markdown
	secret   error
}

func (r *run) uncleanCommits(ctx context.Context, since string) (*unclean, error) {
	head, err := r.tree.runGit(ctx, "rev-parse", "HEAD")
	if err != nil {
		return nil, err
	}
	const before = "The change cannot be pushed as it is: "
	err = r.tree.checkCommits(ctx, head)
	if no, ok := errors.AsType[*notForForge](err); ok {
		return &unclean{secret: err, words: before + err.Error() + ". Remove it from all commits that you made, with git " +
			"commit --amend or git rebase, and " + no.mend + "."}, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := r.closingMessages(ctx, head, "--not", "--remotes", since)
	if err != nil {
		return nil, err
	}
	var words []string
	if files := r.tree.withMarkers(ctx, since); len(files) > 0 {
		words = append(words, "It adds conflict markers (<<<<<<< and >>>>>>>) to "+strings.Join(files, ", ")+". Resolve "+
			"these conflicts, and commit that. Leave markers that belong to a file, such as a test.")
	}
	if list != "" {
		words = append(words, before+"messages of its commits would close issues of others at the merge:\n\n"+list+
			"\n\nReword them, with git commit --amend or git rebase, so that no such word precedes the reference.")
	}
	if len(words) == 0 {
		return nil, nil
	}
	return &unclean{messages: list, words: strings.Join(words, "\n\n")}, nil
}

// withMarkers returns the files, quoted, to which the commits since one add both ends of a conflict.
func (t *tree) withMarkers(ctx context.Context, since string) (files []string) {
	const begin, over = "+<<<<<<< ", "+>>>>>>> "
	out, err := t.runGit(ctx, "diff", "--unified=0", "--text", "--no-color", "--no-ext-diff", "--no-textconv",
		"-G^(<<<<<<<|>>>>>>>) ", since+"...HEAD")
	if err != nil {
		return nil
	}
	file, begun := "", false
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(line, "+++ "); ok {
			file, begun = strings.TrimSpace(name), false
		}
		begun = begun || strings.HasPrefix(line, begin)
		if begun && strings.HasPrefix(line, over) {
			begun = false
			name := "`" + strings.ReplaceAll(firstWords(strings.TrimPrefix(file, "b/")), "`", "'") + "`"
			if !slices.Contains(files, name) && len(files) < 20 {
				files = append(files, name)
			}
		}
	}
	return files
}

// closingMessages lists the commits whose messages close or reopen issues that are not the session's, as Markdown.
func (r *run) closingMessages(ctx context.Context, revs ...string) (string, error) {
	out, err := r.tree.runGit(ctx, append([]string{"log", "--format=%H %B%x00"}, revs...)...)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for message := range strings.SplitSeq(out, "\x00") {
		sha, message, _ := strings.Cut(strings.TrimSpace(message), " ")
		for _, command := range forge.Commands(message, r.Repo, r.post.own) {
			fmt.Fprintf(&b, "- `%.10s`: `%s`\n", sha, strings.ReplaceAll(r.post.hide(command), "`", "'"))
		}
	}
	return strings.TrimSpace(b.String()), nil
}
