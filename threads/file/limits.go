package file

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

var sizeGrammar = regexp.MustCompile(`^([0-9]{1,9})([` + agents.SizeUnits + `]?)$`)

// size reads a size in bytes such as "512M".
func (t *table) size(key string, unset int64) int64 {
	const want = `a size such as "512M" or "8G", or "0" for none`
	s, ok := get[string](t, key, want)
	t.shapeOf(key).Pattern = sizeGrammar.String()
	if !ok {
		return unset
	}
	m := sizeGrammar.FindStringSubmatch(s)
	if m == nil {
		t.wrong(key, "is %q, want %s", s, want)
		return unset
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	shift := 10 * (1 + strings.Index(agents.SizeUnits, m[2]))
	if m[2] == "" {
		shift = 0
	}
	if err != nil || n > math.MaxInt64>>shift {
		t.wrong(key, "is %q, which is more than any machine has", s)
		return unset
	}
	return n << shift
}

// budget reads the table of the usage allowed in a day.
func (t *table) budget() agents.Budget {
	b := t.table("budget")
	got := b.amounts("tokens_per_day", "usd_per_day")
	if t.isEmpty("budget") {
		t.wrong("budget", "is empty, want tokens_per_day or usd_per_day")
	}
	b.done()
	return got
}

// amounts reads an amount of tokens and one of dollars; 0 for a missing one.
func (t *table) amounts(tokens, usd string) (got agents.Budget) {
	t.shapeOf(tokens).from(1)
	if n, ok := get[int64](t, tokens, "a whole number"); ok {
		if got.Tokens = n; n < 1 {
			t.wrong(tokens, "is %d, want at least 1", n)
		}
	}
	if t.has(usd) {
		got.USD = t.dollars(usd)
	}
	t.ignore(usd)
	return got
}

// limits reads the table of the memory and processes allowed at a time.
func (t *table) limits() agents.Limits {
	l := t.table("limits")
	got := agents.Limits{Memory: l.size("memory", 0)}
	if got.Memory != 0 && got.Memory < leastMemory {
		l.wrong("memory", "is %s, want at least %s", agents.Size(got.Memory), agents.Size(leastMemory))
	}
	l.shapeOf("pids").between(leastPIDs, mostPIDs)
	if n, ok := get[int64](l, "pids", "a whole number"); ok {
		if got.PIDs = n; n < leastPIDs || n > mostPIDs {
			l.wrong("pids", "is %d, want %d to %d", n, leastPIDs, mostPIDs)
		}
	}
	if t.isEmpty("limits") {
		t.wrong("limits", "is empty, want memory or pids")
	}
	if isAgent := t.path[0] == "agents"; isAgent {
		l.reserved(&got, t.d.config.Thread(t.d.assigned[t.name()].thread))
	}
	l.done()
	return got
}

// reserved reads the limits that only a cluster has, for an agent of a thread; nil for none.
func (l *table) reserved(got *agents.Limits, th *threads.Thread) {
	if l.has("cores") || l.noted != nil {
		got.Cores = l.number("cores", 0, 1)
	}
	got.MemoryMax = l.size("memory_max", 0)
	for _, key := range []string{"cores", "memory_max"} {
		if l.has(key) && (th == nil || th.Executor == "") {
			l.wrong(key, "%s", onlyNomad+" in its thread")
		}
	}
	if n := got.MemoryMax; n != 0 && (got.Memory == 0 || n < got.Memory) {
		l.wrong("memory_max", "is %s, want at least memory, which is %s", agents.Size(n), agents.Size(got.Memory))
	}
}

const (
	// leastMemory refuses a typing error such as "8M", with which every session would be killed at once: git alone takes
	// about ten MiB.
	leastMemory = 32 << 20
	// leastPIDs leaves room for a shell, git and its children, and the dozen threads of a CLI in Go or JavaScript.
	leastPIDs = 16
	// mostPIDs is the highest process number that Linux has.
	mostPIDs = 4 << 20
)

// dollars reads an amount, with or without a fraction.
func (t *table) dollars(key string) float64 {
	t.shapeOf(key).Above = new(int64)
	amount, ok := t.fraction(key, "an amount of dollars such as 12.50")
	if ok && (!(amount > 0) || math.IsInf(amount, 0)) {
		t.wrong(key, "is %v, want more than 0", amount)
		return 0
	}
	return amount
}

// share reads a part of a whole, from 0 to less than 1; 0 for none.
func (t *table) share(key string) float64 {
	t.shapeOf(key).Minimum, t.shapeOf(key).Below = new(int64), new(int64(1))
	part, ok := t.fraction(key, "a share such as 0.25")
	if ok && !(part >= 0 && part < 1) {
		t.wrong(key, "is %v, want at least 0 and less than 1: it is a share", t.values[key])
		return 0
	}
	return part
}

// fraction reads a number with or without a fraction. ok is false when it is missing or of another type.
func (t *table) fraction(key, want string) (n float64, ok bool) {
	t.ignore(key)
	t.shapeOf(key).Type = "number"
	switch v := t.values[key].(type) {
	case nil:
		return 0, false
	case int64:
		return float64(v), true
	case float64:
		return v, true
	default:
		t.wrong(key, "is %s, want %s", kindOf(v), want)
		return 0, false
	}
}

// spending reads what one session of a role may use, and all sessions on an issue together.
func (t *table) spending(r *agents.Role) {
	r.PerSession.Tokens, r.PerIssue.Tokens = allowance(t, "max_tokens", "integer", (*table).tokens)
	r.PerSession.USD, r.PerIssue.USD = allowance(t, "max_usd", "number", (*table).dollars)
	for _, limit := range []struct {
		key      string
		issue    bool
		tooLarge bool
	}{
		{"max_tokens", r.PerIssue.Tokens > 0, r.PerIssue.Tokens > 0 && r.PerSession.Tokens > r.PerIssue.Tokens},
		{"max_usd", r.PerIssue.USD > 0, r.PerIssue.USD > 0 && r.PerSession.USD > r.PerIssue.USD},
	} {
		switch {
		case limit.issue && r.On != "" && !r.On.Items():
			t.wrong(limit.key, `has issue in it, but on is %q, and such work has no issue`, r.On)
		case limit.tooLarge:
			t.wrong(limit.key, "allows one session more than all sessions of an issue together")
		}
	}
	if cli := agents.FindCLI(r.CLI); cli != nil && !cli.Priced && t.has("max_usd") {
		t.wrong("max_usd", "is set, and %s does not report its cost: want max_tokens", r.CLI)
	}
}

// allowance reads an amount for a session, or a table with amounts for a session and for an issue.
func allowance[N int64 | float64](t *table, key, kind string, read func(*table, string) N) (session, issue N) {
	if _, isTable := t.values[key].(map[string]any); t.has(key) && !isTable {
		return read(t, key), 0
	}
	a := t.table(key)
	t.shapeOf(key).Type = []string{kind, "object"}
	for _, part := range []struct {
		key  string
		into *N
	}{{"session", &session}, {"issue", &issue}} {
		if a.has(part.key) || a.noted != nil {
			*part.into = read(a, part.key)
		}
		a.ignore(part.key)
	}
	t.shapeOf(key).Minimum, t.shapeOf(key).Maximum = a.shapeOf("session").Minimum, a.shapeOf("session").Maximum
	t.shapeOf(key).Above = a.shapeOf("session").Above
	if t.isEmpty(key) {
		t.wrong(key, "is empty, want session or issue")
	}
	a.done()
	return session, issue
}

// tokens reads a number of tokens, up to the largest that a session can reach.
func (t *table) tokens(key string) int64 {
	t.shapeOf(key).between(1, agents.MaxTokens)
	n, ok := get[int64](t, key, "a whole number")
	if ok && (n < 1 || n > agents.MaxTokens) {
		t.wrong(key, "is %d, want 1 to %d", n, agents.MaxTokens)
		return 0
	}
	return n
}
