package file

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// notified decodes a file with a [notify] table.
func notified(table string) (*threads.Config, error) {
	lookup := func(name string) (string, bool) {
		if name == "NTFY" {
			return "ntfy://:tk_123456@ntfy.sh/mine", true
		}
		return inContainer(name)
	}
	return Decode("factory.toml", worker+"[notify]\n"+table, lookup)
}

func TestRecipients(t *testing.T) {
	tests := []struct {
		url  string
		want threads.Recipient
	}{
		{"ntfy://ntfy.sh/mine", threads.Recipient{
			Kind: "ntfy", Host: "ntfy.sh", Endpoint: "https://ntfy.sh/",
			To: []string{"mine"},
		}},
		{"ntfy://u:p@h:8080/base/mine?scheme=http", threads.Recipient{
			Kind: "ntfy", Host: "h:8080", Endpoint: "http://h:8080/base/", User: "u", Password: "p", To: []string{"mine"},
		}},
		{"matrix://:tok%2Fen@m.example.org/?rooms=!a:example.org,!b:example.org", threads.Recipient{
			Kind: "matrix", Host: "m.example.org", Endpoint: "https://m.example.org", Password: "tok/en",
			To: []string{"!a:example.org", "!b:example.org"},
		}},
		{"smtp://[::1]/?from=a@b.org&to=c@d.org,e@f.org", threads.Recipient{
			Kind: "smtp", Host: "[::1]", Endpoint: "[::1]:587", From: "a@b.org", To: []string{"c@d.org", "e@f.org"},
		}},
		{"generic+https://u:p@h/hook?key=1", threads.Recipient{
			Kind: "generic", Host: "h", Endpoint: "https://h/hook?key=1", User: "u", Password: "p",
		}},
		{"generic+http://h:1/", threads.Recipient{Kind: "generic", Host: "h:1", Endpoint: "http://h:1/"}},
	}
	for _, tt := range tests {
		c, err := notified(fmt.Sprintf("urls = [%q]\n", tt.url))
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
			continue
		}
		tt.want.URL, tt.want.Number = agents.Secret(tt.url), 1
		if diff := cmp.Diff([]threads.Recipient{tt.want}, c.Notify.To); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.url, diff)
		}
		if text := fmt.Sprintf("%v %+v %#v %s", c.Notify, c.Notify, c.Notify,
			&c.Notify.To[0]); strings.Contains(text, tt.url) {
			t.Errorf("printing a recipient shows its url: %s", text)
		}
	}
}

// TestRecipientSecrets checks that a url from a variable is a secret, and that its password alone is a secret, too.
func TestRecipientSecrets(t *testing.T) {
	c, err := notified(`urls = ["$NTFY"]`)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []agents.SecretVar{
		{Name: "NTFY", Value: "ntfy://:tk_123456@ntfy.sh/mine"}, {Value: "tk_123456"},
	} {
		found := false
		for _, s := range c.Secrets {
			found = found || s == want
		}
		if !found {
			t.Errorf("the secrets lack %q with %q", want.Name, want.Value.Reveal())
		}
	}
}

// TestNotifyMistakes checks that every mistake has its line and key, and shows no secret part of a url.
func TestNotifyMistakes(t *testing.T) {
	const unknown = "want a url that begins with ntfy://, matrix://, smtp:// or generic+https://"
	tests := []struct{ table, want string }{
		{`urls = ["s3cret"]`, `:5: notify.urls: number 1 is not a url with a host, ` + unknown},
		{`urls = ["s3cret://%zz"]`, `:5: notify.urls: number 1 is not a url with a host, ` + unknown},
		{`urls = ["s3cret://host/"]`, `:5: notify.urls: number 1 is of an unknown kind, ` + unknown},
		{`urls = ["https://host/s3cret"]`, `:5: notify.urls: number 1 is of an unknown kind, ` + unknown},
		{`urls = ["ntfy://h/a", "ntfy://:s3cret@h/"]`, `:5: notify.urls: number 2 names no topic: ntfy://host/topic`},
		{
			`urls = ["ntfy://h/a?s3cret=1"]`,
			`:5: notify.urls: number 1 has an unknown parameter, want scheme`,
		},
		{
			`urls = ["ntfy://h/a?scheme=s3cret"]`,
			`:5: notify.urls: number 1 has a parameter scheme that is neither "https" nor "http"`,
		},
		{`urls = ["ntfy://h/s3cret", "ntfy://h/s3cret"]`, `:5: notify.urls: number 2 is the same as another url`},
		{
			`urls = ["matrix://s3cret@h/?rooms=!a:h"]`,
			`:5: notify.urls: number 1 has no access token: matrix://:TOKEN@host/?rooms=!ROOM:host`,
		},
		{
			`urls = ["matrix://:s3cret@h/?rooms=a"]`,
			`:5: notify.urls: number 1 names a room without its id, which starts with !: matrix://:TOKEN@host/?rooms=!ROOM:host`,
		},
		{
			`urls = ["smtp://u:s3cret@h/?to=a@b"]`,
			`:5: notify.urls: number 1 has no sender: ` +
				`smtp://user:password@host:587/?from=factory@example.org&to=me@example.org`,
		},
		{
			`urls = ["smtp://h/?from=a@b&to=s3cret"]`,
			`:5: notify.urls: number 1 has no recipients: ` +
				`smtp://user:password@host:587/?from=factory@example.org&to=me@example.org`,
		},
		{
			`urls = ["smtp://h/?from=a@b&to=c@d%0d%0aBcc:s3cret"]`,
			`:5: notify.urls: number 1 has no recipients: ` +
				`smtp://user:password@host:587/?from=factory@example.org&to=me@example.org`,
		},
		{
			`urls = ["smtp://s3cret@h/?from=a@b&to=c@d"]`,
			`:5: notify.urls: number 1 has only one of user and password: ` +
				`smtp://user:password@host:587/?from=factory@example.org&to=me@example.org`,
		},
		{`urls = ["ntfy://a%0ab:s3cret@h/a"]`, `:5: notify.urls: number 1 has control characters in it`},
		{`urls = ["$NOPE"]`, `:5: notify.urls: $NOPE is not set`},
		{`urls = [` + strings.Repeat(`"ntfy://h/a",`, 21) + `]`, `:5: notify.urls: has 21 urls in it, want at most 20`},
		{`urls = "s3cret"`, `:5: notify.urls: is a string, want a list of strings`},
		{
			`on = ["needs-humans"]`,
			`:5: notify.on: has "needs-humans" in it, want "needs-human", "merged", "parked", "budget", "down", did you mean ` +
				`needs-human?`,
		},
		{`on = []`, `:5: notify.on: is empty: to send nothing, remove urls`},
		{`url = ["s3cret"]`, `:5: notify.url: unknown key, did you mean urls?`},
	}
	for _, tt := range tests {
		_, err := notified(tt.table)
		if err == nil || err.Error() != "factory.toml"+tt.want {
			t.Errorf("%s:\n got %v\nwant factory.toml%s", tt.table, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: the error shows a part of the url: %v", tt.table, err)
		}
	}
}
