package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

// profile is the agent's own repository: what it has learnt, a journal of its sessions, its record, and prompts of its
// own.
type profile struct {
	repo    string // owner/name
	lessons string
}

const (
	lessonsFile = "lessons.md"
	journalDir  = "journal"
	recordFile  = "record.jsonl"
	// digestedFile names the last journal entry that is in the lessons.
	digestedFile = "journal/.digested"
	// maxLessons bounds in bytes what is in every prompt.
	maxLessons = 2 << 10
	// digestAfter is how many journal entries may wait to be condensed.
	digestAfter = 10
)

// openProfile finds the agent's profile repository. Working without one is fine, and is said.
func (s *session) openProfile(ctx context.Context) *profile {
	login, err := s.Desk.Login(ctx)
	if err != nil {
		s.logf("no profile: %v", err)
		return nil
	}
	p := &profile{repo: s.findProfile(ctx, login)}
	if p.repo == "" {
		s.logf("no profile repository %s/%s-profile: nothing is remembered", login, s.Agent)
		return nil
	}
	lessons, _, err := s.file(ctx, p.repo, lessonsFile)
	if err != nil {
		s.logf("cannot read what was learnt: %v", err)
	}
	p.lessons = cut(strings.TrimSpace(lessons), maxLessons)
	return p
}

// findProfile is the name of the profile repository: ours, else .profile, which upstream made and hiring goes on with. Empty
// when there is none.
func (s *session) findProfile(ctx context.Context, login string) string {
	for _, name := range []string{s.Agent + "-profile", ".profile"} {
		repo := login + "/" + name
		if !forge.ValidRepo(repo) {
			continue
		}
		if _, err := s.Desk.Repository(ctx, repo); err == nil {
			return repo
		}
	}
	return ""
}

// prompt renders the prompt of the session: from the profile, else the factory's folder, else our own.
func (s *session) prompt(ctx context.Context, d *promptData) (string, error) {
	return s.promptFor(ctx, s.Role, string(s.Kind), d)
}

func (s *session) promptFor(ctx context.Context, role, kind string, d *promptData) (string, error) {
	var sources []source
	if s.profile != nil {
		sources = append(sources, func(name string) (string, bool, error) {
			return s.file(ctx, s.profile.repo, "prompts/"+name)
		})
		d.Lessons = quoted(s.profile.lessons)
	}
	if s.Prompts != "" {
		sources = append(sources, func(name string) (string, bool, error) {
			text, err := os.ReadFile(filepath.Join(s.Prompts, name))
			if errors.Is(err, os.ErrNotExist) {
				return "", false, nil
			}
			return string(text), err == nil, err
		})
	}
	name, text, err := findPrompt(role, kind, append(sources, embedded))
	if err != nil {
		return "", err
	}
	d.Agent, d.Role, d.Repo, d.Number = s.Agent, s.Role, s.Repo, s.Number
	d.Answer, d.Verdict = firstOf(d.Answer, s.answerPath()), s.verdictPath()
	return renderPrompt(name, text, d)
}

// entry is a line of the track record.
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

// remember writes the session into the profile: a journal entry and a line of track record, in one commit. A backend that
// is away is no experience. What cannot be written is logged and lost: the work itself is done.
func (s *session) remember(ctx context.Context, out *agents.Outcome, began time.Time) {
	if s.profile == nil || out.Result == agents.Limited || out.Result == agents.BackendDown {
		return
	}
	now := s.Now().UTC()
	e := entry{
		At: now.Format(time.RFC3339), Run: s.RunID, Repo: s.Repo, Number: s.Number, Kind: s.Kind, Outcome: out.Result, Reason: out.Reason,
		Seconds: int64(now.Sub(began).Seconds()), CLI: s.CLI, Model: s.Model, Usage: s.usage,
	}
	line, err := json.Marshal(e)
	if err != nil {
		return
	}
	name := fmt.Sprintf("%s/%s-%s-%s.md", journalDir, now.Format("20060102T150405"), s.Kind, strings.ReplaceAll(s.item(), "/", "_"))
	err = s.Desk.Edit(ctx, s.profile.repo, "Journal: "+string(s.Kind)+" "+s.item(), []forge.Edit{
		{Path: name, Text: s.journalEntry(&e)},
		{Path: recordFile, Text: string(line) + "\n", Append: true},
	})
	if err != nil {
		s.logf("cannot write the journal: %v", err)
		return
	}
	if err := s.digest(ctx); err != nil {
		s.logf("cannot digest the journal: %v", err)
	}
}

func (s *session) item() string {
	if s.Number == 0 {
		return s.Repo
	}
	return fmt.Sprintf("%s#%d", s.Repo, s.Number)
}

// journalEntry is what is worth telling of a session: how it went, and the agent's own words.
func (s *session) journalEntry(e *entry) string {
	words := s.answer().Summary
	if v, err := s.verdict(); err == nil && s.Kind == agents.KindReview {
		words = v.Summary
	}
	text := fmt.Sprintf("# %s %s\n\n%s, %d s with %s: %s", e.Kind, s.item(), e.At, e.Seconds, e.CLI, e.Outcome)
	return text + prefixed(" (", e.Reason) + map[bool]string{true: ")"}[e.Reason != ""] + "\n" + prefixed("\n", cut(words, maxRemark)) + "\n"
}

// digest condenses the journal into the lessons when more than digestAfter entries wait for it.
func (s *session) digest(ctx context.Context) error {
	waiting, err := s.undigested(ctx)
	if err != nil || len(waiting) <= digestAfter {
		return err
	}
	d := &promptData{Answer: s.lessonsPath()}
	for _, name := range waiting {
		text, _, err := s.file(ctx, s.profile.repo, journalDir+"/"+name)
		if err != nil {
			return err
		}
		d.Comments = append(d.Comments, remark{name, quoted(cut(text, maxRemark))})
	}
	_ = os.Remove(s.lessonsPath())
	prompt, err := s.promptFor(ctx, "digest", "digest", d)
	if err != nil {
		return err
	}
	s.keep.Session = "" // nothing of the work's conversation is wanted here
	if _, err := s.ask(ctx, prompt); err != nil {
		return err
	}
	text, err := os.ReadFile(s.lessonsPath())
	if err != nil {
		return err
	}
	lessons := cut(strings.TrimSpace(string(text)), maxLessons-len("\n[cut here, it goes on]")) + "\n"
	return s.Desk.Edit(ctx, s.profile.repo, "Lessons from the journal", []forge.Edit{
		{Path: lessonsFile, Text: lessons},
		{Path: digestedFile, Text: waiting[len(waiting)-1] + "\n"},
	})
}

// undigested are the journal entries that the lessons do not have yet, oldest first.
func (s *session) undigested(ctx context.Context) ([]string, error) {
	last, _, err := s.file(ctx, s.profile.repo, digestedFile)
	if err != nil {
		return nil, err
	}
	names, err := s.Desk.Folder(ctx, s.profile.repo, journalDir)
	return slices.DeleteFunc(names, func(name string) bool {
		return !strings.HasSuffix(name, ".md") || name <= strings.TrimSpace(last)
	}), err
}
