package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/forge/localforge"
	"codeberg.org/johba/disinto/forge/rest"
	"codeberg.org/johba/disinto/supervisor/control"
)

// The bounds of an evil agent's cost. A real run stayed far below them, see docs/security.md.
const (
	mostSessions = 60              // on one issue and its pull requests
	mostComments = 30              // by the supervisor on one issue
	mostLog      = 2 << 20         // bytes of a session's log on disk, with max_log = "1M"
	mostMemory   = 200 << 10       // KiB of the supervisor
	mostDelay    = 5 * time.Minute // between two honest merges, once all issues are filed
	mostOpen     = 8               // honest issues at a time
	mostFarm     = 16              // targets at a time, which are before newer honest issues
	mostLooks    = 30              // one each second, until the shim of an ended session is gone
)

// Evil agents of all manners work among honest ones, in one repository and on one thread. DISINTO_SOAK_EVIL is the
// duration: twenty seconds in make check, ten minutes in make soak. The checks use only the forge's traffic and git,
// /proc and the journal's lines.
func TestSoakEvil(t *testing.T) {
	if _, err := process.FindSandbox(); err != nil {
		t.Skip(err)
	}
	if os.Getenv("DISINTO_SOAK") == "" && !storms() {
		t.Skip("takes minutes: make soak runs it, and make check a part of it")
	}
	t.Parallel() // its processes wait for each other most of the time
	lasts := 20 * time.Second
	if os.Getenv("DISINTO_SOAK") != "" {
		lasts, _ = time.ParseDuration(cmp.Or(os.Getenv("DISINTO_SOAK_EVIL"), "10m"))
	}
	s := newEvilSoak(t)
	r := s.start()
	begin := time.Now()
	for i := 0; time.Since(begin) < lasts; i++ {
		if i%8 == 0 && s.open("good") < mostOpen {
			s.file("good")
		}
		if i%40 == 0 && s.open("farm") < mostFarm {
			s.fileEvil()
		}
		s.look(r)
		time.Sleep(time.Second)
	}
	for end, left := time.Now().Add(mostDelay), s.open("good"); left > 0; time.Sleep(time.Second) {
		if s.look(r); time.Now().After(end) {
			t.Errorf("got %d issues of honest agents still open, none closed for %s: %s", left, mostDelay, s.queue())
			break
		}
		if now := s.open("good"); now < left { // a busy machine takes longer for all of them
			end, left = time.Now().Add(mostDelay), now
		}
	}
	shown := disinto(t.Context(), nil, "logs", "bad-blabs", "--state", s.state)
	s.checkSecrets("disinto logs", []byte(shown.stdout+shown.stderr), "")
	r.signal(syscall.SIGTERM)
	if code := r.wait(); code != exitDone {
		t.Errorf("got exit code %d, want 0", code)
	}
	if left := mentions(t, s.state); len(left) > 0 {
		t.Errorf("got remaining processes %q", left)
	}
	if said := r.read(r.stderr); strings.Contains(said, "panic") {
		t.Error("the supervisor panicked")
	}
	s.readJournal(r)
	s.checkForge()
	s.checkFiles(r)
	for _, what := range []string{
		"merges", "processes", "tokens", "nobody's pull requests", "refused ports",
		"claims until 2999", "labels of one item",
	} {
		if s.seen[what] == 0 {
			t.Errorf("the test saw no %s, so its checks prove nothing", what)
		}
	}
	s.report(time.Since(begin))
}

// evilSoak is a forge and a factory with honest and evil agents.
type evilSoak struct {
	t      *testing.T
	api    rest.API
	dir    string // of the forge's repositories
	state  string
	config string
	tokens map[string]string // by account
	labels map[string]int64
	notaries
	runs    map[string]*evilRun // by id
	most    vitals
	mostLog int64
	seen    map[string]int // counts the subjects of each check, which prove that it can fail
	shims   map[string]int // how many looks at the processes found the shim of a run that had ended
}

// evilRun is a session as recorded in the journal.
type evilRun struct {
	agent, chain, result string
	ended                bool
}

