package process

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/plainfile"
)

// resultText reads the file at path that a program wrote; found is false if there is none. An agent owns the file, so
// resultText reads it with the agent's own rights, and only if it is a plain file of limited size. So an agent gains
// nothing with a link to one of our files, or with a pipe without a writer.
func resultText(path string, a *account) (text []byte, found bool, err error) {
	err = a.do(func() (err error) {
		text, err = plainfile.Read(path, agents.MaxResult)
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, true, fmt.Errorf("the result is not a plain file of at most %d bytes", agents.MaxResult)
	}
	return text, true, nil
}

// readResult reads the result that the program left at path. found is false if there is none, or if it contains only
// a usage. The reason will be shown, and commented on the forge, so secrets are hidden twice: before the reason is
// cut, and after its escapes are resolved.
func readResult(path string, a *account, secrets []string) (o agents.Outcome, found bool, err error) {
	if path == "" {
		return o, false, nil
	}
	text, found, err := resultText(path, a)
	if found && err == nil {
		o, err = agents.ParseResult([]byte(agents.Redact(string(text), secrets)))
	}
	if !found || errors.Is(err, agents.ErrUnfinished) {
		return o, false, nil
	}
	if len(text) > 0 {
		sum := sha256.Sum256(text)
		o.Digest = hex.EncodeToString(sum[:])
	}
	o.Reason = agents.Redact(o.Reason, secrets)
	return o, true, err
}

// clearResult makes the folder for a result, and removes the result of an earlier run.
func clearResult(path string, a *account) error {
	if path == "" {
		return nil
	}
	if err := makeFolder(filepath.Dir(path), a); err != nil {
		return err
	}
	err := a.do(func() error { return os.Remove(path) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove an old result: %w", err)
	}
	return nil
}
