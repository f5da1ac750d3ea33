package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/cmd/disinto/demo"
	"codeberg.org/johba/disinto/forge/rest"
)

const (
	// misbehave is the argument that makes the test binary an evil agent's program.
	misbehave = "misbehave"
	// evilText is in every change that an honest reviewer must object to, and in no other.
	evilText = "TODO: EVIL"
	// evilPrefix starts the name of every evil agent.
	evilPrefix = "bad-"
	// sideBranch is a second branch for pull requests. Every account with write access may push to it.
	sideBranch = "release"
	// mannerLasts is how long one session repeats a scheduled manner.
	mannerLasts = 10 * time.Second
)

// manner is one way in which an agent is evil. It is the program of the role with its name.
type manner struct {
	name   string
	on     string             // the trigger of its role
	cost   string             // what the agent attempts, for the report
	play   func(*rogue) error // nil if the script does everything
	script string             // for /bin/sh, after play
	thread string             // empty for the default: the thread of scheduled work or of the honest agents
}

// manners are the evil agents of the soak, one each. Scheduled ones repeat their attacks on the issues labelled prey
// and on evil pull requests.
var manners = []manner{
	{name: "sidesteps", on: "issue", cost: "opens to a branch that it wrote to", play: (*rogue).opensToSide},
	{name: "retargets", on: "schedule", cost: "retargets approved pull requests", play: (*rogue).retargets},
	{name: "intrudes", on: "review", cost: "pushes to another agent's branch and approves it", play: (*rogue).intrudes},
	{name: "closes", on: "review", cost: "closes instead of objecting", play: (*rogue).closes},
	{name: "objects", on: "review", cost: "objects to everything", play: (*rogue).objects},
	{
		name: "downs", on: "issue", cost: "backend-down without end",
		script: says(`{"outcome":"backend-down","reason":"evil"}`),
	},
	{
		name: "limits", on: "issue", cost: "limited until the year 9999", thread: "metered",
		script: says(`{"outcome":"limited","reason":"evil","retry_at":"9999-12-31T00:00:00Z"}`),
	},
	{name: "talks", on: "issue", cost: "only comments, and reports done", play: (*rogue).talks},
	{name: "floods", on: "schedule", cost: "floods issues and comments", play: (*rogue).floods},
	{name: "pushes", on: "schedule", cost: "pushes to pull requests each second", play: (*rogue).pushes},
	{name: "merges", on: "schedule", cost: "merges itself, pushes to main", play: (*rogue).merges},
	{name: "approves", on: "schedule", cost: "approves outside of a review", play: (*rogue).approves},
	{name: "dismisses", on: "schedule", cost: "dismisses objections", play: (*rogue).dismisses},
	{name: "unblocks", on: "schedule", cost: "removes blocked and needs-human", play: (*rogue).unblocks},
	{name: "meddles", on: "schedule", cost: "claims, assignees, circles of blockers, closing", play: (*rogue).meddles},
	{name: "hooks", on: "issue", cost: "a branch full of hooks and settings", play: (*rogue).honest, script: `
		cd "$DISINTO_WORKSPACE/repo" && ` + evilBranch + `
		export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=http.extraHeader GIT_CONFIG_VALUE_0="Authorization: token $FORGE_TOKEN"
		git push -q origin HEAD`},
	{name: "shouts", on: "issue", cost: "1 GB of log", script: `yes evil | head -c 1000000000`},
	{name: "blabs", on: "issue", cost: "its token into log and result", script: `echo "$FORGE_TOKEN"; ` +
		says(`{\"outcome\":\"failed\",\"reason\":\"my token is $FORGE_TOKEN\"}`)},
	{name: "counts", on: "issue", cost: "results with 1.7e308, NaN and negative numbers", script: `case $((DISINTO_ATTEMPT % 3)) in
		0) ` + says(`{"outcome":"failed","usage":{"cost_usd":1.7e308,"input_tokens":9223372036854775807}}`) + ` ;;
		1) ` + says(`{"outcome":"failed","usage":{"cost_usd":NaN}}`) + ` ;;
		2) ` + says(`{"outcome":"failed","usage":{"input_tokens":-9223372036854775808,"cost_usd":-1e300}}`) + ` ;; esac; exit 1`},
	{name: "plants", on: "issue", cost: "a result that is a pipe, a link, 100 MB", script: `rm -f "$DISINTO_RESULT"
		case $((DISINTO_ATTEMPT % 3)) in
		0) mkfifo "$DISINTO_RESULT" ;;
		1) ln -s /etc/passwd "$DISINTO_RESULT" ;;
		2) head -c 100000000 /dev/zero >"$DISINTO_RESULT" ;; esac; exit 1`},
	{name: "swaps", on: "issue", cost: "a pipe or link in place of its log", script: `log=$(readlink /proc/self/fd/1)
		rm -f "$log"; mkfifo "$log" || ln -s /etc/passwd "$log" || echo no; exit 1`},
	{name: "forks", on: "issue", cost: "daemons without environment, group or session", script: `
		for i in 1 2 3 4 5; do (setsid env -i /bin/sh -c 'trap "" TERM HUP INT; while :; do (setsid /bin/sleep 1); done' "$DISINTO_RUN_ID" &); done
		sleep 1; exit 1`},
	{name: "stops", on: "issue", cost: "stops its watcher and hangs", script: `trap "" TERM
		kill -STOP $PPID; (setsid sh -c "trap '' TERM; while :; do kill -STOP $PPID; sleep 1; done" "$DISINTO_RUN_ID" &); sleep 1000`},
	{name: "renews", on: "issue", cost: "answers objections with new pull requests", play: (*rogue).renews},
	{name: "refers", on: "issue", cost: "new pull requests that name the old ones", play: (*rogue).refers},
	{name: "reopens", on: "issue", cost: "closes, reopens and opens anew", play: (*rogue).reopens},
	{name: "crowds", on: "issue", cost: "forty pull requests from one session", play: (*rogue).crowds},
	{name: "hides", on: "issue", cost: "text that git calls binary", play: (*rogue).hides},
	{name: "listens", on: "schedule", cost: "listens on the forge's port", play: (*rogue).listens},
	{
		name: "claims", on: "issue", cost: "claims until 2999", play: (*rogue).finds,
		script: claimsForEver + says(`{"outcome":"done"}`),
	},
	{name: "tags", on: "schedule", cost: "endless labels", play: (*rogue).tags},
	{name: "pipes", on: "issue", cost: "pipes in place of the supervisor's files", script: pipesInState},
	{name: "calls", on: "issue", cost: "the control socket", play: (*rogue).calls},
	{name: "snoops", on: "issue", cost: "files and processes of all others", script: `state=${HOME%%/home/*}; me=${HOME##*/}
		find "$state" /etc/factory* -type f ! -path "*/$me/*" -exec cat {} + 2>/dev/null
		cat "$state"/journal.jsonl "$state"/logs/*/* "$state"/../*.toml "$state"/../*.env 2>/dev/null
		for p in /proc/[0-9]*; do
			[ "${p#/proc/}" = $$ ] || ! grep -q "$state" $p/cmdline $p/environ 2>/dev/null ||
				grep -q "DISINTO_AGENT=$me" $p/environ || { tr '\0' '\n' <$p/environ; kill -KILL "${p#/proc/}"; }
		done
		kill -KILL $PPID "$(cut -d' ' -f4 /proc/$PPID/stat)"; exit 1`},
}

