package gate

import (
	"bufio"
	"errors"
	"net/url"
	"strings"
)

// head is the head of a request of HTTP.
type head struct {
	method, target string
	fields         []string // whole lines
}

var errHead = errors.New("it is no request of HTTP/1")

// readHead reads a head up to its empty line. The reader below bounds it.
func readHead(in *bufio.Reader) (*head, error) {
	line, err := readLine(in)
	if err != nil {
		return nil, err
	}
	words := strings.Split(line, " ")
	if len(words) != 3 || !strings.HasPrefix(words[2], "HTTP/1.") {
		return nil, errHead
	}
	r := &head{method: words[0], target: words[1]}
	for {
		line, err := readLine(in)
		switch {
		case err != nil:
			return nil, err
		case line == "":
			return r, nil
		}
		name, _, found := strings.Cut(line, ":")
		if !found || name == "" || strings.ContainsAny(name, " \t") { // also the continuation of a field
			return nil, errHead
		}
		r.fields = append(r.fields, line)
	}
}

func readLine(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	if err == nil && strings.ContainsAny(line, "\r\x00") {
		err = errHead
	}
	return line, err
}

// field returns the value of a field; empty if there is none.
func (r *head) field(name string) string {
	for _, line := range r.fields {
		if n, value, _ := strings.Cut(line, ":"); strings.EqualFold(n, name) {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// directed returns the request as its server wants it. The fields for the proxy are not passed on, and the connection
// ends with the answer, because the next request may be for another host.
func (r *head) directed(u *url.URL) string {
	var b strings.Builder
	b.WriteString(r.method + " " + u.RequestURI() + " HTTP/1.1\r\nHost: " + u.Host + "\r\nConnection: close\r\n")
	for _, line := range r.fields {
		switch name, _, _ := strings.Cut(line, ":"); strings.ToLower(name) {
		case "host", "connection", "keep-alive", "proxy-connection", "proxy-authorization", "upgrade":
		default:
			b.WriteString(line + "\r\n")
		}
	}
	return b.String() + "\r\n"
}
