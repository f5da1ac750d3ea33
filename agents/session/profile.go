package session

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/forge"
)

// profile is the agent's own repository: lessons, a journal, a record of its sessions, and its own prompts.
type profile struct {
	repo    string // owner/name
	lessons string
}

const (
	lessonsFile = "lessons.md"
	journalDir  = "journal"
	recordFile  = "record.jsonl"
	// digestedFile names the last journal entry that the lessons cover.
	digestedFile = "journal/.digested"
	maxLessons   = 2 << 10 // bytes; they are part of every prompt
	digestAfter  = 10      // number of journal entries that may accumulate before they are condensed
)

// openProfile finds the agent's profile repository. Without one the session logs that and continues.
func (r *run) openProfile(ctx context.Context) *profile {
	login, err := r.Desk.Login(ctx)
	if err != nil {
		r.logf("no profile: %v", err)
		return nil
	}
	for _, name := range []string{r.Agent + "-profile", ".profile"} { // hiring keeps a .profile that upstream created
		p := &profile{repo: login + "/" + name}
		if !forge.ValidRepo(p.repo) {
			continue
		}
		if _, err := r.Desk.Repository(ctx, p.repo); err != nil {
			continue
		}
		lessons, err := r.file(ctx, p.repo, lessonsFile)
		if err != nil {
			r.logf("cannot read the lessons: %v", err)
		}
		p.lessons = cut(strings.TrimSpace(lessons), maxLessons)
		return p
	}
	r.logf("no profile repository %s/%s-profile: nothing is remembered", login, r.Agent)
	return nil
}

// prompt renders the session's prompt from the profile's template, else the factory's, else the embedded one. At the
// end it notes which texts were left out.
func (r *run) prompt(ctx context.Context, d *promptData) (string, error) {
	if d.Kind = string(r.Kind); r.Plan && r.Kind == agents.KindIssue {
		d.Kind = "plan"
		if r.Split {
			d.Kind = agents.CauseSplit
		}
	}
	prompt, err := r.promptFor(ctx, r.Role, d.Kind, d)
	if note := r.readers.omitted(); err == nil && note != "" {
		prompt = strings.TrimRight(prompt, "\n") + "\n\n" + note + "\n"
	}
	return prompt, err
}

func (r *run) promptFor(ctx context.Context, role, kind string, d *promptData) (string, error) {
	var sources []source
	if r.profile != nil {
		sources = append(sources, func(name string) (string, error) {
			return r.Desk.File(ctx, r.profile.repo, "prompts/"+name)
		})
		d.Lessons = quoted(r.profile.lessons)
	}
	if r.Prompts != "" {
		sources = append(sources, func(name string) (string, error) {
			text, err := os.ReadFile(filepath.Join(r.Prompts, name))
			return string(text), err
		})
	}
	name, text, err := findPrompt(role, kind, append(sources, embedded))
	if err != nil {
		return "", err
	}
	d.Tried = triedTexts(r.Tried)
	stopped := d.Continues || d.Kept != "" || d.Broken != ""
	if stopped && !strings.Contains(text, stopping) && !strings.Contains(text, ".Continues") {
		text += "\n{{template \"" + stopping + "\" .}}"
	}
	if !strings.Contains(text, ".Dialogue") { // an operator's template that does not use it
		d.Comments = append(d.Comments, d.Dialogue...)
	}
	d.Agent, d.Role, d.Repo, d.Number = r.Agent, r.Role, r.Repo, r.Number
	d.Answer, d.Verdict, d.Tree = cmp.Or(d.Answer, r.answerPath()), r.verdictPath(), r.treePath()
	prompt, err := renderPrompt(name, text, d)
	if err == nil && r.folder() != r.treePath() && !strings.Contains(prompt, r.treePath()) {
		prompt += "\n\nThe checkout is in " + r.treePath() + ", not in your working directory.\n"
	}
	if err == nil && d.Diff != "" && !strings.Contains(prompt, d.Diff.String()) {
		prompt += "\n\nThis is the difference:\n\n" + d.Diff.String() + "\n"
	}
	if err == nil && d.Parts > 1 {
		prompt += fmt.Sprintf("\n\nThe difference is long: you have part 1 of %d, and get the others one by one. A verdict "+
			"counts only after the last, so do not write it before.\n", d.Parts)
	}
	if err == nil && d.Closing != "" && !strings.Contains(prompt, d.Closing.String()) {
		prompt += "\n\nAt the merge, the forge would close other issues because of these messages of commits:\n\n" +
			d.Closing.String() + "\n"
	}
	if err == nil {
		prompt += r.hostWords()
	}
	return prompt, err
}