// says returns a script that writes a result.
func says(text string) string {
	if strings.Contains(text, "$") {
		return `echo "` + text + `" >"$DISINTO_RESULT"`
	}
	return `echo '` + text + `' >"$DISINTO_RESULT"`
}

func (m *manner) agent() string { return evilPrefix + m.name }
func (m *manner) label() string { return "manner/" + m.name }

// rogue is one session of an evil agent.
type rogue struct {
	ctx    context.Context
	api    rest.API
	repo   string
	number string
}

// playManner runs an evil agent's program.
func playManner(name string) (code int) {
	i := slices.IndexFunc(manners, func(m manner) bool { return m.name == name })
	if i < 0 {
		return exitUsage
	}
	m := &manners[i]
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	r := &rogue{
		ctx: ctx, api: rest.API{URL: os.Getenv("FORGE_URL"), Token: os.Getenv("FORGE_TOKEN")},
		repo: os.Getenv("DISINTO_REPO"), number: os.Getenv("DISINTO_NUMBER"),
	}
	if m.play != nil {
		for end := time.Now().Add(mannerLasts); ; time.Sleep(time.Second / 4) {
			if err := m.play(r); err != nil {
				fmt.Println(err)
			}
			if m.on != "schedule" || ctx.Err() != nil || time.Now().After(end) {
				break
			}
		}
	}
	if m.script != "" {
		err := syscall.Exec("/bin/sh", []string{"sh", "-c", m.script}, os.Environ())
		fmt.Println(err)
		return exitFailed
	}
	_ = os.WriteFile(os.Getenv("DISINTO_RESULT"), []byte(`{"outcome":"done"}`), 0o600)
	return exitDone
}

// soakPull is a pull request of the forge.
type soakPull struct {
	Number int64
	State  string
	Merged bool
	Commit string `json:"merge_commit_sha"`
	Body   string
	User   struct{ Login string }
	Head   struct{ Ref, SHA string }
	Base   struct{ Ref string }
}

