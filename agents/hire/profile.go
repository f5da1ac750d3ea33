package hire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents/tomltext"
	"codeberg.org/johba/disinto/forge"
)

// The files of a profile repository that hiring maintains. All other files are the agent's own.
const (
	profileFile = "profile.toml"
	lessonsFile = "lessons.md"
	journalFile = "journal/.gitkeep"
	readmeFile  = "README.md"
	formulaFile = "formula.toml"
	// upstreamLessons is the file in which upstream's agents store their lessons.
	upstreamLessons = "knowledge/lessons-learned.md"
)

// profile creates the agent's private repository and updates its profile.toml. If upstream has created the repository
// under its own name, .profile, profile uses that one.
func (h *Hire) profile() step {
	var repo forge.Repository
	var missing bool
	var changes []forge.File
	return step{
		name: "profile",
		pending: func(ctx context.Context) (todo string, err error) {
			if repo, missing, err = h.findProfile(ctx); err != nil {
				return "", err
			}
			if changes, err = h.profileChanges(ctx, repo); err != nil {
				return "", err
			}
			switch {
			case missing:
				return "create " + repo.Name + " with " + names(changes), nil
			case len(changes) > 0:
				return "write " + names(changes) + " to " + repo.Name, nil
			}
			return "", nil
		},
		do: func(ctx context.Context) (string, error) {
			done := "wrote " + names(changes) + " to " + repo.Name
			if missing {
				done = "created " + repo.Name
				about := "Profile and memory of the agent " + h.Entry.Name
				if err := h.Forge.CreateRepository(ctx, repo.Name, about); err != nil {
					return "", err
				}
			}
			return done, h.Forge.Commit(ctx, repo.Name, repo.Branch, "Hire "+h.Entry.Name, h.Login, h.Email, changes)
		},
	}
}

func names(files []forge.File) string {
	all := make([]string, len(files))
	for i, f := range files {
		all[i] = f.Path
	}
	return strings.Join(all, ", ")
}

// findProfile looks for the agent's repository. If it is missing, repo is the one to create. A repository .profile
// without upstream's profile.toml is not an agent's: the forge shows people's on their pages.
func (h *Hire) findProfile(ctx context.Context) (repo forge.Repository, missing bool, err error) {
	ours := h.Login + "/" + h.Entry.Name + "-profile"
	for _, name := range []string{ours, h.Login + "/.profile"} {
		repo, err := h.Forge.Repository(ctx, name)
		if err == nil && name != ours {
			_, err = h.Forge.File(ctx, repo.Name, profileFile)
		}
		if err == nil || !errors.Is(err, forge.ErrNotFound) {
			return repo, false, err
		}
	}
	return forge.Repository{Name: ours, Branch: "main", Empty: true}, true, nil
}

// profileChanges returns the files that are missing or out of date.
func (h *Hire) profileChanges(ctx context.Context, repo forge.Repository) ([]forge.File, error) {
	read := func(path string) (forge.File, error) {
		if repo.Empty {
			return forge.File{Path: path}, nil
		}
		f, err := h.Forge.File(ctx, repo.Name, path)
		if errors.Is(err, forge.ErrNotFound) {
			return forge.File{Path: path}, nil
		}
		return f, err
	}
	lessons, err := read(upstreamLessons)
	if err != nil {
		return nil, err
	}
	var changes []forge.File
	for _, want := range []struct {
		path string
		text func(now string) string
	}{
		{profileFile, h.profileText},
		{lessonsFile, ifMissing(lessons.Text)},
		{journalFile, ifMissing("")},
		{readmeFile, ifMissing(h.readme())},
		{formulaFile, func(now string) string { return cmp.Or(h.Formula, now) }},
	} {
		now, err := read(want.path)
		if err != nil {
			return nil, err
		}
		text := want.text(now.Text)
		if text == now.Text && (now.SHA != "" || want.path == formulaFile) {
			continue
		}
		now.Path, now.Text = want.path, text
		if now.SHA == "" || want.path == profileFile || want.path == formulaFile {
			changes = append(changes, now)
		}
	}
	return changes, nil
}

// ifMissing returns a function for a file that is written only if it is missing, because it belongs to the agent.
func ifMissing(text string) func(string) string { return func(string) string { return text } }

// profileText returns profile.toml with the agent's facts. Other keys stay unchanged; so does a text that is not
// TOML.
func (h *Hire) profileText(now string) string {
	if now == "" {
		now = fmt.Sprintf("# Describes the agent %s to people and to itself. "+
			"factory.toml takes precedence; hire-an-agent updates this file.\nname = %s\n",
			h.Entry.Name, tomltext.Quote(h.Entry.Name))
	}
	values, err := valuesOf(now)
	if err != nil {
		return now
	}
	facts := []struct{ key, value, text string }{
		{"role", h.Entry.Role, tomltext.Quote(h.Entry.Role)},
		{"model", h.Entry.Model, tomltext.Quote(h.Entry.Model)},
		{"thread", h.Entry.Thread, tomltext.Quote(h.Entry.Thread)},
	}
	role, _ := values["role"].(string)
	model, _ := values["model"].(string)
	seed := seededCapabilities(role, model)
	for _, f := range facts {
		if f.value != "" && values[f.key] != f.value {
			now = tomltext.Set(now, nil, f.key, f.text)
		}
	}
	have, want := stringsOf(values["capabilities"]), h.Entry.Skills
	if len(want) == 0 && (len(have) == 0 || slices.Equal(have, seed)) {
		want = seededCapabilities(h.Entry.Role, h.Entry.Model)
	}
	if values["capabilities"] == nil || len(want) > 0 && !slices.Equal(have, want) {
		now = tomltext.Set(now, nil, "capabilities", tomltext.QuoteList(want))
	}
	return now
}

// seededCapabilities are the capabilities of an agent without skills: its role and its model. They change with the role
// and model, unless the agent or a person has edited them.
func seededCapabilities(role, model string) []string {
	return slices.DeleteFunc([]string{role, model}, func(s string) bool { return s == "" })
}

func (h *Hire) readme() string {
	return fmt.Sprintf(`# %s

The memory of an agent. It is private to the agent's account and to administrators.

- profile.toml: its role, model, thread and capabilities
- lessons.md: its lessons, which begin every prompt
- journal/: one entry per session
- prompts/: optional prompts that replace the factory's
`, h.Entry.Name)
}