// entry is a line of the record file.
type entry struct {
	At      string        `json:"at"`
	Run     string        `json:"run"`
	Repo    string        `json:"repo"`
	Number  int64         `json:"number,omitempty"`
	Kind    agents.Kind   `json:"kind"`
	Outcome agents.Result `json:"outcome"`
	Reason  string        `json:"reason,omitempty"`
	Seconds int64         `json:"seconds"`
	CLI     string        `json:"cli"`
	Model   string        `json:"model,omitempty"`
	Usage   agents.Usage  `json:"usage"`
}

// recordSession writes the session into the profile: a journal entry and a line of the record, in one commit. It skips
// sessions that ended because the backend was unavailable, or whose model never answered. A failure is only logged: the
// session's work is done.
func (r *run) recordSession(ctx context.Context, out *agents.Outcome, began time.Time) {
	if r.profile == nil || out.Result == agents.Limited || out.Result == agents.BackendDown || !r.heard {
		return
	}
	now := r.Now().UTC()
	e := entry{
		At: now.Format(time.RFC3339), Run: r.RunID, Repo: r.Repo, Number: r.Number, Kind: r.Kind,
		Outcome: out.Result, Reason: out.Reason, Seconds: int64(now.Sub(began).Seconds()),
		CLI: r.CLI, Model: r.Model, Usage: r.usage,
	}
	line, err := json.Marshal(e)
	if err != nil {
		return
	}
	at, item := now.Format("20060102T150405"), r.ref().String()
	name := fmt.Sprintf("%s/%s-%s-%s.md", journalDir, at, r.Kind, strings.ReplaceAll(item, "/", "_"))
	err = r.Desk.Edit(ctx, r.profile.repo, fmt.Sprintf("Journal: %s %s", r.Kind, item), []forge.Edit{
		{Path: name, Text: r.journalEntry(&e)},
		{Path: recordFile, Text: string(line) + "\n", Append: true},
	})
	if err != nil {
		r.logf("cannot write the journal: %v", err)
		return
	}
	if err := r.digest(ctx); err != nil {
		r.logf("cannot digest the journal: %v", err)
	}
}

// journalEntry describes a session: its outcome, and the agent's own summary.
func (r *run) journalEntry(e *entry) string {
	said, _ := r.answer()
	words := said.Summary
	if v, err := r.verdict(); err == nil && r.Kind == agents.KindReview {
		words = v.Summary
	}
	text := fmt.Sprintf("# %s %s\n\n%s, %d s with %s: %s", e.Kind, r.ref(), e.At, e.Seconds, e.CLI, e.Outcome)
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return text + "\n" + prefixed("\n", cut(words, maxRemark)) + "\n"
}

// digest condenses the journal into the lessons when more than digestAfter entries have accumulated.
func (r *run) digest(ctx context.Context) error {
	waiting, err := r.undigested(ctx)
	if err != nil || len(waiting) <= digestAfter {
		return err
	}
	d := &promptData{Answer: r.lessonsPath()}
	for _, name := range waiting {
		text, err := r.file(ctx, r.profile.repo, journalDir+"/"+name)
		if err != nil {
			return err
		}
		d.Comments = append(d.Comments, remark{name, quoted(cut(text, maxRemark))})
	}
	_ = os.Remove(r.lessonsPath())
	prompt, err := r.promptFor(ctx, "digest", "digest", d)
	if err != nil {
		return err
	}
	r.state.Session = "" // in a new conversation
	if _, err := r.runPrompt(ctx, prompt); err != nil {
		return err
	}
	text, err := plainfile.Read(r.lessonsPath(), maxLeft)
	if err != nil {
		return err
	}
	lessons := cut(strings.TrimSpace(string(text)), maxLessons-len("\n[cut: the text continues]")) + "\n"
	return r.Desk.Edit(ctx, r.profile.repo, "Lessons from the journal", []forge.Edit{
		{Path: lessonsFile, Text: lessons},
		{Path: digestedFile, Text: waiting[len(waiting)-1] + "\n"},
	})
}

// undigested returns the journal entries that the lessons do not cover yet, oldest first.
func (r *run) undigested(ctx context.Context) ([]string, error) {
	last, err := r.file(ctx, r.profile.repo, digestedFile)
	if err != nil {
		return nil, err
	}
	names, err := r.Desk.Folder(ctx, r.profile.repo, journalDir)
	return slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasSuffix(name, ".md") || name <= strings.TrimSpace(last)
	}), err
}
