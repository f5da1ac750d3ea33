package threads

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata; read the diff before you commit it")

// TestScripts runs testdata/*.txt. A script is a dialogue with the scheduler. Its lines build a snapshot. After a
// command (decide, why, convoy, around, rebalance, beside, answers), the block between ---- and the next empty line is
// the expected answer. Lines:
//
//	config                             then TOML up to a line ----
//	issue N [LABEL...] [key=value...]  blocked-by=2,3 blocker=4:missing blocker=5:open:body assigned=LOGIN unread closed
//	pull N [LABEL...] [key=value...]   closes= head= ci= conflict=-1m late merged=-1h rejected=-1h by=
//	                                   base=BRANCH[:MERGE-BASE] coder=LOGIN
//	review N LOGIN approved|changes [head=] [at=-5m] [unofficial] [outside]
//	                                   an agent's approval is from a review session, unless it is outside
//	                                   and in these three, by its name, any field that is a text, a time or a yes:
//	                                   reopened=-1h, draft
//	remark N LOGIN ID [writer] [key=] [likes=A,B]   a comment below an issue or pull request
//	talk N known|unread|approved=LOGIN
//	session AGENT THREAD/SLOT KIND N [role=] [rung=] [started=-1h] [used=TOKENS/DOLLARS]
//	room MEMORY DISK                   bytes that are free
//	room-there THREAD MEMORY DISK      on the best of the machines elsewhere
//	none-there THREAD WHY              none of them can run a session
//	nomad-down THREAD WHY              Nomad does not answer
//	cache THREAD shared|slots [TOKENS]  what is seen of its server, and what its memory has room for
//	outage SERVICE [until=+5m] WORDS   why it cannot be used; no words: it can
//	typical KIND +30m                  how long such sessions take
//	history KEY ...                    attempts, cooldown, warm, said, returns, writers, parked, paused, resumed, spent,
//	                                   use, used, agent-hold, rejected, ran, passed, touched, claimed,
//	                                   dialogue N question|plan|split RUN AGENT [asked] [answered=-1h] [approved]
//	                                   [comments=1,2] WORDS, dialogue N gone,
//	                                   idle, refused, retried, labelled, asked, ci-fixes, failures, rung,
//	                                   conflicts, reviews, reviewed, no-merge, carried, setup, turn, barred
//	remote HOST/AGENT STATE [idle=-3m] [skills=a,b]  an agent of another host
//	repo NAME                          another repository; o/r is there
//	unissue N, unpull N, unsession AGENT, now +5m, scan, unread, off WORDS
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runScript(t, file) })
	}
}

func runScript(t *testing.T, file string) {
	text, got := play(t, file)
	if got == text {
		return
	}
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s: got\n%s\nrun with -update and read the diff if this is right", file, got)
}

// play runs a script. It returns the text of the file, and the text with the present answers.
func play(t *testing.T, file string) (text, got string) { return playWith(t, file, func(*Snapshot) {}) }

// playWith also calls after with the snapshot of each answer.
func playWith(t *testing.T, file string, after func(*Snapshot)) (text, got string) {
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w := newScriptWorld(t)
	var out strings.Builder
	in := bufio.NewScanner(strings.NewReader(string(raw)))
	for in.Scan() {
		line := in.Text()
		out.WriteString(line + "\n")
		answer, isCommand := w.line(line, in, &out)
		if !isCommand {
			continue
		}
		for in.Scan() && in.Text() != "" { // skip the old answer
		}
		out.WriteString("----\n" + answer + "\n")
		after(&w.s)
	}
	return string(raw), out.String()
}

// scriptWorld is the snapshot that a script has built so far.
type scriptWorld struct {
	*testing.T
	s Snapshot
}

var scriptStart = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newScriptWorld(t *testing.T) *scriptWorld {
	w := &scriptWorld{T: t}
	w.s.Now = scriptStart
	w.s.Facts.Repos = []forge.Repo{{Name: "o/r", AsOf: scriptStart, DefaultBranch: "main"}}
	w.s.History = NewHistory()
	w.s.History.Listens["o/r"] = scriptStart.Add(1000 * time.Hour) // every pull request is older: see begins
	return w
}

// lines executes lines that expect no answer.
func (w *scriptWorld) lines(text string) {
	in := bufio.NewScanner(strings.NewReader(text))
	for in.Scan() {
		w.line(in.Text(), in, new(strings.Builder))
	}
}