const soakBoss = "boss" // the supervisor's account

var (
	goodDevs      = []string{"dev-ann", "dev-ben", "dev-cid"}
	goodReviewers = []string{"review-dot", "review-eve"}
)

func newEvilSoak(t *testing.T) *evilSoak {
	t.Helper()
	s := &evilSoak{
		t: t, dir: t.TempDir(), tokens: map[string]string{}, labels: map[string]int64{},
		runs: map[string]*evilRun{}, seen: map[string]int{}, shims: map[string]int{},
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	f, err := localforge.New(localforge.Options{Dir: s.dir, Run: forgeGit(oneReaper(t), os.Environ())})
	must(err)
	s.notaries = notaries{forge: f, read: map[string]soakPull{}, signed: map[string]bool{}}
	server := httptest.NewServer(&s.notaries)
	t.Cleanup(func() { server.Close(); f.Close() })
	accounts := slices.Concat([]string{"soak", soakBoss}, goodDevs, goodReviewers)
	for i := range manners {
		accounts = append(accounts, manners[i].agent())
	}
	for i, account := range accounts {
		must(f.AddUser(account, "", account == "soak"))
		s.tokens[account], err = f.AddToken(account)
		must(err)
		if i == 0 {
			must(f.AddRepo(t.Context(), "soak", "big", map[string]string{"README.md": "# big\n"}))
			continue
		}
		must(f.AddCollaborator("soak", "big", account, "write"))
	}
	s.api = rest.API{URL: server.URL, Token: s.tokens["soak"]}
	s.honest = map[string]bool{}
	for _, account := range goodReviewers {
		s.honest["token "+s.tokens[account]] = true
	}
	s.post("/branches", map[string]string{"new_branch_name": sideBranch})
	// As docs/security.md advises, except that all agents may push to the side branch.
	for _, branch := range []string{"main", sideBranch} {
		s.post("/branch_protections", map[string]any{
			"rule_name": branch, "enable_push": true, "enable_push_whitelist": branch == "main",
			"enable_merge_whitelist": true, "merge_whitelist_usernames": []string{soakBoss},
		})
	}
	s.state = filepath.Join(t.TempDir(), "state")
	s.config = filepath.Join(filepath.Dir(s.state), "factory.toml")
	must(os.WriteFile(s.config, []byte(s.factory()), 0o600))
	return s
}

func (s *evilSoak) factory() string {
	var b strings.Builder
	fmt.Fprintf(&b, "[forge]\nurl = %q\ntoken = \"$FORGE_TOKEN\"\nrepos = [%q]\nbases = [%q]\n", s.api.URL,
		soakRepo, sideBranch)
	fmt.Fprintf(&b, "[factory]\nstate = %q\nsandbox = \"strict\"\nmax_log = \"1M\"\nstop_grace = \"2s\"\n"+
		"min_free_memory = \"0\"\nmin_free_disk = \"0\"\n", s.state)
	self, binary := executable(s.t), soakBinary(s.t)
	for _, role := range []struct{ name, on, label string }{
		{"dev", "issue", "good"},
		{"farm", "issue", "farm"},
		{"review", "review", ""},
	} {
		fmt.Fprintf(&b, "[roles.%s]\non = %q\nlabel = %q\ncommand = [%q, \"demo-agent\"]\n", role.name, role.on,
			role.label, binary)
	}
	members := map[string][]string{"main": slices.Concat(goodDevs, goodReviewers)}
	for _, dev := range goodDevs {
		fmt.Fprintf(&b, "[agents.%s]\nroles = [\"dev\", \"farm\"]\n", dev)
	}
	for i := range manners {
		m := &manners[i]
		fmt.Fprintf(&b, "[roles.%s]\non = %q\ncommand = [%q, %q, %q]\ntimeout = \"30s\"\n", m.name, m.on, self,
			misbehave, m.name)
		thread := cmp.Or(m.thread, "main")
		if m.on == "schedule" {
			thread = "clock"
			b.WriteString("every = \"5s\"\n")
		} else {
			fmt.Fprintf(&b, "label = %q\n", m.label())
		}
		fmt.Fprintf(&b, "[agents.%s]\nrole = %q\n", m.agent(), m.name)
		members[thread] = append(members[thread], m.agent())
	}
	for _, thread := range slices.Sorted(maps.Keys(members)) {
		fmt.Fprintf(&b, "[threads.%s]\nbackend = \"anthropic\"\ninterval = \"1s\"\nidle_interval = \"1s\"\n"+
			"agents = [\"%s\"]\n", thread, strings.Join(members[thread], `", "`))
	}
	return b.String()
}

// soakBinary returns the path of the supervisor's program.
func soakBinary(t *testing.T) string {
	t.Helper()
	return cmp.Or(os.Getenv("DISINTO_BINARY"), executable(t))
}

func (s *evilSoak) start() *running {
	s.t.Helper()
	environ := []string{"FORGE_TOKEN=" + s.tokens[soakBoss]}
	for account, token := range s.tokens {
		environ = append(environ, agents.TokenVar(account)+"="+token)
	}
	r := start(s.t, environ, soakBinary(s.t), "run", "--yes", "--config", s.config)
	status(s.t, s.state, "the supervisor answers", func(*control.Document) bool { return true })
	return r
}

func (s *evilSoak) post(path string, in any) {
	s.t.Helper()
	if err := s.api.Post(s.t.Context(), "/repos/"+soakRepo+path, in, nil); err != nil {
		s.t.Fatal(err)
	}
}

func (s *evilSoak) get(path string, out any) {
	s.t.Helper()
	if err := s.api.Get(s.t.Context(), "/repos/"+soakRepo+path, out); err != nil {
		s.t.Error(err)
	}
}

// all returns all pages of a list.
func all[T any](s *evilSoak, path string) (list []T) {
	s.t.Helper()
	for page := 1; ; page++ {
		var some []T
		s.get(fmt.Sprintf("%slimit=10&page=%d", path, page), &some) // the labels of 50 items can be 100 MB
		if list = append(list, some...); len(some) < 10 {
			return list
		}
	}
}

// file creates an issue with labels and the label backlog.
func (s *evilSoak) file(labels ...string) {
	s.t.Helper()
	var ids []int64
	for _, name := range append(labels, "backlog") {
		if s.labels[name] == 0 {
			var label struct{ ID int64 }
			if err := s.api.Post(s.t.Context(), "/repos/"+soakRepo+"/labels", map[string]any{"name": name, "color": "#ffffff"},
				&label); err != nil {
				s.t.Fatal(err)
			}
			s.labels[name] = label.ID
		}
		ids = append(ids, s.labels[name])
	}
	s.post("/issues", map[string]any{"title": "issue", "labels": ids})
}

// fileEvil creates an issue for each manner that works on an issue or a review, and two as targets of the scheduled
// manners.
func (s *evilSoak) fileEvil() {
	for i := range manners {
		switch m := &manners[i]; m.on {
		case "issue":
			s.file(m.label())
		case "review":
			s.file("farm", m.label())
		}
	}
	s.file("farm", "prey")
	s.file("farm", "prey")
}

func (s *evilSoak) open(label string) int {
	s.t.Helper()
	return len(all[soakIssue](s, "/issues?state=open&type=issues&labels="+label+"&"))
}

// queue returns the reasons of the first items in the queue.
func (s *evilSoak) queue() string {
	d := status(s.t, s.state, "the supervisor answers", func(*control.Document) bool { return true })
	var b strings.Builder
	for _, q := range d.Queue[:min(len(d.Queue), 30)] {
		fmt.Fprintf(&b, "\n%s #%d: %s", q.Kind, q.Number, q.Why)
	}
	for _, th := range d.Threads {
		fmt.Fprintf(&b, "\n%s: parked %s %s", th.Name, th.ParkedUntil, th.ParkedWhy)
	}
	return b.String()
}

// look checks the invariants that hold at any time.
func (s *evilSoak) look(r *running) {
	s.t.Helper()
	d := status(s.t, s.state, "the supervisor answers", func(*control.Document) bool { return true })
	if d.PID != r.pid || d.Paused || d.Upgrades > 0 {
		s.t.Errorf("got pid %d, want %d; paused %v, upgraded %d times", d.PID, r.pid, d.Paused, d.Upgrades)
	}
	if len(d.Problems) > 0 || d.Forge.Error != "" || d.Upkeep.Violations > 0 {
		s.t.Errorf("got problems %q, forge error %q, upkeep %+v", d.Problems, d.Forge.Error, d.Upkeep)
	}
	s.readJournal(nil)
	s.checkProcesses()
	now := vitalsOf(s.t, r.supervisor())
	if s.most = s.most.max(now); now.rss > mostMemory {
		s.t.Errorf("got %d KiB of memory", now.rss)
	}
	text, _ := json.Marshal(d)
	s.checkSecrets("the status", text, "")
}

// readJournal reads the journal's new lines. If r is not nil, the supervisor has ended, and so must every session.
func (s *evilSoak) readJournal(r *running) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.state, "journal.jsonl"))
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var record struct {
			Start *struct{ Run, Agent, Chain string }
			End   *struct {
				Run, Result string
				Usage       *agents.Usage
			}
		}
		if !bytes.HasSuffix(line, []byte("\n")) || json.Unmarshal(line, &record) != nil {
			continue // an incomplete line
		}
		switch {
		case record.Start != nil && s.runs[record.Start.Run] == nil:
			s.runs[record.Start.Run] = &evilRun{agent: record.Start.Agent, chain: record.Start.Chain}
		case record.End != nil && s.runs[record.End.Run] != nil:
			run := s.runs[record.End.Run]
			run.ended, run.result = true, record.End.Result
			if u := record.End.Usage; u != nil && *u != u.Bounded() {
				s.t.Errorf("%s: got unbounded usage %+v", run.agent, *u)
			}
		}
	}
	if r == nil {
		return
	}
	for id, run := range s.runs {
		if !run.ended {
			s.t.Errorf("session %s of %s never ended", id, run.agent)
		}
	}
}

