package egress

import (
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
)

func TestRules(t *testing.T) {
	rules, err := Parse([]string{
		"@npm", "@debian", "*.Example.org", "one.test.", "db.lan:5432", "*.svc.lan:8080", "10.0.0.7:5432", "fd00::7",
		"[fd00::8]:8443", "127.0.0.1:3000",
	})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		host      string
		port      int
		named, ok bool
	}{
		{"registry.npmjs.org", 443, false, true},
		{"registry.npmjs.org", 80, false, false},
		{"deb.debian.org", 80, false, true}, // a group names no machine of ours
		{"a.example.org", 443, false, true},
		{"A.B.EXAMPLE.ORG.", 443, false, true},
		{"example.org", 443, false, false},
		{"notexample.org", 443, false, false},
		{"a.example.org.evil.test", 443, false, false},
		{"a.example.org", 8443, false, false},
		{"one.test", 443, false, true},
		{"www.one.test", 443, false, false},
		{"db.lan", 5432, true, true},
		{"db.lan", 443, false, false},
		{"a.svc.lan", 8080, false, true}, // all below a name are not one machine
		{"10.0.0.7", 5432, true, true},
		{"::ffff:10.0.0.7", 5432, true, true},
		{"[::ffff:10.0.0.7]", 5432, true, true},
		{"10.0.0.8", 5432, false, false},
		{"[fd00:0::7]", 443, false, true},
		{"fd00::8", 8443, true, true},
		{"127.0.0.1", 3000, true, true},
		{"localhost", 3000, false, false},
		{"169.254.169.254", 80, false, false},
	}
	for _, tt := range tests {
		host, valid := Canonical(tt.host)
		if named, ok := rules.Allows(host, tt.port); !valid || named != tt.named || ok != tt.ok {
			t.Errorf("%s:%d: valid %v, allowed %v, named %v", tt.host, tt.port, valid, ok, named)
		}
	}
}

func TestWrongRules(t *testing.T) {
	for word, want := range map[string]string{
		"@apple": "is not a group, want one of @crates @debian", "": "is not a host", "*": "is not a host",
		"*.*.org": "is not a host", "https://a.org": "its host alone", "a.org/x": "its host alone",
		"bücher.example": "xn--", "a..org": "is not a host", "a.org:0": "has an invalid port",
		"a.org:70000": "has an invalid port", "*.10.0.0.1": "is not a host", "fe80::1%eth0": "is not a host",
		"[10.0.0.1]": "is not a host", strings.Repeat("a", 64) + ".org": "is not a host", "a b.org": "is not a host",
		"a.org:": "has an invalid port",
	} {
		if _, err := Parse([]string{word}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", word, err, want)
		}
	}
	for group, words := range Groups {
		if _, err := Parse([]string{group}); err != nil {
			t.Errorf("%s %q: %v", group, words, err)
		}
	}
}

func TestWordOf(t *testing.T) {
	for address, want := range map[string]string{
		"https://Git.Example.org/": "git.example.org:443", "http://forgejo:3000": "forgejo:3000", "http://x": "x:80",
		"http://[::1]:8080/v1": "[::1]:8080", "ssh://x": "", "": "", "::": "",
	} {
		if got := WordOf(address); got != want {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
	}
}

// hello returns what Go's TLS sends first.
func hello(t testing.TB, name string) []byte {
	ours, theirs := net.Pipe()
	go func() {
		_ = tls.Client(theirs, &tls.Config{ServerName: name, InsecureSkipVerify: name == ""}).Handshake()
	}()
	buf := make([]byte, MaxHello)
	n, err := ours.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	_ = ours.Close()
	return buf[:n]
}

// inRecords splits a ClientHello into records of so many bytes, which TLS permits.
func inRecords(data []byte, size int) (out []byte) {
	for part := range slices.Chunk(data[5:], size) {
		out = append(append(out, 22, 3, 1, byte(len(part)>>8), byte(len(part))), part...)
	}
	return out
}

func TestServerName(t *testing.T) {
	whole := hello(t, "Good.Example")
	for _, data := range [][]byte{whole, inRecords(whole, 1), inRecords(whole, 100), append(slices.Clone(whole), 1, 2)} {
		if name, err := ServerName(data); name != "good.example" || err != nil {
			t.Errorf("%q, %v", name, err)
		}
	}
	if name, err := ServerName(hello(t, "")); name != "" || err != nil {
		t.Errorf("without a name: %q, %v", name, err)
	}
	for n := range whole {
		if name, err := ServerName(whole[:n]); !errors.Is(err, ErrShort) {
			t.Fatalf("after %d bytes: %q, %v", n, name, err)
		}
	}
	at := strings.Index(string(whole), "Good.Example")
	twice := slices.Clone(whole)
	twice[at] = 0 // no name has such a letter
	for _, data := range [][]byte{
		[]byte("GET / HTTP/1.1\r\n"), []byte("SSH-2.0-x"),
		{22, 2},
		{22, 3, 1, 0, 0},
		{22, 3, 1, 0, 4, 2, 0, 0, 0},
		twice,
		append([]byte{22, 3, 1, 0xff, 0xff, 1, 0, 0xff, 0xff}, make([]byte, MaxHello)...),
	} {
		if name, err := ServerName(data); !errors.Is(err, ErrNoTLS) {
			t.Errorf("%.20q: %q, %v", data, name, err)
		}
	}
}

// FuzzServerName checks that no bytes make it fail, and that what it has read does not change with more bytes: a proxy
// must not see another name than the server.
func FuzzServerName(f *testing.F) {
	whole := hello(f, "good.example")
	f.Add(whole, 3)
	f.Add(inRecords(whole, 7), 50)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		name, err := ServerName(data)
		if canonical, ok := Canonical(name); err == nil && name != "" && (!ok || canonical != name) {
			t.Fatalf("%q is not canonical", name)
		}
		if cut < 0 || cut > len(data) {
			return
		}
		if early, earlier := ServerName(data[:cut]); earlier == nil && (err != nil || early != name) {
			t.Fatalf("%q after %d bytes, and then %q, %v", early, cut, name, err)
		}
	})
}

// FuzzRules checks that a rule allows no host but its own and those below it.
func FuzzRules(f *testing.F) {
	f.Add("*.example.org:8443", "a.example.org", 8443)
	f.Add("[fd00::1]:1", "fd00::1", 1)
	f.Fuzz(func(t *testing.T, word, host string, port int) {
		rules, err := Parse([]string{word})
		name, ok := Canonical(host)
		if err != nil || !ok || len(rules) != 1 {
			return
		}
		if again, ok := Canonical(name); !ok || again != name {
			t.Fatalf("%q becomes %q, and then %q", host, name, again)
		}
		r := rules[0]
		named, allowed := rules.Allows(name, port)
		if named && (!allowed || r.Below) || allowed && (r.Port != port || !strings.HasSuffix(name, r.Host) ||
			!r.Below && name != r.Host || r.Below && name == r.Host) {
			t.Fatalf("%q: %q port %d: %v %v", word, host, port, named, allowed)
		}
	})
}
