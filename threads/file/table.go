package file

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/tomltext"
	"codeberg.org/johba/disinto/threads"
)

// table is one table of the file while it is read. Each reading method accepts a key, returns its value, and reports
// mistakes in it. done reports the keys that no method accepted.
type table struct {
	d      *decoder
	path   toml.Key
	at     string // its name among the lines, where that differs from path
	line   int    // of mistakes about missing keys
	values map[string]any
	known  []string
	noted  *shape // its schema; nil while a file is read
}

// wrong reports a mistake in a key.
func (t *table) wrong(key, format string, args ...any) {
	t.d.wrong(t.lineOf(key), append(slices.Clone(t.path), key), format, args...)
}

// lineOf returns the line of a key, or of the table when the key is missing.
func (t *table) lineOf(key string) int {
	full := append(slices.Clone(t.path), key).String()
	if t.at != "" {
		full = t.at + "." + toml.Key{key}.String()
	}
	return cmp.Or(t.d.lines[full], t.line)
}

// shapeOf returns the schema of a key, to be filled in. While a file is read, the result is discarded.
func (t *table) shapeOf(key string) *shape {
	if t.noted == nil {
		return new(shape)
	}
	return t.noted.at(key)
}

// done reports every key that no reading method accepted.
func (t *table) done() {
	if t.noted != nil && t.noted.More == nil {
		t.noted.More = false
	}
	for key := range t.values {
		if !slices.Contains(t.known, key) {
			t.unknown(key)
		}
	}
}

// unknown reports an unknown key, and suggests a similar one or the table where it belongs.
func (t *table) unknown(key string) {
	hint := threads.Suggest(key, t.known)
	if home := tablesWith(key); hint == "" && home != "" {
		hint = ": it belongs in " + home
	}
	t.wrong(key, "unknown key%s", hint)
}

// ignore accepts keys without reading them.
func (t *table) ignore(keys ...string) {
	for _, key := range keys {
		t.shapeOf(key)
	}
	t.known = append(t.known, keys...)
}

// removed accepts a key of an older version that has no effect any more. advice says what to do.
func (t *table) removed(key, advice string) {
	if !t.has(key) {
		return
	}
	t.known = append(t.known, key)
	t.d.config.Removed = append(t.d.config.Removed, threads.RemovedKey{
		Line: t.lineOf(key), Key: append(slices.Clone(t.path), key).String(), Advice: advice,
	})
}

// removedWait accepts a key of an older version whose time is fixed now. what says what happens after that time. A
// longer time is a mistake, because it happens earlier than the file allows.
func (t *table) removedWait(key string, fixed time.Duration, what string) {
	if fixed == 0 {
		what += " at once"
	} else {
		what += " after " + short(fixed)
	}
	if t.oldTime(key) > fixed {
		t.known = append(t.known, key)
		t.wrong(key, "no longer used: %s, earlier than this key asks; remove it if that is acceptable", what)
		return
	}
	t.removed(key, what+"; remove it")
}

// oldTime returns a time of an older version; 0 without a valid one.
func (t *table) oldTime(key string) time.Duration {
	text, _ := t.values[key].(string)
	d, _ := parseDuration(text)
	return d
}

// oldNumber returns a number of an older version; unset without one.
func (t *table) oldNumber(key string, unset int64) int64 {
	if n, ok := t.values[key].(int64); ok {
		return n
	}
	return unset
}

// has reports whether the file has the key, whatever its value.
func (t *table) has(key string) bool {
	_, ok := t.values[key]
	return ok
}

// get reads a value of one type. ok is false when it is missing or of another type.
func get[T any](t *table, key, want string) (T, bool) {
	t.known = append(t.known, key)
	typed[T](t.shapeOf(key))
	value, there := t.values[key]
	v, ok := value.(T)
	if there && !ok {
		t.wrong(key, "is %s, want %s", kindOf(value), want)
	}
	return v, ok
}

func kindOf(value any) string {
	switch value.(type) {
	case string:
		return "a string"
	case int64:
		return "a number"
	case float64:
		return "a fraction"
	case bool:
		return "true or false"
	case map[string]any:
		return "a table"
	case []any, []map[string]any:
		return "a list"
	default:
		return "a date or time"
	}
}