// line executes one line. isCommand reports whether the script has an expected answer for it.
func (w *scriptWorld) line(line string, in *bufio.Scanner, out *strings.Builder) (answer string, isCommand bool) {
	f := strings.Fields(line)
	if len(f) == 0 || strings.HasPrefix(line, "#") {
		return "", false
	}
	switch f[0] {
	case "config":
		w.config(in, out)
	case "issue":
		w.issue(f[1], f[2:])
	case "pull":
		w.pull(f[1], f[2:])
	case "review":
		w.review(f[1:])
	case "remark":
		w.remark(f[1:])
	case "talk":
		w.talk(f[1:])
	case "session":
		w.session(f[1:])
	case "began":
		w.s.Began = w.at(f[1])
	case "history":
		w.history(f[1:])
	case "unissue":
		w.s.Facts.Issues = slices.DeleteFunc(w.s.Facts.Issues, func(i forge.Issue) bool { return i.Ref == w.ref(f[1]) })
	case "unpull":
		w.s.Facts.Pulls = slices.DeleteFunc(w.s.Facts.Pulls, func(p forge.Pull) bool { return p.Ref == w.ref(f[1]) })
	case "unsession":
		w.s.Sessions = slices.DeleteFunc(w.s.Sessions, func(s Session) bool { return s.Agent == f[1] })
	case "outage":
		w.outage(f[1], f[2:])
	case "cache": // THREAD shared|slots [TOKENS]
		w.cache(f[1:])
	case "room":
		w.s.Room = &Room{Memory: int64(w.number(f[1])), Disk: int64(w.number(f[2]))}
	case "none-there": // THREAD WHY
		w.roomThere(f[1], Room{Memory: 1 << 50, Disk: 1 << 50, None: strings.Join(f[2:], " ")})
	case "nomad-down": // THREAD WHY
		w.roomThere(f[1], Room{Memory: 1 << 50, Disk: 1 << 50, Down: strings.Join(f[2:], " ")})
	case "room-there": // THREAD MEMORY DISK
		w.roomThere(f[1], Room{Memory: int64(w.number(f[2])), Disk: int64(w.number(f[3]))})
	case "typical":
		w.s.Typical = map[agents.Kind]time.Duration{agents.Kind(f[1]): w.at(f[2]).Sub(w.s.Now)}
	case "remote":
		w.remote(f[1:])
	case "now":
		w.s.Now = w.at(f[1])
	case "scan":
		w.scan()
	case "main": // SHA pending|success|failure [CHECK...]
		b := forge.Branch{Name: "main", SHA: f[1], CI: scriptCI[f[2]], Red: f[3:]}
		if b.CI == forge.CIFailure {
			b.Since = w.s.Now
		}
		w.s.Facts.Repos[0].Branches = []forge.Branch{b}
	case "repo":
		w.s.Facts.Repos = append(w.s.Facts.Repos, forge.Repo{Name: f[1], AsOf: w.s.Now, DefaultBranch: "main"})
	case "unread":
		w.s.Facts.Repos[0].AsOf = time.Time{}
	case "off":
		w.s.Facts.Repos[0].AsOf, w.s.Facts.Repos[0].Off = time.Time{}, strings.Join(f[1:], " ")
	case "no-push":
		w.s.Facts.Repos[0].NoPush = strings.Join(f[1:], " ")
	case "decide":
		return w.decide(), true
	case "why":
		return w.why(f[1]), true
	case "convoy":
		return formatConvoy(ConvoyOf(w.s, w.s.Facts.Issue(w.ref(f[1])))), true
	case "around":
		return formatAround(Around(w.s, w.ref(f[1]))), true
	case "rebalance":
		return formatBalance(Weigh(w.s)), true
	case "beside":
		return w.beside(), true
	case "answers":
		return w.answers(), true
	default:
		w.Fatalf("unknown line %q", line)
	}
	return "", false
}

// decide formats the plan for the present snapshot.
func (w *scriptWorld) decide() string { return formatPlan(Decide(w.s), w.s.Now) }

// beside formats the slots that stand free beside work after the present plan.
func (w *scriptWorld) beside() string {
	plan := Decide(w.s)
	var out strings.Builder
	free, _ := Beside(&w.s, &plan)
	for _, f := range free {
		fmt.Fprintf(&out, "free   %s/%d %s\n", f.Thread, f.Slot, f.Code)
	}
	return out.String()
}

// scan makes every fact as new as now.
func (w *scriptWorld) scan() {
	for i := range w.s.Facts.Repos {
		w.s.Facts.Repos[i].AsOf = w.s.Now
	}
	for i := range w.s.Facts.Issues {
		w.s.Facts.Issues[i].AsOf = w.s.Now
	}
	for i := range w.s.Facts.Pulls {
		w.s.Facts.Pulls[i].AsOf = w.s.Now
	}
}

