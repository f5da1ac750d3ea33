package main

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads/ledger"
)

// askTime limits the requests of one completion: the user waits for it at each key.
const askTime = 500 * time.Millisecond

// mostValues limits the completions: a shell lists at most a few screens of them.
const mostValues = 500

// plainWord matches values without characters that are special in a shell. A name may come from another machine, and
// the shell inserts it into the user's command line.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_./#-]*$`)

// candidate is a possible completion. about describes it, and may be empty.
type candidate struct{ word, about string }

// values finds the values of a command's arguments and flags by their names in its help.
type values struct {
	c   *cli
	cmd *cobra.Command // with the flags of the words before, such as --state
}

// of returns the values of names such as REF, AGENT and FILE that begin with a text. A name for any text, such as
// TITLE, has none.
func (v *values) of(typed string, names ...string) (found []cobra.Completion, directive cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(v.cmd.Context(), askTime)
	defer cancel()
	directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	for _, name := range names {
		switch name {
		case "FILE", "JOURNAL", "PLAN":
			directive = cobra.ShellCompDirectiveDefault
		case "DIR":
			directive = cobra.ShellCompDirectiveFilterDirs
		}
		for _, c := range v.named(ctx, name) {
			if plainWord.MatchString(c.word) && strings.HasPrefix(c.word, typed) && len(found) < mostValues {
				found = append(found, cobra.CompletionWithDesc(c.word, oneLine(c.about)))
			}
		}
	}
	return found, directive
}

// named returns the values of one name.
func (v *values) named(ctx context.Context, name string) []candidate {
	switch name {
	case "REF":
		if v.cmd.Parent().Name() == "batch" && v.cmd.Name() != "create" {
			return v.convoys(ctx)
		}
		return items(v.state(ctx))
	case "AGENT", "SERVICE", "THREAD", "ROLE", "REPO":
		return named(v.state(ctx), name)
	case "FORMAT":
		return words("json", "text")
	case "NAMES":
		return words(policyNames()...)
	case "GROUP":
		return words(ledger.Bys...)
	case "OUTCOME":
		return words(agents.Results...)
	case "CLI":
		return words(agents.CLINames()...)
	}
	return nil
}

func words[T ~string](list ...T) (found []candidate) {
	for _, w := range list {
		found = append(found, candidate{word: string(w)})
	}
	return found
}

// client returns the client of the supervisor that the command line names; nil if it names none.
func (v *values) client() *control.Client {
	var t target
	for name, to := range map[string]*string{
		"config": &t.config, "state": &t.state, "address": &t.address, "token-file": &t.tokenFile,
	} {
		if f := v.cmd.Flags().Lookup(name); f != nil {
			*to = f.Value.String()
		}
	}
	client, err := t.client(v.c)
	if err != nil {
		return nil
	}
	return client
}

// state returns the status of the supervisor; an empty one if it does not answer.
func (v *values) state(ctx context.Context) *control.Document {
	d := new(control.Document)
	if client := v.client(); client == nil || client.Get(ctx, statePath, d) != nil {
		return new(control.Document)
	}
	return d
}

func (v *values) convoys(ctx context.Context) (found []candidate) {
	var d control.Convoys
	if client := v.client(); client == nil || client.Get(ctx, convoysPath, &d) != nil {
		return nil
	}
	for i := range d.Convoys {
		c := &d.Convoys[i]
		found = append(found, candidate{forge.Ref{Repo: c.Repo, Number: c.Number}.String(), c.Title})
	}
	return short(found)
}

// items returns the issues and pull requests of a status: first those in sessions, then waiting ones, then recent ones.
func items(d *control.Document) (found []candidate) {
	add := func(repo string, number int64, title string) {
		word := forge.Ref{Repo: repo, Number: number}.String()
		known := slices.ContainsFunc(found, func(c candidate) bool { return c.word == word })
		if number > 0 && !known && len(found) < mostValues {
			found = append(found, candidate{word, title})
		}
	}
	for i := range d.Sessions {
		add(d.Sessions[i].Repo, d.Sessions[i].Number, d.Sessions[i].Title)
	}
	for i := range d.Queue {
		add(d.Queue[i].Repo, d.Queue[i].Number, d.Queue[i].Title)
	}
	for i := range d.Unqueued {
		add(d.Unqueued[i].Repo, d.Unqueued[i].Number, d.Unqueued[i].Title)
	}
	for i := range d.Recent {
		add(d.Recent[i].Repo, d.Recent[i].Number, "")
	}
	return short(found)
}

// short removes the repository and the # if all items are in one repository. In a shell, # starts a comment.
func short(found []candidate) []candidate {
	if len(found) == 0 {
		return nil
	}
	repo, _, _ := strings.Cut(found[0].word, "#")
	for _, c := range found {
		if !strings.HasPrefix(c.word, repo+"#") {
			return found
		}
	}
	for i := range found {
		found[i].word = found[i].word[len(repo)+1:]
	}
	return found
}

// named returns the names of one kind, such as AGENT, in a status.
func named(d *control.Document, sort string) (found []candidate) {
	if sort == "THREAD" {
		for i := range d.Threads {
			found = append(found, candidate{d.Threads[i].Name, string(d.Threads[i].Backend)})
		}
		return found
	}
	for i := range d.Services {
		if sort == "SERVICE" {
			found = append(found, candidate{d.Services[i].Name, d.Services[i].State})
		}
	}
	for i := range d.Agents {
		a := &d.Agents[i]
		switch sort {
		case "AGENT":
			found = append(found, candidate{a.Name, a.Role + " on " + a.Thread})
		case "ROLE":
			found = append(found, candidate{word: a.Role})
		}
	}
	for i := range d.Repos {
		if sort == "REPO" {
			found = append(found, candidate{word: d.Repos[i].Name})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int { return strings.Compare(a.word, b.word) })
	return slices.Compact(found)
}
