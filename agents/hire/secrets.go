package hire

import "strings"

// Secrets decodes a secrets file in the format of docker compose: one NAME=value per line, comments after #, values
// with or without quotes. If a name occurs twice, the last line counts.
func Secrets(text string) map[string]string {
	values := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := assignment(line); ok {
			values[name] = value
		}
	}
	return values
}

// assignment parses a line of a secrets file. ok is false for a comment or an empty line.
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

// SetSecret sets a variable in the text of a secrets file and leaves the rest unchanged.
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

// A mark begins the line of a secrets file that records an account of ours of which the file has no token. It is a
// comment.
const (
	// beginMark records an account that is being created, with its login and its password. A run that finds it can
	// continue an interrupted one.
	beginMark = "# disinto is creating this account on the forge, with this password: "
	// retiredMark records an account that hiring created and retiring left, with its login.
	retiredMark = "# disinto created this account on the forge, and retired it: "
)

// marked returns what a mark's lines record, by login.
func marked(text, mark string) map[string]string {
	records := make(map[string]string)
	for line := range strings.Lines(text) {
		if l, ok := strings.CutPrefix(line, mark); ok {
			login, record, _ := strings.Cut(strings.TrimSpace(l), " ")
			records[login] = record
		}
	}
	return records
}

// setMark records an account in the text of a secrets file.
func setMark(text, mark, login, record string) string {
	if text = dropMarks(text, login); text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + mark + strings.TrimSpace(login+" "+record) + "\n"
}

// dropMarks removes the records of an account.
func dropMarks(text, login string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		_, begun := marked(line, beginMark)[login]
		_, retired := marked(line, retiredMark)[login]
		if !begun && !retired {
			b.WriteString(line)
		}
	}
	return b.String()
}
