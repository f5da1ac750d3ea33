package hire

import "strings"

// Secrets decodes a secrets file in the form of docker compose: NAME=value on a line, comments behind #, values in
// quotes or not. Of two lines with one name the last counts.
func Secrets(text string) map[string]string {
	values := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := assignment(line); ok {
			values[name] = value
		}
	}
	return values
}

// assignment reads a line of a secrets file; not ok for a comment and an empty line.
func assignment(line string) (name, value string, ok bool) {
	line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
	name, value, ok = strings.Cut(strings.TrimPrefix(line, "export "), "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !ok || name == "" || strings.HasPrefix(name, "#") {
		return "", "", false
	}
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		value = value[1 : n-1]
	}
	return name, value, true
}

// SetSecret sets a variable in the text of a secrets file and leaves everything else as it is.
func SetSecret(text, name, value string) string {
	line := name + "=" + value
	var b strings.Builder
	written := false
	for old := range strings.Lines(text) {
		if n, _, ok := assignment(old); ok && n == name {
			if written {
				continue
			}
			written = true
			old = line + "\n"
		}
		b.WriteString(old)
	}
	if written {
		return b.String()
	}
	if text = b.String(); text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + line + "\n"
}

// DropSecret removes a variable from the text of a secrets file.
func DropSecret(text, name string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if n, _, ok := assignment(line); !ok || n != name {
			b.WriteString(line)
		}
	}
	return b.String()
}
