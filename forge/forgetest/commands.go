package forgetest

import (
	"errors"
	"fmt"
	"sync"

	"codeberg.org/johba/disinto/forge"
)

func commandRules() []rule {
	return []rule{
		{Rights, "a scan returns the commands of people with write access", scanCommands},
		{Talk, "exactly one supervisor takes a command", claimCommand},
	}
}

// scanCommands treats the account review as a person's: the client does not list it among its agents.
func scanCommands(w *world) {
	here := w.Supervisor(Supervisor{
		Instance: "here", Host: "host", Token: w.bossToken, Repos: []string{w.repo}, Agents: []string{w.dev},
	})
	ref, other := w.file("one"), w.file("two")
	w.scan(here)
	w.Say(w.human, ref, "/disinto cancel")
	w.Say(w.dev, ref, "/disinto cancel")
	w.Say(w.boss, ref, "/disinto cancel")
	w.Say(w.human, ref, "/disinto tell use tabs")
	w.Say(w.dev, ref, "/disinto tell use tabs")
	w.Say(w.review, ref, "Please cancel this.")
	w.Say(w.review, ref, "> /disinto cancel")
	w.Say(w.review, other, "/disinto why")
	w.Say(w.review, other, "/disinto tell use\n\n    tabs\n")
	w.Say(w.review, ref, "Once more.\n\n/disinto assign dev-kimi")
	facts := w.scan(here)
	var got []string
	for i, s := range facts.Commands {
		got = append(got, fmt.Sprint(s.Ref == ref, s.Author == w.review, s.Command))
		same(w, "the command has an ID", s.ID > 0, true)
		same(w, "commands in order", i == 0 || facts.Commands[i-1].Compare(&facts.Commands[i]) < 0, true)
	}
	equal(w, "commands", got, []string{
		"false true {why [] false }", "false true {tell [] false use\n\n    tabs}", "true true {assign [dev-kimi] false }",
	})
	r, _ := facts.Repo(w.repo)
	same(w, "CommentsAsOf is zero", r.CommentsAsOf.IsZero(), false)
	for login, want := range map[string]bool{w.review: true, w.dev: true, w.human: false, "no-such-account": false} {
		may, err := here.MayWrite(w.ctx, w.repo, login)
		w.must("MayWrite", err)
		same(w, login+" may write", may, want)
	}
}

func claimCommand(w *world) {
	person := func(instance string) Forge {
		return w.Supervisor(Supervisor{
			Instance: instance, Host: "host", Token: w.bossToken, Repos: []string{w.repo}, Agents: []string{w.dev},
		})
	}
	ref := w.file("one")
	here := person("here")
	w.scan(here)
	for range races() {
		w.Say(w.review, ref, "/disinto retry")
	}
	all := w.scan(here).Commands
	same(w, "commands", len(all), races())
	for _, s := range all {
		clients := []Forge{person("here"), person("there"), person("elsewhere")}
		got := make([]error, len(clients))
		var wg sync.WaitGroup
		for i, c := range clients {
			wg.Go(func() { got[i] = c.ClaimCommand(w.ctx, s) })
		}
		wg.Wait()
		won := 0
		for i, err := range got {
			if err == nil {
				won++
				w.must("ClaimCommand again", clients[i].ClaimCommand(w.ctx, s))
				continue
			}
			if !errors.Is(err, forge.ErrUnavailable) { // the client repeatedly lost the race and stopped trying
				w.refused("ClaimCommand of a command that another supervisor took", err, forge.ErrTaken)
			}
			w.refused("ClaimCommand later", clients[i].ClaimCommand(w.ctx, s), forge.ErrTaken)
		}
		same(w, "winners", won, 1)
	}
	s := all[0]
	s.Command.Verb = "cancel"
	w.refused("ClaimCommand of a command that is not in the comment", here.ClaimCommand(w.ctx, s), forge.ErrNotFound)
	s = all[0]
	s.Author = w.human
	w.refused("ClaimCommand of another author's command", here.ClaimCommand(w.ctx, s), forge.ErrNotFound)
}
