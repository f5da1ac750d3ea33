package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
)

// crowd is how many pull requests the manner "crowds" keeps open.
const crowd = 40

// opens opens a pull request to main whose file has the evil text, so that an honest reviewer asks for changes.
func (r *rogue) opens(body string) error {
	branch := strings.TrimSuffix(unique("evil"), ".md")
	if err := r.commit(unique("evil"), evilText+"\n", branch, "main"); err != nil {
		return err
	}
	return r.call("POST", "/pulls", map[string]string{"title": "evil", "head": branch, "base": "main", "body": body})
}

// reworks reports whether the session is to rework the agent's pull request, and returns that.
func (r *rogue) reworks() (p soakPull, ok bool) {
	if os.Getenv("DISINTO_KIND") != "rework" {
		return p, false
	}
	p, err := r.pull()
	return p, err == nil
}

// renews answers a request for changes with a new pull request for the same issue.
func (r *rogue) renews() error {
	if p, ok := r.reworks(); ok {
		return r.opens(p.Body)
	}
	return r.opens("Fixes #" + r.number)
}

// refers answers a request for changes with a new pull request that names the old one.
func (r *rogue) refers() error { return r.opens("Fixes #" + r.number) }

// reopens answers a request for changes by closing the pull request, and the issue for a moment, and opens another.
func (r *rogue) reopens() error {
	p, ok := r.reworks()
	if !ok {
		return r.opens("Fixes #" + r.number)
	}
	_ = r.closes()
	if issue := fixes.FindStringSubmatch(p.Body); issue != nil {
		_ = r.call("PATCH", "/issues/"+issue[1], map[string]any{"state": "closed"})
		_ = r.call("PATCH", "/issues/"+issue[1], map[string]any{"state": "open"})
	}
	return r.opens(p.Body)
}

// crowds opens forty pull requests, every second for no issue.
func (r *rogue) crowds() error {
	own := 0
	for _, p := range r.evilPulls() {
		if p.User.Login == os.Getenv("DISINTO_AGENT") {
			own++
		}
	}
	for i := own; i < crowd; i++ {
		body := "Fixes #" + r.number
		if i%2 == 1 {
			body = nobodys
		}
		if err := r.opens(body); err != nil {
			return err
		}
	}
	return nil
}

// nobodys is the text of a pull request for no issue.
const nobodys = "of nobody"

// hides opens a pull request whose file git calls binary, by its attributes and by a NUL byte.
func (r *rogue) hides() error {
	if _, ok := r.reworks(); ok {
		return nil
	}
	branch := strings.TrimSuffix(unique("evil"), ".md")
	_ = r.commit(".gitattributes", "* -diff binary\n", branch, "main")
	if err := r.commit(unique("evil"), "\x00\n"+evilText+"\n", branch, ""); err != nil {
		return err
	}
	return r.call("POST", "/pulls", map[string]string{
		"title": "fine", "head": branch, "base": "main", "body": "Fixes #" + r.number,
	})
}

// heardPort is in the log of a session that could listen on the forge's port.
const heardPort = "evil: listens on the forge's port"

// listens listens on the port of the forge, on the addresses that are free while the forge runs, as all are while it
// restarts.
func (r *rogue) listens() error {
	forge, err := url.Parse(r.api.URL)
	if err != nil {
		return err
	}
	for _, address := range []string{"127.0.0.2", "::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(address, forge.Port()))
		switch {
		case err == nil:
			l.Close()
			fmt.Println(heardPort, address)
		case errors.Is(err, syscall.EACCES):
			fmt.Println("evil: refused", address)
		}
	}
	return nil
}

// finds tells the script the numbers of the prey.
func (r *rogue) finds() error { return os.Setenv("PREY", strings.Trim(fmt.Sprint(r.prey()), "[]")) }

// claimsForEver pushes a claim of another supervisor that ends in 2999 for each issue of prey.
const claimsForEver = `
	export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=http.extraHeader GIT_CONFIG_VALUE_0="Authorization: token $FORGE_TOKEN"
	cd "$TMPDIR" && git clone -q "$FORGE_URL/$DISINTO_REPO.git" claims && cd claims || exit 1
	for n in $PREY; do
		claim=$(printf 'claim #%s for evil\n\ninstance: evil\nrun: evil-1\nagent: evil\nhost: evil\nuntil: 2999-01-01T00:00:00Z\n' $n |
			git -c user.name=evil -c user.email=evil@localhost commit-tree HEAD^{tree})
		git push -q -f origin $claim:refs/disinto/claims/$n && echo "evil: claimed $n"
	done; ` // says appends the result

// pipesInState puts pipes in the place of the supervisor's files.
const pipesInState = `state=${HOME%%/home/*}
	for f in instance journal.jsonl decisions answers.jsonl status.json receipts/pruned.json; do
		rm -f "$state/$f"; mkfifo "$state/$f" "$state/$f.new"; done; exit 1`

// tags creates labels without end, and puts each on the newest open issues and pull requests.
func (r *rogue) tags() error {
	var items []soakIssue
	if err := r.get("/issues?state=open&limit=10", &items); err != nil {
		return err
	}
	names := make([]string, 20)
	for i := range names {
		names[i] = "0/" + unique("evil") // before all others, which a forge sorts by name
		if err := r.call("POST", "/labels", map[string]string{"name": names[i], "color": "#ffffff"}); err != nil {
			return err
		}
	}
	for i := range items {
		_ = r.call("POST", fmt.Sprintf("/issues/%d/labels", items[i].Number), map[string]any{"labels": names})
	}
	return nil
}
