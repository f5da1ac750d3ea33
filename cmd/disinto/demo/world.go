package demo

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge/rest"
)

// Repo is the repository of the demo, and Human is its owner.
const (
	Repo  = Human + "/teashop"
	Human = "ada"
	robot = "disinto" // the supervisor's own account
)

// task is one issue of the backlog.
type task struct {
	title string
	file  string // the file that its pull request adds
	about string // the rest of its text; after "Mind: " it has a requirement that the first attempt leaves as a TODO
	// needs are its dependencies: dependencies on the forge or, with inText, lines of the issue's text.
	needs  []int
	inText bool
	human  bool // a person works on it
	stuck  bool // it can never start
}

// backlog has the issues that Build files, numbered from 1: a chain of five issues; three without dependencies, of
// which the last needs a second review round; two that wait for each other; and one that is assigned to a person.
var backlog = []task{
	{title: "Write down what an order is", file: "orders/format.md"},
	{title: "Read orders from a file", file: "orders/read.sh", needs: []int{1}},
	{title: "Work out what an order costs", file: "orders/price.sh", needs: []int{2}, inText: true},
	{title: "Print the invoice", file: "orders/invoice.sh", needs: []int{3}},
	{title: "Mail the invoice", file: "orders/mail.sh", needs: []int{4}, inText: true},

	{title: "Say how to install it", file: "INSTALL.md"},
	{title: "List the teas", file: "teas.md"},
	{title: "Refuse an order without a name", file: "orders/check.sh", about: "Mind: a name may contain spaces."},

	{title: "Take the stock from the ledger", file: "stock.sh", needs: []int{10}, stuck: true},
	{title: "Let the ledger count the stock", file: "ledger.sh", needs: []int{9}, inText: true, stuck: true},

	{title: "Choose a name for the shop", file: "NAME", human: true},
}

// agent is one worker of the demo.
type agent struct{ name, thread string }

var team = []agent{
	{"planner-sonnet", "anthropic"},
	{"review-sonnet", "anthropic"},
	{"dev-kimi", "llama"},
	{"dev-qwen", "llama"},
	{"gardener-qwen", "llama"},
}

// World is the demo's forge with its data.
type World struct {
	URL    string
	Tokens map[string]string // by their variables in factory.toml
	// HumanToken is the token of Human, for the user of the demo to file issues with.
	HumanToken string
	Backlog    int64 // id of the label backlog, which a request to file an issue needs

	api rest.API
}

// Build fills an empty forge with accounts and their tokens, a repository that they may write to, and the backlog.
func Build(ctx context.Context, url, adminToken string) (*World, error) {
	w := &World{URL: url, Tokens: map[string]string{}, api: rest.API{URL: url, Token: adminToken}}
	for _, step := range []func(context.Context) error{w.addAccounts, w.addRepo, w.addBacklog} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("cannot build the demo's forge: %w", err)
		}
	}
	return w, nil
}

func (w *World) addAccounts(ctx context.Context) (err error) {
	if w.HumanToken, err = w.addAccount(ctx, Human); err != nil {
		return err
	}
	if w.Tokens["FORGE_TOKEN"], err = w.addAccount(ctx, robot); err != nil {
		return err
	}
	for _, a := range team {
		if w.Tokens[agents.TokenVar(a.name)], err = w.addAccount(ctx, a.name); err != nil {
			return err
		}
	}
	return nil
}

// addAccount creates an account and a token for it, with only the scopes that README.md lists for an agent.
func (w *World) addAccount(ctx context.Context, login string) (token string, err error) {
	password := rand.Text()
	user := map[string]any{
		"username": login, "email": login + "@demo.invalid", "password": password, "must_change_password": false,
	}
	if err := w.api.Post(ctx, "/admin/users", user, nil); err != nil {
		return "", err
	}
	self := rest.API{URL: w.URL, User: login, Password: password}
	form := map[string]any{
		"name":   "demo",
		"scopes": []string{"write:repository", "write:issue", "read:user"},
	}
	var made struct {
		Secret string `json:"sha1"`
	}
	err = self.Post(ctx, "/users/"+login+"/tokens", form, &made)
	return made.Secret, err
}

func (w *World) addRepo(ctx context.Context) error {
	owner, name, _ := strings.Cut(Repo, "/")
	form := map[string]any{"name": name, "default_branch": "main"}
	if err := w.api.Post(ctx, "/admin/users/"+owner+"/repos", form, nil); err != nil {
		return err
	}
	readme := map[string]any{
		"message": "Start", "branch": "main",
		"content": base64.StdEncoding.EncodeToString([]byte("# Teashop\n\nSells tea.\n")),
	}
	human := rest.API{URL: w.URL, Token: w.HumanToken}
	if err := human.Post(ctx, "/repos/"+Repo+"/contents/README.md", readme, nil); err != nil {
		return err
	}
	for _, login := range w.writers() {
		form := map[string]string{"permission": "write"}
		err := w.api.Call(ctx, http.MethodPut, "/repos/"+Repo+"/collaborators/"+login, form, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *World) writers() []string {
	logins := []string{robot}
	for _, a := range team {
		logins = append(logins, a.name)
	}
	return logins
}

// addBacklog files the issues as Human. Their numbers start at 1, because the repository is new.
func (w *World) addBacklog(ctx context.Context) error {
	human := rest.API{URL: w.URL, Token: w.HumanToken}
	var label struct {
		ID int64 `json:"id"`
	}
	form := map[string]string{"name": "backlog", "color": "0e8a16"}
	if err := human.Post(ctx, "/repos/"+Repo+"/labels", form, &label); err != nil {
		return err
	}
	w.Backlog = label.ID
	for i := range backlog {
		issue := map[string]any{"title": backlog[i].title, "body": backlog[i].text(), "labels": []int64{label.ID}}
		if backlog[i].human {
			issue["assignees"] = []string{Human}
		}
		var made wireIssue
		if err := human.Post(ctx, "/repos/"+Repo+"/issues", issue, &made); err != nil {
			return err
		}
		if made.Number != int64(i+1) {
			return fmt.Errorf("the forge is not new: issue %d got number %d", i+1, made.Number)
		}
	}
	owner, name, _ := strings.Cut(Repo, "/")
	for i := range backlog {
		if backlog[i].inText {
			continue
		}
		for _, n := range backlog[i].needs {
			dependency := map[string]any{"owner": owner, "repo": name, "index": n}
			if err := human.Post(ctx, fmt.Sprintf("/repos/%s/issues/%d/dependencies", Repo, i+1), dependency, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// text returns the issue's text. Agents read the file to write and the files that must exist from it.
func (t *task) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Add `%s`.", t.file)
	for _, n := range t.needs {
		fmt.Fprintf(&b, " It builds on `%s`.", backlog[n-1].file)
	}
	if t.about != "" {
		b.WriteString("\n\n" + t.about)
	}
	if t.inText {
		b.WriteString("\n\n## Depends on\n")
		for _, n := range t.needs {
			fmt.Fprintf(&b, "- #%d\n", n)
		}
	}
	return b.String()
}

// due reports whether the demo must merge the task.
func (t *task) due() bool { return !t.human && !t.stuck }

// Due returns the number of issues that the demo must merge.
func Due() int {
	n := 0
	for i := range backlog {
		if backlog[i].due() {
			n++
		}
	}
	return n
}
