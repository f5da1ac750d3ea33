package file

import (
	"net/mail"
	"net/url"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// maxRecipients bounds [notify] urls: each has its own queue and connection.
const maxRecipients = 20

// recipients has the kinds of recipients and the readers of their urls, by scheme. A reader returns a mistake in words
// that contain no part of the url except names of parameters, because the rest may be secret.
var recipients = []struct {
	scheme string
	kind   threads.RecipientKind
	read   func(*threads.Recipient, *url.URL) (wrong string)
}{
	{"ntfy", threads.Ntfy, readNtfy},
	{"matrix", threads.Matrix, readMatrix},
	{"smtp", threads.Mail, readMail},
	{"generic+https", threads.Generic, readGeneric},
	{"generic+http", threads.Generic, readGeneric},
}

// readNotify reads [notify].
func (d *decoder) readNotify(t *table) {
	n := &d.config.Notify
	list := t.list("urls")
	if len(list) > maxRecipients {
		t.wrong("urls", "has %d urls in it, want at most %d", len(list), maxRecipients)
		list = nil
	}
	for i, s := range list {
		value := t.secretOf("urls", s, "")
		if value == "" {
			continue // already reported
		}
		r := threads.Recipient{Number: i + 1, URL: value}
		wrong := readRecipient(&r)
		if same := slices.IndexFunc(n.To, func(o threads.Recipient) bool { return o.URL == value }); same >= 0 {
			wrong = "is the same as another url"
		}
		if wrong != "" {
			t.wrong("urls", "number %d %s", i+1, wrong)
			continue
		}
		if r.Password != "" {
			d.secret("", r.Password.Reveal(), "")
		}
		n.To = append(n.To, r)
	}
	n.On = t.topics("on")
	t.done()
}

// topics reads the topics of messages. The default is all topics except merges.
func (t *table) topics(key string) []threads.Topic {
	var words []string
	for _, topic := range threads.Topics {
		words = append(words, string(topic))
	}
	list := t.set(key)
	t.shapeOf(key).Items = &shape{Type: "string", Enum: words}
	if !t.has(key) {
		list = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == string(threads.NotifyMerged) })
		slices.Sort(list)
	}
	on := []threads.Topic{}
	for _, word := range list {
		if !slices.Contains(words, word) {
			t.wrong(key, `has %q in it, want "%s"%s`, word, strings.Join(words, `", "`), threads.Suggest(word, words))
		}
		on = append(on, threads.Topic(word))
	}
	if values, ok := t.values[key].([]any); ok && len(values) == 0 {
		t.wrong(key, "is empty: to send nothing, remove urls")
	}
	return on
}

// readRecipient takes a url apart. The mistake that it returns does not contain the url, which is a secret.
func readRecipient(r *threads.Recipient) (wrong string) {
	const want = `want a url that begins with ntfy://, matrix://, smtp:// or generic+https://`
	scheme, _, found := strings.Cut(r.URL.Reveal(), "://")
	u, err := url.Parse(r.URL.Reveal())
	if err != nil || !found || u.Hostname() == "" {
		return "is not a url with a host, " + want
	}
	r.Host, r.User = u.Host, u.User.Username()
	password, _ := u.User.Password()
	r.Password = agents.Secret(password)
	if strings.ContainsFunc(u.Host+r.User+password, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return "has control characters in it"
	}
	for _, row := range recipients {
		if row.scheme == scheme {
			r.Kind = row.kind
			return row.read(r, u)
		}
	}
	return "is of an unknown kind, " + want
}

// webOf returns the http address of a url with a path, without its user and its parameters.
func webOf(u *url.URL, scheme, path string) agents.Secret {
	return agents.Secret((&url.URL{Scheme: scheme, Host: u.Host, Path: path}).String())
}

// schemeOf reads the parameter scheme, which a private server without TLS needs.
func schemeOf(u *url.URL) (scheme, wrong string) {
	switch s := u.Query().Get("scheme"); s {
	case "", "https":
		return "https", unknownParameter(u, "scheme")
	case "http":
		return "http", unknownParameter(u, "scheme")
	}
	return "", `has a parameter scheme that is neither "https" nor "http"`
}

// unknownParameter reports parameters of a url that its kind does not have.
func unknownParameter(u *url.URL, known ...string) string {
	for key := range u.Query() {
		if !slices.Contains(known, key) {
			return "has an unknown parameter, want " + strings.Join(known, ", ")
		}
	}
	return ""
}

// readNtfy reads ntfy://[user:password@ or :token@]host/topic.
func readNtfy(r *threads.Recipient, u *url.URL) (wrong string) {
	cut := strings.LastIndexByte(u.Path, '/')
	if cut < 0 || cut+1 == len(u.Path) {
		return "names no topic: ntfy://host/topic"
	}
	scheme, wrong := schemeOf(u)
	r.Endpoint, r.To = webOf(u, scheme, u.Path[:cut+1]), []string{u.Path[cut+1:]}
	return wrong
}

// readMatrix reads matrix://:token@host/?rooms=!room:host,!other:host.
func readMatrix(r *threads.Recipient, u *url.URL) (wrong string) {
	if r.User != "" || r.Password == "" {
		return "has no access token: matrix://:TOKEN@host/?rooms=!ROOM:host"
	}
	for room := range strings.SplitSeq(u.Query().Get("rooms"), ",") {
		if !strings.HasPrefix(room, "!") {
			return "names a room without its id, which starts with !: matrix://:TOKEN@host/?rooms=!ROOM:host"
		}
		r.To = append(r.To, room)
	}
	web := *u
	query := web.Query()
	query.Del("rooms")
	web.RawQuery = query.Encode()
	scheme, wrong := schemeOf(&web)
	r.Endpoint = webOf(u, scheme, strings.TrimRight(u.Path, "/"))
	return wrong
}

// readMail reads smtp://[user:password@]host[:port]/?from=a@b&to=c@d,e@f.
func readMail(r *threads.Recipient, u *url.URL) (wrong string) {
	port := u.Port()
	if port == "" {
		port = "587"
	}
	host := u.Hostname()
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	r.Endpoint = agents.Secret(host + ":" + port)
	const want = "smtp://user:password@host:587/?from=factory@example.org&to=me@example.org"
	r.From = u.Query().Get("from")
	if !plainAddress(r.From) {
		return "has no sender: " + want
	}
	for to := range strings.SplitSeq(u.Query().Get("to"), ",") {
		if !plainAddress(to) {
			return "has no recipients: " + want
		}
		r.To = append(r.To, to)
	}
	if (r.User == "") != (r.Password == "") {
		return "has only one of user and password: " + want
	}
	return unknownParameter(u, "from", "to")
}

// plainAddress reports whether s is a bare mail address, so that it cannot contain a header line.
func plainAddress(s string) bool {
	a, err := mail.ParseAddress(s)
	return err == nil && a.Address == s && !strings.ContainsAny(s, "\r\n<>")
}

// readGeneric reads generic+https://[user:password@ or :token@]host/path?query.
func readGeneric(r *threads.Recipient, u *url.URL) (wrong string) {
	web := *u
	web.Scheme, _ = strings.CutPrefix(u.Scheme, "generic+")
	web.User, web.Fragment = nil, ""
	r.Endpoint = agents.Secret(web.String())
	return ""
}
