package agents

import (
	"regexp"
	"slices"
	"strings"
)

// minPosted is the minimum length of a secret, in bytes, that is searched for in what is posted on the forge, and in
// commits. Shorter ones are words of a test or an example.
const minPosted = 12

// placeholder matches the values of keys for servers that want none.
var placeholder = regexp.MustCompile(
	`(?i)^(?:sk-?)?(?:no|none|null|empty|dummy|fake|test|local|ollama|lm-?studio|vllm|unused|anything|placeholder|` +
		`changeme|not-?needed|no-?key|x+|\*+)(?:[-_ ]?(?:key|token|api|required|needed))*$`)

// Credentials returns the credentials in an environment: variables with names of credentials, and addresses with a
// password. It is the list for all ways out: logs, outcomes and posts. Placeholders are no credentials.
func Credentials(environ []string) (list []SecretVar) {
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if forgeNames.match(name) || secretNames.match(name) || hasPassword(value) {
			if value = strings.TrimSpace(value); len(value) >= minSecret && !placeholder.MatchString(value) {
				list = append(list, SecretVar{Name: name, Value: Secret(value)})
			}
		}
	}
	return list
}

// HiddenValues returns the values of a session's secrets, as Apart returns them, that no output may show: all but the
// settings of models, such as a model's name, and placeholders.
func HiddenValues(secrets []string) (values []string) {
	for _, entry := range secrets {
		name, value, _ := strings.Cut(entry, "=")
		setting := modelNames.match(name) && !secretNames.match(name) && !hasPassword(value)
		if !setting && !placeholder.MatchString(value) {
			values = append(values, value)
		}
	}
	return values
}

// Searched reports whether a secret is searched for in what is posted on the forge, and in commits.
func (s Secret) Searched() bool { return len(s) >= minPosted && !placeholder.MatchString(string(s)) }

// RedactPost replaces every occurrence of a secret in a text that is posted on the forge. It ignores secrets that are
// not long enough, and placeholders.
func RedactPost(text string, secrets []string) string {
	return Redact(text, slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return !Secret(s).Searched() }))
}