// table reads the table below key; without one it returns an empty table.
func (t *table) table(key string) *table {
	values, _ := get[map[string]any](t, key, "a table")
	full := append(slices.Clone(t.path), key)
	child := &table{d: t.d, path: full, line: t.d.lines[full.String()], values: values}
	if t.noted != nil {
		child.noted = t.shapeOf(key)
	}
	return child
}

// isEmpty reports whether a table without keys is below key. table reports a value of another type.
func (t *table) isEmpty(key string) bool {
	values, isTable := t.values[key].(map[string]any)
	return isTable && len(values) == 0
}

// tables reads the tables below key, in the order of the file.
func (t *table) tables(key string) []*table {
	parent := t.table(key)
	parent.named()
	var all []*table
	for name, value := range parent.values {
		if _, ok := value.(map[string]any); !ok {
			parent.wrong(name, "is %s, want a table", kindOf(value))
		} else {
			all = append(all, parent.table(name))
		}
	}
	slices.SortFunc(all, func(a, b *table) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.name(), b.name()))
	})
	return all
}

// named records that users choose the names of the table's keys, which all have the same shape.
func (t *table) named() {
	if t.noted != nil {
		t.noted.More = new(shape)
	}
}

// elements reads an array of tables.
func (t *table) elements(key string) []*table {
	note := t.shapeOf(key)
	note.Type, note.Items = "array", &shape{Type: "object"}
	values, ok := t.values[key].([]map[string]any)
	if inline, list := t.values[key].([]any); list { // [{...}, {...}]
		ok = true
		for _, v := range inline {
			m, table := v.(map[string]any)
			ok = ok && table
			values = append(values, m)
		}
	}
	t.ignore(key)
	if !ok && t.has(key) {
		t.wrong(key, "is %s, want [[%s]] tables", kindOf(t.values[key]), append(slices.Clone(t.path), key))
		return nil
	}
	var all []*table
	for i, v := range values {
		e := &table{d: t.d, path: append(slices.Clone(t.path), key), line: t.lineOf(key), values: v, noted: note.Items}
		if i > 0 {
			e.at = tomltext.Element(e.path.String(), i+1)
			e.line = cmp.Or(t.d.lines[e.at], e.line)
		}
		all = append(all, e)
	}
	return all
}

// name returns the last part of the table's path.
func (t *table) name() string { return t.path[len(t.path)-1] }

func (t *table) text(key string) string {
	s, _ := get[string](t, key, "a string")
	return s
}

func (t *table) truth(key string, unset bool) bool {
	v, ok := get[bool](t, key, "true or false")
	if !ok {
		return unset
	}
	return v
}

// most bounds every number, because slots and sessions are listed in tables and kept in memory.
const most = 1000

func (t *table) number(key string, unset, least int) int {
	n, ok := get[int64](t, key, "a whole number")
	t.shapeOf(key).between(int64(least), most)
	switch {
	case !ok:
		return unset
	case n < int64(least):
		t.wrong(key, "is %d, want at least %d", n, least)
	case n > most:
		t.wrong(key, "is %d, want at most %d", n, most)
	default:
		return int(n)
	}
	return max(unset, least)
}

// short formats a duration as people write it in the file: "1h", where String has 1h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// durationPattern matches what parseDuration reads, except negative durations.
const durationPattern = `^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$|^\+?0$|^[0-9]{1,4}d$`

func (t *table) duration(key string, unset, least time.Duration) time.Duration {
	const want = `want a duration such as "30s", "15m" or "2h"`
	s, ok := get[string](t, key, want[len("want "):])
	t.shapeOf(key).Pattern = durationPattern
	if !ok {
		return unset
	}
	d, err := parseDuration(s)
	if err != nil {
		t.wrong(key, "is %q, %s", s, want)
		return unset
	}
	if d < least {
		t.wrong(key, "is %s, want at least %s", s, short(least))
		return unset
	}
	return d
}