func (w *scriptWorld) why(number string) string {
	ex, err := Explanation{}, error(nil)
	if w.s.Config.Thread(number) != nil {
		ex, err = ExplainName(w.s, number)
	} else {
		ex, err = Explain(w.s, w.ref(number))
	}
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	for _, s := range ex.Steps {
		fmt.Fprintf(&b, "%-3s %s%s\n", yesNo(s.OK), s.Rule, dash(s.Why))
	}
	for _, c := range ex.Candidates {
		fmt.Fprintf(&b, "%s as %s on %s\n", c.Agent, c.Role, c.Thread)
		for _, s := range c.Steps {
			if !s.OK {
				fmt.Fprintf(&b, "    no %s%s\n", s.Rule, dash(s.Why))
			}
		}
	}
	fmt.Fprintf(&b, "=> %s", ex.Verdict)
	if ex.Position > 0 {
		fmt.Fprintf(&b, " (%d in the queue)", ex.Position)
	}
	return b.String() + "\n"
}

func formatConvoy(c Convoy) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s known=%v %v\n", c.State, c.Known, c.Counts)
	for _, m := range c.Members {
		fmt.Fprintf(&b, "wave %d %s", m.Wave, formatMember(m))
	}
	return b.String()
}

func formatMember(m Member) string {
	after := ""
	if len(m.DependsOn) > 0 {
		after = " after " + strings.ReplaceAll(strings.Join(m.DependsOn, " "), "o/r", "")
	}
	return fmt.Sprintf("#%d%s %s%s%s\n", m.Number, after, m.State, dash(m.Agent), dash(m.Why))
}

func formatAround(dependsOn, dependents []Member) string {
	var b strings.Builder
	for _, m := range dependsOn {
		b.WriteString("depends on " + formatMember(m))
	}
	for _, m := range dependents {
		b.WriteString("waited for by " + formatMember(m))
	}
	return b.String()
}

func yesNo(ok bool) string {
	if ok {
		return "yes"
	}
	return "no"
}

func dash(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

func formatPlan(p Plan, now time.Time) string {
	var b strings.Builder
	for _, s := range p.Stops {
		fmt.Fprintf(&b, "stop   %s: %s\n", s.RunID, s.Reason.Text())
	}
	for _, m := range p.Marks {
		fmt.Fprintf(&b, "mark   %s %s %s", m.Ref.Short(), m.Action, m.Reason.Text())
		if m.From != "" {
			fmt.Fprintf(&b, ", not to %s", m.From)
		}
		if m.Action == ActAnswered {
			fmt.Fprintf(&b, " %v", m.Item.Comments)
		}
		b.WriteString("\n")
	}
	for _, m := range p.Merges {
		fmt.Fprintf(&b, "merge  %s at %s\n", m.Ref.Short(), m.HeadSHA)
	}
	for _, s := range p.Starts {
		fmt.Fprintf(&b, "start  %s/%d %s %s %s", s.Thread, s.Slot, s.Agent, s.Item.Kind, itemName(s.Item))
		if s.Item.Cause != "" {
			fmt.Fprintf(&b, " (%s)", s.Item.Cause)
		}
		if len(s.Item.Comments) > 0 {
			fmt.Fprintf(&b, " about %v", s.Item.Comments)
		}
		if s.Attempt > 1 {
			fmt.Fprintf(&b, ", attempt %d", s.Attempt)
		}
		if s.Rung > 0 {
			fmt.Fprintf(&b, ", rung %d", s.Rung)
		}
		if (s.PassedOver != Key{}) {
			fmt.Fprintf(&b, ", before %s %s", s.PassedOver.Kind, s.PassedOver.Ref.Short())
		}
		b.WriteString("\n")
	}
	for _, h := range p.Holds {
		fmt.Fprintf(&b, "hold   %s %s: %s: %s\n", h.Item.Kind, itemName(h.Item), h.Reason.Code, h.Reason.Text())
	}
	for _, h := range p.Unqueued {
		fmt.Fprintf(&b, "aside  %s %s: %s: %s\n", h.Item.Kind, itemName(h.Item), h.Reason.Code, h.Reason.Text())
	}
	if !p.NextWake.IsZero() {
		fmt.Fprintf(&b, "wake   in %s\n", p.NextWake.Sub(now))
	}
	return b.String()
}

func itemName(it Item) string {
	if it.Role != "" {
		return it.Role + "@" + it.Ref.Repo
	}
	return it.Ref.Short()
}

func (w *scriptWorld) config(in *bufio.Scanner, out *strings.Builder) {
	var text strings.Builder
	for in.Scan() {
		out.WriteString(in.Text() + "\n")
		if in.Text() == "----" {
			break
		}
		text.WriteString(in.Text() + "\n")
	}
	env := map[string]string{"FORGE_URL": "http://forge", "FORGE_TOKEN": "supervisor", "FORGE_REPO": "o/r"}
	cfg, err := Decode("factory.toml", text.String(), func(name string) (string, bool) {
		v, ok := env[name]
		if !ok && strings.HasPrefix(name, "FORGE_TOKEN_") && !strings.Contains(name, "POOR") {
			return "token-of-" + name, true
		}
		return v, ok
	})
	if err != nil {
		w.Fatal(err)
	}
	w.s.Config = cfg
}

func (w *scriptWorld) ref(s string) forge.Ref {
	ref, err := forge.ParseRef(s, "o/r")
	if err != nil {
		w.Fatal(err)
	}
	return ref
}

func (w *scriptWorld) refs(list string) []forge.Ref {
	var refs []forge.Ref
	for s := range strings.SplitSeq(list, ",") {
		refs = append(refs, w.ref(s))
	}
	slices.SortFunc(refs, forge.Ref.Compare)
	return refs
}

// at reads a time relative to now: -3h, +5m, now.
func (w *scriptWorld) at(s string) time.Time {
	if s == "now" {
		return w.s.Now
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		w.Fatal(err)
	}
	return w.s.Now.Add(d)
}

func (w *scriptWorld) outage(service string, f []string) {
	if w.s.Outages == nil {
		w.s.Outages = make(map[string]Outage)
	}
	var out Outage
	if until, ok := strings.CutPrefix(strings.Join(f[:min(len(f), 1)], ""), "until="); ok {
		out.Until, f = w.at(until), f[1:]
	}
	if out.Why = strings.Join(f, " "); out.Why == "" {
		delete(w.s.Outages, service)
		return
	}
	w.s.Outages[service] = out
}

func (w *scriptWorld) number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		w.Fatal(err)
	}
	return n
}