// checkProcesses fails for processes of sessions that have ended, and for tokens in arguments. A shim stays until the
// journal has its session's end, so the shim alone may be seen for a moment longer.
func (s *evilSoak) checkProcesses() {
	s.t.Helper()
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		args, _ := os.ReadFile(dir + "/cmdline")
		environ, _ := os.ReadFile(dir + "/environ")
		s.checkSecrets(dir+"/cmdline", args, "")
		for id, run := range s.runs {
			if !bytes.Contains(args, []byte(id+"\x00")) && !bytes.Contains(environ, []byte("DISINTO_RUN_ID="+id+"\x00")) {
				continue
			}
			s.seen["processes"]++
			leaves := run.ended && bytes.HasSuffix(args, []byte("\x00session-shim\x00"+id+"\x00"))
			if leaves {
				s.shims[id]++
			}
			if run.ended && (!leaves || s.shims[id] > mostLooks) {
				s.t.Errorf("session %s of %s has ended, but its process %q runs", id, run.agent, args)
			}
		}
	}
}

// checkSecrets fails if a text contains a token of another account than owner.
func (s *evilSoak) checkSecrets(where string, text []byte, owner string) {
	s.t.Helper()
	for account, token := range s.tokens {
		if !bytes.Contains(text, []byte(token)) {
			continue
		}
		if s.seen["tokens"]++; account != owner {
			s.t.Errorf("%s has the token of %s", where, account)
		}
	}
}

