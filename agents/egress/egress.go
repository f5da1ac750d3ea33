// Package egress decides which hosts a session may reach, and reads the name of the server from the start of a TLS
// connection. It is pure.
package egress

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Groups are the words for the hosts of well-known registries. A host without a port has 443.
var Groups = map[string][]string{
	"@crates": {"crates.io", "index.crates.io", "static.crates.io"},
	"@debian": {"deb.debian.org", "deb.debian.org:80", "security.debian.org", "security.debian.org:80"},
	"@github": {"github.com", "api.github.com", "codeload.github.com", "*.githubusercontent.com"},
	"@go":     {"proxy.golang.org", "sum.golang.org"},
	"@npm":    {"registry.npmjs.org"},
	"@pypi":   {"pypi.org", "files.pythonhosted.org"},
}

// SetupOver is the path at a session's proxy with which its program says that its setup is over, and Refused the one
// that answers with the refusals so far, as JSON.
const (
	SetupOver = "/setup-over"
	Refused   = "/refused"
)

// Rule allows one port of a host, or of all hosts below a name.
type Rule struct {
	Host  string // as of Canonical
	Below bool   // the subdomains of Host, and not Host itself
	Port  int
	// Named says that the configuration names exactly this host and port, which may then be on this machine.
	Named bool
}

// Rules allow what one of them allows.
type Rules []Rule

// Allows reports whether a session may reach a port of a host, whose name is as of Canonical. named is as in Rule.
func (rs Rules) Allows(host string, port int) (named, ok bool) {
	for _, r := range rs {
		if r.Port != port {
			continue
		}
		if r.Below && strings.HasSuffix(host, "."+r.Host) && !isAddress(host) || !r.Below && host == r.Host {
			named, ok = named || r.Named, true
		}
	}
	return named, ok
}

// Parse reads the words of a configuration: a host, *.host for what is below it, either of them with a port, or the
// name of a group.
func Parse(words []string) (rules Rules, err error) {
	for _, word := range words {
		list, group := Groups[word]
		if !group {
			if strings.HasPrefix(word, "@") {
				return nil, fmt.Errorf("%q is not a group, want one of %s", word,
					strings.Join(slices.Sorted(maps.Keys(Groups)), " "))
			}
			list = []string{word}
		}
		for _, host := range list {
			r, err := parse(host)
			if err != nil {
				return nil, err
			}
			r.Named = r.Named && !group
			rules = append(rules, r)
		}
	}
	return rules, nil
}

// secure is the port of a rule without one. Its connections have to begin with TLS.
const secure = 443

func parse(word string) (Rule, error) {
	const want = `a host such as "example.org", "*.example.org", "db.lan:5432" or "[fd00::7]:443", or a group like "@npm"`
	host, r := word, Rule{Port: secure}
	if strings.Contains(word, "/") {
		return r, fmt.Errorf("%q is an address, want its host alone: %s", word, want)
	}
	if _, err := netip.ParseAddr(word); err != nil { // an address of IPv6 has colons, too
		if _, port, found := strings.Cut(word[strings.LastIndex(word, "]")+1:], ":"); found {
			n, err := strconv.ParseUint(port, 10, 16)
			if err != nil || n == 0 {
				return r, fmt.Errorf("%q has an invalid port, want %s", word, want)
			}
			host = word[:len(word)-len(port)-1]
			r.Port, r.Named = int(n), true
		}
	}
	name, below := strings.CutPrefix(host, "*.")
	var ok bool
	if r.Host, ok = Canonical(name); !ok || below && isAddress(r.Host) {
		return r, fmt.Errorf("%q is not a host, want %s; write names outside ASCII as xn--", word, want)
	}
	r.Below, r.Named = below, r.Named && !below
	return r, nil
}

// Canonical returns a host's name in lower case and without its final dot, or its address as netip writes it, without
// brackets. ok is false for what is neither.
func Canonical(host string) (name string, ok bool) {
	bare := host
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		bare = host[1 : len(host)-1]
	}
	if a, err := netip.ParseAddr(bare); err == nil {
		return a.Unmap().String(), a.Zone() == "" && (bare == host || strings.Contains(bare, ":"))
	}
	name = strings.ToLower(strings.TrimSuffix(host, "."))
	if len(name) > 253 {
		return "", false
	}
	for label := range strings.SplitSeq(name, ".") {
		odd := func(c rune) bool {
			return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_')
		}
		if label == "" || len(label) > 63 || strings.ContainsFunc(label, odd) {
			return "", false
		}
	}
	return name, true
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// Word returns the word for exactly this port of a host.
func Word(host string, port int) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(port)
}

// WordOf returns the word for a server's address, such as https://git.example.org; empty for what is no address of a
// web server.
func WordOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	host, ok := Canonical(u.Hostname())
	port := map[string]int{"http": 80, "https": secure}[u.Scheme]
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		port = int(n)
	}
	if !ok || port == 0 {
		return ""
	}
	return Word(host, port)
}