var scriptBlockers = map[string]forge.BlockerState{
	"unknown": forge.BlockerUnknown, "open": forge.BlockerOpen, "closed": forge.BlockerClosed,
	"cancelled": forge.BlockerCancelled, "unmerged": forge.BlockerUnmerged, "missing": forge.BlockerMissing,
	"unreadable": forge.BlockerUnreadable,
}

func (w *scriptWorld) issue(number string, words []string) {
	is := forge.Issue{
		Ref: w.ref(number), Title: "issue " + number, Created: w.s.Now, BlockersKnown: true, AsOf: w.s.Now,
		Updated: w.s.Now,
	}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "assigned":
			is.Assignees = append(is.Assignees, value)
		case "closed":
			is.Closed = true
			if value != "" {
				is.Ended = w.at(value)
			}
		case "unread":
			is.BlockersKnown = false
		case "blocked-by":
			for _, ref := range w.refs(value) {
				is.Blockers = append(is.Blockers, forge.Blocker{Ref: ref, State: forge.BlockerOpen})
			}
		case "blocker":
			ref, state, _ := strings.Cut(value, ":")
			state, inBody := strings.CutSuffix(state, ":body")
			b := forge.Blocker{Ref: w.ref(ref), State: scriptBlockers[state], InBody: inBody}
			is.Blockers = append(is.Blockers, b)
		default:
			if !w.field(&is, word) {
				is.Labels = append(is.Labels, w.label(word))
			}
		}
	}
	slices.Sort(is.Labels)
	w.s.Facts.Issues = append(slices.DeleteFunc(w.s.Facts.Issues, func(o forge.Issue) bool { return o.Ref == is.Ref }), is)
	slices.SortFunc(w.s.Facts.Issues, func(a, b forge.Issue) int { return a.Ref.Compare(b.Ref) })
}

// field sets the field of a fact that a word names: reopened=-1h is Reopened, blockers-known is BlockersKnown. It
// reports whether the field exists.
func (w *scriptWorld) field(fact any, word string) bool {
	key, value, given := strings.Cut(word, "=")
	f := reflect.ValueOf(fact).Elem().FieldByNameFunc(func(name string) bool {
		return strings.EqualFold(name, strings.ReplaceAll(key, "-", ""))
	})
	if !f.IsValid() {
		return false
	}
	switch p := f.Addr().Interface().(type) {
	case *bool:
		*p = *p || !given
		return !given
	case *time.Time:
		if given {
			*p = w.at(value)
		}
		return given
	case *string:
		if given {
			*p = value
		}
		return given
	}
	return false
}