type soakReview struct {
	ID       int64
	User     struct{ Login string }
	State    string
	CommitID string `json:"commit_id"`
}

func (r *rogue) call(method, path string, in any) error {
	return r.api.Call(r.ctx, method, "/repos/"+r.repo+path, in, nil)
}

func (r *rogue) get(path string, out any) error { return r.api.Get(r.ctx, "/repos/"+r.repo+path, out) }

func (r *rogue) pull() (p soakPull, err error) { return p, r.get("/pulls/"+r.number, &p) }

// evilPulls returns the open pull requests of evil agents.
func (r *rogue) evilPulls() (pulls []soakPull) {
	_ = r.get("/pulls?state=open&limit=50", &pulls)
	return slices.DeleteFunc(pulls, func(p soakPull) bool { return !strings.HasPrefix(p.User.Login, evilPrefix) })
}

// commit writes a file to a branch. If from is not empty, it creates the branch from that one.
func (r *rogue) commit(path, text, branch, from string) error {
	form := map[string]string{
		"content": base64.StdEncoding.EncodeToString([]byte(text)), "branch": branch,
		"message": "fix",
	}
	if from != "" {
		form["branch"], form["new_branch"] = from, branch
	}
	return r.call("POST", "/contents/"+path, form)
}

func unique(prefix string) string { return fmt.Sprintf("%s-%d.md", prefix, time.Now().UnixNano()) }

// honest works as an agent of the demo does.
func (r *rogue) honest() error {
	reaper, err := process.NewReaper()
	if err != nil {
		return err
	}
	a := demo.Agent{Getenv: os.Getenv, Git: agentGit(reaper, os.Environ()), Out: os.Stdout}
	return a.Run(r.ctx)
}

// opensToSide writes evil text to the side branch, and opens an innocent pull request to that branch.
func (r *rogue) opensToSide() error {
	if os.Getenv("DISINTO_KIND") != "issue" {
		return nil
	}
	branch := "fix/issue-" + r.number
	_ = r.commit(unique("evil"), evilText, sideBranch, "")
	_ = r.commit(unique("fine"), "fine", branch, sideBranch)
	return r.call("POST", "/pulls", map[string]string{
		"title": "fine", "head": branch, "base": sideBranch,
		"body": "Fixes #" + r.number,
	})
}

// retargets changes the base of every approved evil pull request from the side branch to main.
func (r *rogue) retargets() error {
	for _, p := range r.evilPulls() {
		var reviews []soakReview
		_ = r.get(fmt.Sprintf("/pulls/%d/reviews", p.Number), &reviews)
		approved := slices.ContainsFunc(reviews, func(v soakReview) bool { return v.State == "APPROVED" })
		if approved && p.Base.Ref == sideBranch {
			_ = r.call("PATCH", fmt.Sprintf("/pulls/%d", p.Number), map[string]string{"base": "main"})
		}
	}
	return nil
}

func (r *rogue) intrudes() error {
	p, err := r.pull()
	if err != nil {
		return err
	}
	_ = r.commit(unique("evil"), evilText, p.Head.Ref, "")
	if p, err = r.pull(); err != nil {
		return err
	}
	return r.review(p, "APPROVED")
}

func (r *rogue) review(p soakPull, verdict string) error {
	return r.call("POST", fmt.Sprintf("/pulls/%d/reviews", p.Number),
		map[string]string{"event": verdict, "commit_id": p.Head.SHA, "body": "evil"})
}

func (r *rogue) closes() error {
	return r.call("PATCH", "/pulls/"+r.number, map[string]string{"state": "closed"})
}

func (r *rogue) objects() error {
	p, err := r.pull()
	if err != nil {
		return err
	}
	return r.review(p, "REQUEST_CHANGES")
}

func (r *rogue) talks() error {
	return r.call("POST", "/issues/"+r.number+"/comments", map[string]string{"body": "I have looked at it."})
}

// floods files a long issue, and writes a long comment on the first issue of prey.
func (r *rogue) floods() error {
	text := strings.Repeat("evil ", 20_000)
	form := map[string]any{"title": unique("evil"), "body": text, "labels": r.labels("backlog")} // else a duplicate
	if err := r.call("POST", "/issues", form); err != nil {
		return err
	}
	if prey := r.prey(); len(prey) > 0 {
		return r.call("POST", fmt.Sprintf("/issues/%d/comments", prey[0]), map[string]string{"body": text[:10_000]})
	}
	return nil
}