// parseDuration also reads whole days, such as 30d.
func parseDuration(s string) (time.Duration, error) {
	days, ok := strings.CutSuffix(s, "d")
	if !ok || len(days) > 4 { // at most 27 years
		return time.ParseDuration(s)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	return time.Duration(n) * 24 * time.Hour, err
}

// oneOf reads one of a few words. unset is the default; if it is empty, the key is required.
func (t *table) oneOf(key, unset string, words ...string) string {
	want := `"` + strings.Join(words[:len(words)-1], `", "`) + `" or "` + words[len(words)-1] + `"`
	s, ok := get[string](t, key, want)
	t.shapeOf(key).Enum = words
	switch {
	case slices.Contains(words, s):
		return s
	case ok:
		t.wrong(key, "is %q, want %s%s", s, want, threads.Suggest(s, words))
	case unset == "" && !t.has(key):
		t.wrong(key, "is not set, want %s", want)
	}
	return unset
}

// list reads a list of strings, none of them empty.
func (t *table) list(key string) []string {
	const want = "a list of strings"
	values, _ := get[[]any](t, key, want)
	t.shapeOf(key).Items = &shape{Type: "string", MinLength: 1}
	var list []string
	for _, v := range values {
		s, ok := v.(string)
		switch {
		case !ok:
			t.wrong(key, "has %s in it, want %s", kindOf(v), want)
		case s == "":
			t.wrong(key, "has an empty string in it")
		default:
			list = append(list, s)
		}
	}
	return list
}

// set reads a list whose order does not matter. It is returned sorted, and duplicates are mistakes.
func (t *table) set(key string) []string {
	list := t.list(key)
	t.shapeOf(key).Unique = true
	slices.Sort(list)
	for i := 1; i < len(list); i++ {
		if list[i] == list[i-1] {
			t.wrong(key, "has %q twice", list[i])
		}
	}
	return slices.Compact(list)
}

// patterns reads names of environment variables, which may be globs.
func (t *table) patterns(key string) []string {
	list := t.set(key)
	for _, p := range list {
		if _, err := path.Match(p, ""); err != nil || strings.Contains(p, "=") {
			t.wrong(key, "has %q in it, want names or globs of environment variables", p)
		}
	}
	return list
}

// exampleAddress has the address that messages show for a key. Other keys get that of a forge.
var exampleAddress = map[string]string{
	"base_url": "http://localhost:8080/v1", "address": "http://127.0.0.1:4646", "ready": "http://127.0.0.1:8080/health",
	"hooks_url": "http://disinto:7071/v1/hook", "web_url": "https://room.example.org",
}

// address checks the URL of a server and returns it without a trailing slash; "" for a mistake. subject is the start
// of messages, such as a variable; empty means the key itself.
func (t *table) address(key, subject, s string) string {
	want := fmt.Sprintf("want an address such as %q", cmp.Or(exampleAddress[key], "http://forgejo:3000"))
	subject = strings.TrimLeft(subject+" ", " ")
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		t.wrong(key, "%sis %q, %s", subject, s, want)
	case u.User != nil:
		t.wrong(key, "%shas a password in it: logs would show it", subject)
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		t.wrong(key, "%sis %q, want it without a query", subject, s)
	default:
		return strings.TrimRight(s, "/")
	}
	return ""
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// secret reads a secret and records its owner. The file has the secret literally or as $NAME. If the key is missing,
// the secret comes from the variable named by unset, if any.
func (t *table) secret(key, owner, unset string) agents.Secret {
	s, ok := get[string](t, key, `a string, "$NAME" for an environment variable`)
	switch {
	case !ok && unset == "":
		return ""
	case !ok:
		value, _ := t.d.lookupEnv(unset)
		return t.d.secret(unset, value, owner)
	}
	return t.secretOf(key, s, owner)
}

// secretOf returns the secret for which a string of a key stands: itself, or the value of $NAME.
func (t *table) secretOf(key, s, owner string) agents.Secret {
	name, isVar := strings.CutPrefix(s, "$")
	if !isVar {
		return t.d.secret("", s, owner)
	}
	value, _ := t.lookup(key, name)
	return t.d.secret(name, value, owner)
}

// lookup returns the value of a variable that a key names. It reports one that is not set or empty.
func (t *table) lookup(key, name string) (value string, ok bool) {
	if !envName.MatchString(name) {
		t.wrong(key, "starts with $, want $NAME with the name of an environment variable")
		return "", false
	}
	value, there := t.d.lookupEnv(name)
	if !there {
		t.wrong(key, "$%s is not set", name)
	} else if value == "" {
		t.wrong(key, "$%s is empty", name)
	}
	return value, value != ""
}

// token reads a secret that is sent in an HTTP header.
func (t *table) token(key, owner, unset string) agents.Secret {
	s := t.secret(key, owner, unset)
	if strings.ContainsFunc(s.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		t.wrong(key, "has white space or other characters in it that a token cannot have")
	}
	return s
}
