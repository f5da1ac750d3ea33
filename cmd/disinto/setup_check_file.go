//go:build linux

package main

import (
	"cmp"
	"errors"
	"strings"

	"codeberg.org/johba/disinto/threads"
	"codeberg.org/johba/disinto/threads/file"
)

// readRight reads what is right of a factory.toml, so that one run of check also reports what is wrong elsewhere. The
// configuration is nil if nothing can be read; whole reports that the file has no mistake.
func readRight(path string, lookupEnv func(string) (string, bool)) (config *threads.Config, whole bool, err error) {
	secretsPath := secretsFile(path, lookupEnv)
	secrets, secretsErr := secretsText(secretsPath)
	lookupEnv = withSecrets(secrets, lookupEnv)
	written, err := configText(path, lookupEnv)
	if err != nil || secretsErr != nil && secrets == "" {
		return nil, false, errors.Join(secretsErr, err)
	}
	config, mistakes := decodeRight(path, written, lookupEnv)
	if config == nil {
		return nil, false, errors.Join(secretsErr, mistakes)
	}
	err = cmp.Or(secretsErr, checkOwner(secretsPath, config))
	if len(mistakes) > 0 {
		err = errors.Join(err, mistakes)
	}
	return config, len(mistakes) == 0, errors.Join(err, placeBuiltin(config, path))
}

// mostCut limits the lines without which the rest of a file is read.
const mostCut = 10

// decodeRight decodes a factory.toml without the lines that are no TOML. Of their mistakes only the first is reported:
// the others can be its consequence, and so can whatever seems to be missing.
func decodeRight(path, text string, lookupEnv func(string) (string, bool)) (*threads.Config, file.Mistakes) {
	config, mistakes := file.DecodeRight(path, text, lookupEnv)
	if config != nil {
		return config, mistakes
	}
	first, lines, headed := mistakes[0], strings.Split(text, "\n"), true
	for range mostCut {
		n := mistakes[0].Line
		if n < 1 || n > len(lines) || lines[n-1] == "" {
			break
		}
		headed = headed && !strings.HasPrefix(strings.TrimSpace(lines[n-1]), "[") // else keys are in another table now
		lines[n-1] = ""
		if config, mistakes = file.DecodeRight(path, strings.Join(lines, "\n"), lookupEnv); config != nil {
			break
		}
	}
	all := file.Mistakes{first}
	for _, m := range mistakes {
		if config != nil && headed && m.Line > 0 {
			all = append(all, m)
		}
	}
	return config, all
}