// fixes matches the issue that a pull request closes.
var fixes = regexp.MustCompile(`(?m)^Fixes #(\d+)`)

// checkForge checks the result on the forge: an honest reviewer approved each merge exactly as it was merged, each
// issue was merged once, and main has only merges and the first commit.
func (s *evilSoak) checkForge() {
	s.t.Helper()
	merged, merges := map[string]int{}, map[string]bool{}
	for _, p := range all[soakPull](s, "/pulls?state=all&") {
		if p.User.Login == evilPrefix+"sidesteps" && p.Base.Ref == "main" {
			s.seen["retargeted"]++
		}
		if p.Body == nobodys {
			s.seen["nobody's pull requests"]++
			s.checkUnasked(p.Number)
		}
		if !p.Merged {
			continue
		}
		s.seen["merges"]++
		// Pushes to the branch of a merged pull request still move its head on the forge, so git has the merged head.
		if parents := strings.Fields(s.git("log", "-1", "--format=%P", p.Commit)); len(parents) == 2 {
			p.Head.SHA = parents[1]
		}
		if !s.signed[signature(p)] {
			s.t.Errorf("#%d was merged into %s, but no honest reviewer approved %s", p.Number, p.Base.Ref, p.Head.SHA)
		}
		merges[p.Commit] = true
		if m := fixes.FindStringSubmatch(p.Body); m != nil {
			merged[m[1]]++
		}
	}
	for commit := range strings.FieldsSeq(s.git("log", "--first-parent", "--format=%H", "main")) {
		if !merges[commit] && s.git("log", "-1", "--format=%P", commit) != "\n" {
			s.t.Errorf("%s is on main, but no pull request merged it", commit)
		}
	}
	if text := s.git("log", "--first-parent", "-m", "-p", "--text", "main"); strings.Contains(text, "\n+"+evilText) {
		s.t.Error("the evil text is on main")
	}
	for _, is := range all[soakIssue](s, "/issues?state=all&type=issues&") {
		s.seen["labels of one item"] = max(s.seen["labels of one item"], len(is.Labels))
		n := merged[strconv.FormatInt(is.Number, 10)]
		good := slices.ContainsFunc(is.Labels, func(l soakLabel) bool { return l.Name == "good" })
		if n > 1 || good && n != 1 {
			s.t.Errorf("#%d: got %d merges, want 1", is.Number, n)
		}
		s.checkComments(is.Number)
	}
}