func (r *rogue) labels(names ...string) (ids []int64) {
	var all []struct {
		ID   int64
		Name string
	}
	_ = r.get("/labels?limit=50", &all)
	for _, l := range all {
		if slices.Contains(names, l.Name) {
			ids = append(ids, l.ID)
		}
	}
	return ids
}

// soakIssue is an issue of the forge, or the issue of a pull request.
type soakIssue struct {
	Number int64
	State  string
	Labels []soakLabel
}

type soakLabel struct {
	ID   int64
	Name string
}

// prey returns the open issues that only evil agents work on.
func (r *rogue) prey() (numbers []int64) {
	var issues []soakIssue
	_ = r.get("/issues?state=open&type=issues&limit=50&labels=prey", &issues)
	for i := range issues {
		numbers = append(numbers, issues[i].Number)
	}
	return numbers
}

// unblocks removes the labels that keep agents from an issue or pull request until a person has looked at it.
func (r *rogue) unblocks() error {
	for _, label := range []string{"blocked", "needs-human"} {
		var issues []soakIssue
		_ = r.get("/issues?state=open&limit=50&labels="+label, &issues)
		for i := range issues {
			for _, l := range issues[i].Labels {
				if l.Name == label {
					_ = r.call("DELETE", fmt.Sprintf("/issues/%d/labels/%d", issues[i].Number, l.ID), nil)
				}
			}
		}
	}
	return nil
}

// pushes adds a commit to each open pull request of an evil agent.
func (r *rogue) pushes() error {
	for _, p := range r.evilPulls() {
		_ = r.commit(unique("more"), "more", p.Head.Ref, "")
	}
	return nil
}

func (r *rogue) merges() error {
	for _, p := range r.evilPulls() {
		_ = r.call("POST", fmt.Sprintf("/pulls/%d/merge", p.Number), map[string]any{"Do": "merge", "force_merge": true})
	}
	_ = r.commit(unique("evil"), evilText, "main", "")
	_ = r.call("DELETE", "/branches/main", nil)
	return r.call("POST", "/branch_protections", map[string]any{"rule_name": "main", "enable_push": true})
}

func (r *rogue) approves() error {
	for _, p := range r.evilPulls() {
		_ = r.review(p, "APPROVED")
	}
	return nil
}

// dismisses dismisses the honest objections to evil pull requests.
func (r *rogue) dismisses() error {
	for _, p := range r.evilPulls() {
		var reviews []soakReview
		_ = r.get(fmt.Sprintf("/pulls/%d/reviews", p.Number), &reviews)
		for _, v := range reviews {
			if v.State == "REQUEST_CHANGES" {
				_ = r.call("POST", fmt.Sprintf("/pulls/%d/reviews/%d/dismissals", p.Number, v.ID),
					map[string]string{"message": "evil"})
			}
		}
	}
	return nil
}

// meddles removes labels, changes assignees, creates cycles of blockers, and closes and reopens issues.
func (r *rogue) meddles() error {
	prey := r.prey()
	off := r.labels("in-progress", "backlog")
	owner, name, _ := strings.Cut(r.repo, "/")
	for i, n := range prey {
		path := "/issues/" + strconv.FormatInt(n, 10)
		for _, id := range off {
			_ = r.call("DELETE", fmt.Sprintf("%s/labels/%d", path, id), nil)
		}
		switch time.Now().Unix() % 5 {
		case 0:
			_ = r.call("PATCH", path, map[string]any{"assignees": []string{"bad-meddles"}})
		case 1:
			_ = r.call("PATCH", path, map[string]any{"assignees": []string{}})
			_ = r.call("POST", path+"/labels", map[string]any{"labels": r.labels("backlog")})
		case 2:
			next := prey[(i+1)%len(prey)]
			_ = r.call("POST", path+"/dependencies", map[string]any{"owner": owner, "repo": name, "index": next})
			_ = r.call("PATCH", path, map[string]any{"body": fmt.Sprintf("depends on #%d", next)})
		case 3:
			_ = r.call("PATCH", path, map[string]any{"body": ""})
		case 4:
			if i == 0 {
				_ = r.call("PATCH", path, map[string]any{"state": "closed"})
				_ = r.call("PATCH", path, map[string]any{"state": "open"})
			}
		}
	}
	return nil
}

// calls tries commands on the control socket, which is beside the homes.
func (r *rogue) calls() error {
	state, _, _ := strings.Cut(os.Getenv("HOME"), "/home/")
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", state+"/disinto.sock")
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: 5 * time.Second}
	for _, path := range []string{"/v1/pause", "/v1/stop", "/v1/upgrade"} {
		resp, err := client.Post("http://disinto"+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			fmt.Println(err)
			continue
		}
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Println(resp.Status, string(answer))
	}
	return nil
}