// label returns a word as a label, unless it can only be a misspelt or unknown field.
func (w *scriptWorld) label(word string) string {
	if strings.Contains(word, "=") {
		w.Fatalf("unknown field %q", word)
	}
	return word
}

var scriptCI = map[string]forge.CI{"pending": forge.CIPending, "success": forge.CISuccess, "failure": forge.CIFailure}

func (w *scriptWorld) pull(number string, words []string) {
	p := forge.Pull{
		Ref: w.ref(number), Title: "pull " + number, Created: w.s.Now, Updated: w.s.Now, AsOf: w.s.Now, HeadSHA: "aa",
		Mergeable: forge.MergeClean, Base: "main", MergeBase: "m0",
	}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "closes":
			p.Closes = w.refs(value)
		case "head":
			p.HeadSHA = value
		case "base": // BRANCH[:MERGE-BASE]
			base, from, _ := strings.Cut(value, ":")
			p.Base, p.MergeBase = base, cmp.Or(from, p.MergeBase)
		case "coder":
			p.Coders = append(p.Coders, value)
		case "assigned":
			p.Assignees = append(p.Assignees, value)
		case "ci":
			p.CI, p.CISince = scriptCI[value], w.s.Now
		case "red": // CHECK,..., then after a slash those that fail without it, too
			red, before, _ := strings.Cut(value, "/")
			p.CI, p.CISince, p.Red = forge.CIFailure, w.s.Now, strings.Split(red, ",")
			if before != "" {
				p.RedBefore = strings.Split(before, ",")
			}
		case "conflict":
			p.Mergeable, p.ConflictSince = forge.MergeNotClean, w.at(value)
		case "late":
			p.Mergeable = forge.MergeUnknown
		case "merged":
			p.Closed, p.Merged, p.Ended = true, true, w.at(value)
		case "rejected":
			p.Closed, p.Ended = true, w.at(value)
		case "by":
			p.ClosedBy = value
		default:
			if !w.field(&p, word) {
				p.Labels = append(p.Labels, w.label(word))
			}
		}
	}
	slices.Sort(p.Labels)
	if old := w.s.Facts.Pull(p.Ref); old != nil {
		p.Reviews = old.Reviews
	}
	w.s.Facts.Pulls = append(slices.DeleteFunc(w.s.Facts.Pulls, func(o forge.Pull) bool { return o.Ref == p.Ref }), p)
	slices.SortFunc(w.s.Facts.Pulls, func(a, b forge.Pull) int { return a.Ref.Compare(b.Ref) })
}

func (w *scriptWorld) review(f []string) {
	p := w.s.Facts.Pull(w.ref(f[0]))
	r := forge.Review{Author: f[1], CommitSHA: p.HeadSHA, Official: true, Submitted: w.s.Now}
	r.Verdict = map[string]forge.Verdict{
		"approved": forge.Approved, "changes": forge.ChangesRequested,
		"comment": forge.Commented,
	}[f[2]]
	outside := false
	for _, word := range f[3:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "outside":
			outside = true
		case "head":
			r.CommitSHA = value
		case "at":
			r.Submitted = w.at(value)
		case "unofficial":
			r.Official = false
		default:
			if !w.field(&r, word) {
				w.Fatalf("unknown word %q in a review", word)
			}
		}
	}
	p.Reviews = append(p.Reviews, r)
	if a := w.s.Config.AgentByLogin(f[1]); a != nil && !outside && r.Verdict == forge.Approved {
		known := Approval{Agent: a.Name, Head: r.CommitSHA, Base: p.Base, MergeBase: p.MergeBase}
		Entry(w.s.History.Chains, p.Ref).Approve(known)
	}
}

func (w *scriptWorld) session(f []string) {
	thread, slot, _ := strings.Cut(f[1], "/")
	s := Session{
		RunID: "run-" + f[0], Agent: f[0], Login: f[0], Thread: thread, Slot: w.number(slot), State: Running,
		Started: w.s.Now, Attempt: 1,
	}
	s.Item = Item{Kind: agents.Kind(f[2])}
	if s.Item.Kind == agents.KindSchedule {
		s.Item.Ref, s.Item.Role = forge.Ref{Repo: "o/r"}, f[3]
		s.Item.Chain = s.Item.Ref
	} else {
		s.Item.Ref = w.ref(f[3])
		s.Item.Chain = s.Item.Ref
	}
	if p := w.s.Facts.Pull(s.Item.Ref); p != nil {
		s.Item.HeadSHA, s.Item.Base, s.Item.Seen = p.HeadSHA, p.Base, p.Updated
		if len(p.Closes) > 0 {
			s.Item.Chain = p.Closes[0]
		}
	}
	if a := w.s.Config.Agent(f[0]); a != nil {
		s.Role, s.Login = a.Roles[0], a.Login
	}
	for _, word := range f[4:] {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "rung":
			s.Rung = w.number(value)
		case "role":
			s.Role = value
		case "started":
			s.Started = w.at(value)
		case "used":
			tokens, usd := w.used(value)
			s.Used = agents.Usage{InputTokens: tokens, CostUSD: usd}
		case "claiming":
			s.State = Reserved
		case "author":
			s.Item.Author = value
		case "base":
			s.Item.Base = value
		case "chain":
			s.Item.Chain = w.ref(value)
		}
	}
	if r := w.s.Config.Role(s.Role); r != nil {
		s.PerSession, s.PerIssue = r.PerSession, r.PerIssue
	}
	w.s.Sessions = append(w.s.Sessions, s)
}

