//go:build linux

package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/hire"
)

// variable matches a value that only names a variable.
var variable = regexp.MustCompile(`^"\$[A-Za-z0-9_]+"$`)

// mostChanges is how many changed keys a reload logs one by one.
const mostChanges = 50

// changesOf returns what differs between the texts of two configurations, as bothTexts returns them: one line for each
// key, with both values unless one may be a secret, and for each variable of the secrets file, without its value.
func changesOf(old, next string, secrets []string) (lines []string) {
	oldConfig, oldSecrets, _ := strings.Cut(old, "\x00")
	config, newSecrets, _ := strings.Cut(next, "\x00")
	lines = differences(keysOf(oldConfig), keysOf(config), func(key, value string) string {
		leaf, text := key[strings.LastIndexByte(key, '.')+1:], strings.Contains(value, `"`)
		if text && !variable.MatchString(value) && (agents.SecretVariable(leaf, value) ||
			strings.HasPrefix(key, "notify.") || strings.Contains(key, ".env.")) {
			return "[secret]"
		}
		return agents.Redact(value, secrets)
	})
	of := differences(hire.Secrets(oldSecrets), hire.Secrets(newSecrets), func(_, _ string) string { return "[secret]" })
	for _, line := range of {
		lines = append(lines, "the secrets file: "+line)
	}
	if more := len(lines) - mostChanges; more > 0 {
		lines = append(lines[:mostChanges], fmt.Sprintf("and %d more", more))
	}
	return lines
}

// differences returns a line for each key that two texts do not share, sorted by key. show returns a value as it may be
// logged.
func differences(old, next map[string]string, show func(key, value string) string) (lines []string) {
	all := maps.Clone(old)
	maps.Copy(all, next)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		was, had := old[key]
		is, has := next[key]
		switch from, to := show(key, was), show(key, is); {
		case !had:
			lines = append(lines, key+" is new: "+to)
		case !has:
			lines = append(lines, key+" is gone, it was "+from)
		case was != is && from == to:
			lines = append(lines, key+" has changed")
		case was != is:
			lines = append(lines, key+" is "+to+", it was "+from)
		}
	}
	return lines
}

// keysOf returns the values of a TOML text by their dotted keys; nil if it is none.
func keysOf(text string) map[string]string {
	var values map[string]any
	if _, err := toml.Decode(text, &values); err != nil {
		return nil
	}
	keys := make(map[string]string)
	addKeys(keys, nil, values)
	return keys
}

func addKeys(keys map[string]string, path toml.Key, value any) {
	table, ok := value.(map[string]any)
	if !ok {
		keys[path.String()] = written(value)
		return
	}
	for name, v := range table {
		addKeys(keys, append(slices.Clone(path), name), v)
	}
}

// written returns a value as TOML has it.
func written(value any) string {
	switch v := value.(type) {
	case string:
		return strconv.Quote(v)
	case []any:
		var words []string
		for _, x := range v {
			words = append(words, written(x))
		}
		return "[" + strings.Join(words, ", ") + "]"
	case map[string]any: // in an array
		var words []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			words = append(words, name+" = "+written(v[name]))
		}
		return "{" + strings.Join(words, ", ") + "}"
	}
	return fmt.Sprint(value)
}