// checkUnasked fails if an agent worked on a pull request for no issue, for which no person asked.
func (s *evilSoak) checkUnasked(number int64) {
	s.t.Helper()
	for id, run := range s.runs {
		if run.chain == fmt.Sprintf("%s#%d", soakRepo, number) {
			s.t.Errorf("session %s of %s worked on #%d, which is for no issue", id, run.agent, number)
		}
	}
}

func (s *evilSoak) checkComments(number int64) {
	s.t.Helper()
	said := 0
	var comments []struct {
		Body string
		User struct{ Login string }
	}
	s.get(fmt.Sprintf("/issues/%d/comments", number), &comments)
	for _, c := range comments {
		s.checkSecrets(fmt.Sprintf("a comment on #%d", number), []byte(c.Body), "")
		if c.User.Login == soakBoss {
			said++
		}
	}
	s.seen["comments"] = max(s.seen["comments"], said)
	if said > mostComments {
		s.t.Errorf("got %d comments of the supervisor on #%d", said, number)
	}
}

// git runs git in the forge's repository.
func (s *evilSoak) git(args ...string) string {
	s.t.Helper()
	dirs, _ := filepath.Glob(filepath.Join(s.dir, "*.git"))
	var out bytes.Buffer
	err := oneReaper(s.t).Run(s.t.Context(), process.Cmd{
		Argv: append([]string{"git", "-C", dirs[0]}, args...),
		Env:  os.Environ(), Stdout: &out,
	})
	if err != nil {
		s.t.Error(err)
	}
	return out.String()
}