// used reads TOKENS/DOLLARS.
func (w *scriptWorld) used(s string) (tokens int64, usd float64) {
	in, dollars, _ := strings.Cut(s, "/")
	usd, err := strconv.ParseFloat(cmp.Or(dollars, "0"), 64)
	if err != nil {
		w.Fatal(err)
	}
	return int64(w.number(in)), usd
}

// key reads KIND:N, or schedule:ROLE.
func (w *scriptWorld) key(s string) Key {
	kind, n, _ := strings.Cut(s, ":")
	if kind == string(agents.KindSchedule) {
		return Key{Kind: agents.KindSchedule, Ref: forge.Ref{Repo: "o/r"}, Role: n}
	}
	return Key{Kind: agents.Kind(kind), Ref: w.ref(n)}
}

// roomThere sets the room of a thread's agents elsewhere.
func (w *scriptWorld) roomThere(thread string, room Room) {
	w.s.Rooms = map[string]Room{}
	for i := range w.s.Config.Agents {
		if a := &w.s.Config.Agents[i]; a.Thread == thread {
			w.s.Rooms[a.Name] = room
		}
	}
}

func (w *scriptWorld) cache(f []string) {
	if w.s.Caches == nil {
		w.s.Caches = make(map[string]ServerCache)
	}
	c := ServerCache{Shared: f[1] == "shared"}
	if len(f) > 2 {
		c.Tokens = int64(w.number(f[2]))
	}
	w.s.Caches[f[0]] = c
}

