package agents

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// ProxyVars are the variables that name the proxy of a program.
var ProxyVars = []string{"http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"}

// ProxyPassword is the variable with the password of a session's own proxy, which is also in its ProxyVars.
const ProxyPassword = "DISINTO_PROXY_PASSWORD"

// Refusal is a host that a session may not reach, and tried to.
type Refusal struct {
	Host  string `json:"host"`           // with its port, such as evil.example:443
	Rule  string `json:"rule,omitempty"` // the word of egress that would allow it; empty if none would
	Times int64  `json:"times"`
}

// Refusals are those of one session.
type Refusals []Refusal

// maxRefusals bounds the hosts that are told apart, and maxRefused the name of one, in bytes: a shim's message has room
// for 12 of them beside its longest reason.
const (
	maxRefusals = 12
	maxRefused  = 100
	otherHosts  = "other hosts"
)

// Add counts a refusal. first says that its host is new; after maxRefusals hosts all others count as one.
func (rs *Refusals) Add(r Refusal) (first bool) {
	if len(r.Host) > maxRefused {
		r.Host, r.Rule = r.Host[:maxRefused]+"…", ""
	}
	at := func(host string) int {
		return slices.IndexFunc(*rs, func(old Refusal) bool { return old.Host == host })
	}
	i := at(r.Host)
	if i < 0 && len(*rs) >= maxRefusals {
		r = Refusal{Host: otherHosts}
		i = at(r.Host)
	}
	if i < 0 {
		r.Times = 1
		*rs = append(*rs, r)
		return true
	}
	(*rs)[i].Times++
	return false
}

// Sorted returns a copy, the most frequent first.
func (rs Refusals) Sorted() Refusals {
	return slices.SortedFunc(slices.Values(rs), func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(b.Times, a.Times), cmp.Compare(a.Host, b.Host))
	})
}

// sideCalls are the hosts that CLIs ask for beside their work, also with a local model: codex the first three, then
// opencode, qwen, whose host begins with an account's number, and claude. All of them go on without.
var sideCalls = []string{
	"api.github.com:443", "chatgpt.com:443", "ab.chatgpt.com:443",
	"models.opencode.ai:443", ".rum.aliyuncs.com:443", "api.anthropic.com:443",
}

// Telling returns the refusals that may explain a failure, which are all but the side calls of CLIs.
func (rs Refusals) Telling() Refusals {
	return slices.DeleteFunc(slices.Clone(rs), func(r Refusal) bool {
		return slices.ContainsFunc(sideCalls, func(host string) bool { return isOrBelow(r.Host, host) })
	})
}

// isOrBelow reports whether a host is the one of a list, or below one that begins with a dot.
func isOrBelow(host, listed string) bool {
	return host == listed || strings.HasPrefix(listed, ".") && strings.HasSuffix(host, listed)
}

// Bounded returns refusals with texts of one line and plausible numbers. Another machine reports them.
func (rs Refusals) Bounded() Refusals {
	rs = slices.Clone(rs[:min(len(rs), maxRefusals+1)])
	for i := range rs {
		r := &rs[i]
		r.Host, r.Rule, r.Times = shortLine(r.Host), shortLine(r.Rule), min(max(r.Times, 1), 1e9)
	}
	return rs
}

// Words says what was refused: "refused evil.example:443, 3 times; a.example:443". It is empty for nothing.
func (rs Refusals) Words() string {
	var words []string
	for _, r := range rs {
		if r.Times > 1 {
			r.Host += fmt.Sprintf(", %d times", r.Times)
		}
		words = append(words, r.Host)
	}
	if len(words) == 0 {
		return ""
	}
	return "refused " + strings.Join(words, "; ")
}

// Line returns the line of factory.toml that would allow the hosts; empty if there is none.
func (rs Refusals) Line() string {
	var words []string
	for _, r := range rs {
		if word := fmt.Sprintf("%q", r.Rule); r.Rule != "" && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	if len(words) == 0 {
		return ""
	}
	return "egress = [" + strings.Join(words, ", ") + "]"
}