// checkFiles checks the files that sessions left: no token of another account, no log above its limit, no file of an
// evil branch's hook.
func (s *evilSoak) checkFiles(r *running) {
	s.t.Helper()
	s.checkSecrets("the supervisor's log", []byte(r.read(r.stderr)+r.read(r.stdout)), "")
	err := filepath.WalkDir(s.state, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(s.state, path)
		if err == nil && e.Type()&fs.ModeNamedPipe != 0 && !strings.Contains(name, "/") {
			s.t.Errorf("%s is a pipe", name)
		}
		if err != nil || !e.Type().IsRegular() {
			return nil // agents may create any kind of file
		}
		owner := ""
		if parts := strings.Split(name, "/"); len(parts) > 2 {
			owner = parts[1] // of logs, homes and workspaces
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		blocks := info.Sys().(*syscall.Stat_t).Blocks * 512
		if strings.HasPrefix(name, "logs/") {
			if s.mostLog = max(s.mostLog, blocks); blocks > mostLog {
				s.t.Errorf("%s: got %d bytes", name, blocks)
			}
		}
		if strings.HasPrefix(e.Name(), "evil-") && !strings.HasPrefix(owner, evilPrefix) &&
			!strings.Contains(name, "/repo/") {
			s.t.Errorf("%s: a program of a branch ran", name)
		}
		if blocks < 8<<20 {
			text := r.read(path)
			s.checkSecrets(name, []byte(text), owner)
			s.seen["refused ports"] += strings.Count(text, "evil: refused")
			s.seen["claims until 2999"] += strings.Count(text, "evil: claimed")
			if strings.Contains(text, heardPort) {
				s.t.Errorf("%s: a session listened on the forge's port", name)
			}
		}
		return nil
	})
	if err != nil {
		s.t.Error(err)
	}
}

// report logs the cost of each manner.
func (s *evilSoak) report(took time.Duration) {
	s.t.Helper()
	sessions, chains := map[string]int{}, map[string]map[string]int{}
	total := map[string]int{}
	results := map[string]map[string]int{}
	for _, run := range s.runs {
		sessions[run.agent]++
		total[run.chain]++
		if chains[run.agent] == nil {
			chains[run.agent], results[run.agent] = map[string]int{}, map[string]int{}
		}
		chains[run.agent][run.chain]++
		results[run.agent][run.result]++
	}
	for _, agent := range slices.Sorted(maps.Keys(sessions)) {
		own, whole := 0, 0
		for chain, n := range chains[agent] {
			if strings.Contains(chain, "#") {
				own, whole = max(own, n), max(whole, total[chain])
			}
		}
		s.t.Logf("%-16s %4d sessions, at most %2d on an issue, %2d with the honest agents' %v", agent, sessions[agent],
			own, whole, results[agent])
		if whole > mostSessions {
			s.t.Errorf("got %d sessions on one issue of %s", whole, agent)
		}
	}
	s.t.Logf("%s, %d sessions; %s; a log takes at most %d KiB; seen %v",
		took.Round(time.Second), len(s.runs), s.most, s.mostLog>>10, s.seen)
}

// notaries is a proxy between the factory and its forge. It records which heads honest reviewers read and approved,
// and for which branch.
type notaries struct {
	forge  http.Handler
	honest map[string]bool // by the Authorization header of a reviewer

	mu     sync.Mutex          // guards the fields below
	read   map[string]soakPull // what each reviewer read last, by token and path
	signed map[string]bool
}

func signature(p soakPull) string { return fmt.Sprintf("%d %s %s", p.Number, p.Base.Ref, p.Head.SHA) }

var (
	readsPull  = regexp.MustCompile(`/pulls/\d+$`)
	postReview = regexp.MustCompile(`(/pulls/\d+)/reviews$`)
)

func (n *notaries) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who := r.Header.Get("Authorization")
	posts := postReview.FindStringSubmatch(r.URL.Path)
	switch {
	case n.honest[who] && r.Method == http.MethodGet && readsPull.MatchString(r.URL.Path):
		answer := httptest.NewRecorder()
		n.forge.ServeHTTP(answer, r)
		var p soakPull
		if json.Unmarshal(answer.Body.Bytes(), &p) == nil {
			n.mu.Lock()
			n.read[who+readsPull.FindString(r.URL.Path)] = p
			n.mu.Unlock()
		}
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
		return
	case n.honest[who] && r.Method == http.MethodPost && posts != nil:
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var review struct {
			Event    string
			CommitID string `json:"commit_id"`
		}
		n.mu.Lock()
		p := n.read[who+posts[1]]
		if json.Unmarshal(body, &review) == nil && review.Event == "APPROVED" && review.CommitID == p.Head.SHA {
			n.signed[signature(p)] = true
		}
		n.mu.Unlock()
	}
	n.forge.ServeHTTP(w, r)
}