func (w *scriptWorld) history(f []string) {
	h := &w.s.History
	switch f[0] {
	case "attempts": // KIND:CHAIN COUNT UNTIL [marked]
		k := w.key(f[1])
		Entry(h.Chains, k.Ref).SetAttempt(Attempt{Kind: k.Kind, Count: w.number(f[2]), Until: w.at(f[3]), Marked: len(f) > 4})
	case "no-host": // KIND:CHAIN COUNT UNTIL HOST
		k := w.key(f[1])
		r := agents.Refusals{{Host: f[4] + ":443", Rule: f[4], Times: 3}}
		Entry(h.Chains, k.Ref).SetAttempt(Attempt{
			Kind: k.Kind, Count: w.number(f[2]), Until: w.at(f[3]), Reason: "npm ci failed; it was " + r.Words() + " (egress)",
			Allow: r.Line(),
		})
	case "carried": // N HEAD MERGE-BASE AT FROM...
		Entry(h.Chains, w.ref(f[1])).Carried = &Carried{
			Head: f[2], Base: "main", MergeBase: f[3], At: w.at(f[4]), Same: f[5:],
		}
	case "no-merge": // N HEAD CAUSE COUNT UNTIL WORDS
		Entry(h.Chains, w.ref(f[1])).NoMerge = &NoMerge{
			Head: f[2], Base: "main", Cause: forge.RefusalCause(f[3]), Count: w.number(f[4]), Until: w.at(f[5]),
			Words: strings.Join(f[6:], " "),
		}
	case "cooldown": // KEY UNTIL [WORDS]
		Entry(h.Items, w.key(f[1])).Rest(w.at(f[2]), strings.Join(f[3:], " "))
	case "warm": // THREAD/SLOT AGENT CHAIN [LEFT]
		thread, slot, _ := strings.Cut(f[1], "/")
		resident := Warm{Agent: f[2], Chain: w.ref(f[3])}
		if len(f) > 4 {
			resident.Left = w.at(f[4])
		}
		h.Slots[SlotKey{thread, w.number(slot)}] = resident
	case "said": // THREAD AGENT CHAIN [TOKENS], the newest last
		tokens := 0
		if len(f) > 4 {
			tokens = w.number(f[4])
		}
		Entry(h.Threads, f[1]).Said(f[2], w.ref(f[3]), int64(tokens), 0)
	case "returns": // THREAD GAP back|approved..., one for each verdict
		gap, err := time.ParseDuration(f[2])
		if err != nil {
			w.Fatal(err)
		}
		for _, verdict := range f[3:] {
			Entry(h.Threads, f[1]).Returns = h.Thread(f[1]).Returns.Learn(gap, verdict == "back")
		}
	case "writers":
		c := Entry(h.Chains, w.ref(f[1]))
		c.Writers, c.LastWriter = nil, ""
		for _, name := range f[2:] {
			c.Wrote(name)
		}
	case "parked": // THREAD UNTIL WHY...
		t := Entry(h.Threads, f[1])
		t.ParkedUntil, t.ParkedWhy = w.at(f[2]), strings.Join(f[3:], " ")
		if t.ParkedAs = ""; !strings.Contains(t.ParkedWhy, "limit") {
			t.ParkedAs = ThreadDown
		}
	case "turn": // REPO KIND TIME
		Entry(h.Repos, f[1]).Turn(agents.Kind(f[2]), w.at(f[3]))
	case "paused", "resumed": // thread=NAME, agent=NAME, repo=NAME, drain, or nothing
		var p Pause
		if len(f) > 1 {
			kind, name, _ := strings.Cut(f[1], "=")
			switch kind {
			case "repo":
				p.Repo = name
			case "thread":
				p.Thread = name
			case "agent":
				p.Agent = name
			case "drain":
				p.Drain = true
			}
		}
		h.Paused[p] = PauseNote{PausedAt: w.s.Now}
		if f[0] == "resumed" {
			delete(h.Paused, p)
		}
	case "barred": // REPO AGENT UNTIL WHY...
		Entry(h.Repos, f[1]).Bar(f[2], w.at(f[3]), strings.Join(f[4:], " "))
	case "spent": // agent|thread|repo=NAME, TIME, INPUT-TOKENS OUTPUT-TOKENS DOLLARS of a session that ended then
		var spent *Spent
		switch kind, name, _ := strings.Cut(f[1], "="); kind {
		case "agent":
			spent = &Entry(h.Agents, name).Spent
		case "repo":
			spent = &Entry(h.Repos, name).Spent
		default:
			spent = &Entry(h.Threads, name).Spent
		}
		usd, err := strconv.ParseFloat(f[5], 64)
		if err != nil {
			w.Fatal(err)
		}
		u := agents.Usage{
			InputTokens: int64(w.number(f[3])), OutputTokens: int64(w.number(f[4])), CostUSD: usd,
			CachedTokens: 1e9,
		}
		*spent = spent.Add(w.at(f[2]), u)
	case "use": // THREAD KIND TIME TOKENS DOLLARS of a session that ended then
		usd, err := strconv.ParseFloat(f[5], 64)
		if err != nil {
			w.Fatal(err)
		}
		u := agents.Usage{InputTokens: int64(w.number(f[4])), CostUSD: usd, CachedTokens: 1e9}
		Entry(h.Threads, f[1]).Use(w.at(f[3]), u)
		Entry(h.Threads, f[1]).Learn(agents.Kind(f[2]), u)
	case "used": // N TOKENS/DOLLARS
		c := Entry(h.Chains, w.ref(f[1]))
		c.Used.Tokens, c.Used.USD = w.used(f[2])
	case "rejected": // AGENT UNTIL WHY...
		Entry(h.Agents, f[1]).HoldAs(TokenRejected, w.at(f[2]), strings.Join(f[3:], " "))
	case "unanswered": // AGENT UNTIL WHY...
		Entry(h.Agents, f[1]).HoldAs(NoAnswer, w.at(f[2]), strings.Join(f[3:], " "))
	case "placeless": // AGENT TIME WHY
		Entry(h.Agents, f[1]).HoldAs(NoPlace, w.at(f[2]), strings.Join(f[3:], " "))
	case "setup": // FAILURES UNTIL WHY...
		Entry(h.Repos, "o/r").SetupFails = w.number(f[1])
		Entry(h.Repos, "o/r").SetupUntil, Entry(h.Repos, "o/r").SetupWhy = w.at(f[2]), strings.Join(f[3:], " ")
	case "agent-hold": // AGENT UNTIL|- WHY...
		var until time.Time
		if f[2] != "-" {
			until = w.at(f[2])
		}
		Entry(h.Agents, f[1]).Hold(until, strings.Join(f[3:], " "))
	case "failing": // agent=NAME, thread=NAME or role=NAME, UNTIL, WORDS...
		crew, all := Crew{}, map[string]*string{}
		all["agent"], all["thread"], all["role"] = &crew.Agent, &crew.Thread, &crew.Role
		kind, name, _ := strings.Cut(f[1], "=")
		*all[kind] = name
		k := Entry(h.Failing, crew)
		*k = Streak{Probes: 1, Until: w.at(f[2])}
		for i := range int64(FailingAfter) {
			k.Add(Failure{Item: forge.Ref{Repo: "o/r", Number: 90 + i}.String(), Words: strings.Join(f[3:], " ")})
		}
	case "mended": // every agent, thread and role
		clear(h.Failing)
	case "failed": // KEY AGENT AT [BEHIND]
		it := Entry(h.Items, w.key(f[1]))
		it.FailedBy, it.FailedAt = f[2], w.at(f[3])
		if len(f) > 4 {
			it.Behind = w.at(f[4])
		}
	case "ran":
		Entry(h.Items, w.key(f[1])).LastRun = w.at(f[2])
	case "asked-run":
		Entry(h.Items, w.key(f[1])).Asked = w.at(f[2])
	case "passed":
		Entry(h.Items, w.key(f[1])).PassedOver = w.number(f[2])
	case "touched":
		ref := forge.Ref{Repo: "o/r"}
		if f[1] != "o/r" {
			ref = w.ref(f[1])
		}
		h.Touched[ref] = w.at(f[2])
	case "claimed":
		Entry(h.Chains, w.ref(f[1])).Claimed = f[2]
	case "idle":
		Entry(h.Agents, f[1]).IdleSince = w.at(f[2])
	case "refused":
		Entry(h.Chains, w.ref(f[1])).Refused = strings.Join(f[2:], " ")
	case "push-refused", "split-refused": // N WHY
		c := Entry(h.Chains, w.ref(f[1]))
		c.Refused, c.RefusedAs = strings.Join(f[2:], " "), Code(f[0])
	case "unshown": // N HEAD WHY
		Entry(h.Chains, w.ref(f[1])).Unshown = &Unshown{Head: f[2], Base: "main", Words: strings.Join(f[3:], " ")}
	case "labelled": // N LABEL WHY
		Entry(h.Chains, w.ref(f[1])).Labelled = Labelled{Label: f[2], Why: strings.Join(f[3:], " ")}
	case "retried":
		Entry(h.Chains, w.ref(f[1])).Retried = w.at(f[2])
	case "told": // N CODE REF...
		why := Reason{Code: Code(f[2])}
		if len(f) > 3 {
			why.Refs = w.refs(strings.Join(f[3:], ","))
		}
		Entry(h.Chains, w.ref(f[1])).Told = why.Key()
	case "asked":
		Entry(h.Chains, w.ref(f[1])).Asked = w.number(f[2])
	case "handed":
		Entry(h.Chains, w.ref(f[1])).Handed = w.number(f[2])
	case "dialogue":
		w.dialogue(f[1:])
	case "reviewed": // AUTHOR WHEN...
		a := Entry(h.Authors, f[1])
		a.Reviews = make(map[string]time.Time)
		for i, when := range f[2:] {
			a.Reviews[fmt.Sprint("run-", i)] = w.at(when)
		}
	case "rounds":
		Entry(h.Tolls, w.ref(f[1])).Rounds = w.number(f[2])
	case "reviews":
		Entry(h.Tolls, w.ref(f[1])).Reviews = w.number(f[2])
	case "sessions":
		Entry(h.Tolls, w.ref(f[1])).Sessions = w.number(f[2])
	case "opened": // ACCOUNT SESSIONS
		Entry(h.Opened, f[1]).Day, Entry(h.Opened, f[1]).Sessions = Day(w.s.Now), w.number(f[2])
	case "begins":
		h.Listens["o/r"] = w.at(f[1])
	case "failures":
		Entry(h.Chains, w.ref(f[1])).Failures = w.number(f[2])
	case "planner":
		Entry(h.Chains, w.ref(f[1])).Planner = f[2]
	case "rung":
		Entry(h.Chains, w.ref(f[1])).Rung = w.number(f[2])
	case "ci-fixes":
		Entry(h.Tolls, w.ref(f[1])).CIFixes = w.number(f[2])
	default:
		w.Fatalf("unknown history %q", f[0])
	}
}

// Entry returns the entry of a key for writing, and creates it if it is missing.
func Entry[K comparable, V any](m map[K]*V, k K) *V {
	e := m[k]
	if e == nil {
		e = new(V)
		m[k] = e
	}
	return e
}
