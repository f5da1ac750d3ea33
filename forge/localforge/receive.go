package localforge

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// mostReceived bounds the objects of a push that is received without git.
const mostReceived = 50

// receive does what git receive-pack does with a push of one ref, without its three processes: agents and supervisors
// push little and often. It returns nil for a push that needs git, such as one that has to be refused, and has then
// moved nothing. The caller holds r.moving.
func (f *Forge) receive(r *repo, push []byte) (report []byte) {
	commands := pushCommands(push)
	if len(commands) != 1 || len(push) < 8 {
		return nil
	}
	size := 0
	_, _ = fmt.Sscanf(string(push[:4]), "%04x", &size)
	line, options, _ := strings.Cut(string(push[4:size]), "\x00")
	m, pack := commands[0], push[size:]
	if !bytes.HasPrefix(pack, []byte("0000")) || line != m.before+" "+m.after+" "+m.ref || !receivable(m, options) {
		return nil
	}
	f.mu.Lock()
	now := cmp.Or(r.refs[m.ref], noCommit)
	f.mu.Unlock()
	if now != m.before { // as with git, a refused push leaves no objects
		return nil
	}
	if m.after == noCommit {
		if len(pack) > 4 || !removeRef(r.dir, m) {
			return nil
		}
	} else if r.store.unpack(pack[4:]) != nil || r.store.complete(m.after) != nil ||
		!writeRef(filepath.Join(r.dir, m.ref), m.after, m.before, filepath.Join(r.dir, "packed-refs")) {
		return nil
	}
	packet := func(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }
	text := packet("unpack ok\n") + packet("ok "+m.ref+"\n") + "0000"
	if strings.Contains(" "+options+" ", " side-band-64k ") {
		text = packet("\x01"+text) + "0000"
	}
	return []byte(text)
}

// receivable reports whether a move is of a kind that we know: of a branch or one of disinto's refs, with a report.
func receivable(m moved, options string) bool {
	_, name, _ := strings.Cut(m.ref, "/")
	kind, _, _ := strings.Cut(name, "/")
	for option := range strings.FieldsSeq(options) {
		switch key, _, _ := strings.Cut(option, "="); key {
		case "report-status", "report-status-v2", "side-band-64k", "quiet", "atomic", "agent", "session-id":
		case "object-format":
			if option != "object-format=sha1" {
				return false
			}
		default:
			return false
		}
	}
	return strings.HasPrefix(m.ref, "refs/") && (kind == "heads" || kind == "disinto") && plainName.MatchString(name) &&
		isHash(m.before) && isHash(m.after) && strings.Contains(options, "report-status")
}

// removeRef deletes a ref that is at m.before, and reports whether it did.
func removeRef(dir string, m moved) bool {
	file := filepath.Join(dir, m.ref)
	lock, err := os.OpenFile(file+".lock", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return false
	}
	defer func() { _ = lock.Close(); _ = os.Remove(lock.Name()) }()
	if _, err := os.Lstat(filepath.Join(dir, "packed-refs")); err == nil {
		return false
	}
	was, err := os.ReadFile(file)
	return err == nil && strings.TrimSpace(string(was)) == m.before && os.Remove(file) == nil
}

// unpack stores the objects of a pack, unless some are differences to other objects.
func (s *store) unpack(pack []byte) error {
	const head, sum = 12, sha1.Size
	if len(pack) < head+sum || string(pack[:4]) != "PACK" || binary.BigEndian.Uint32(pack[4:]) != 2 {
		return errAskGit
	}
	count, end := binary.BigEndian.Uint32(pack[8:]), len(pack)-sum
	if want := sha1.Sum(pack[:end]); count > mostReceived || !bytes.Equal(want[:], pack[end:]) {
		return errAskGit
	}
	in := bytes.NewReader(pack[head:end])
	for range count {
		first, err := in.ReadByte()
		if err != nil {
			return errAskGit
		}
		size, more := int64(first&0xf), first
		for shift := 4; more >= 0x80; shift += 7 {
			if more, err = in.ReadByte(); err != nil || shift > 32 {
				return errAskGit
			}
			size |= int64(more&0x7f) << shift
		}
		kind, known := map[byte]string{1: "commit", 2: "tree", 3: "blob"}[first>>4&7]
		if !known {
			return errAskGit
		}
		plain, err := zlib.NewReader(in)
		if err != nil {
			return errAskGit
		}
		body, err := io.ReadAll(io.LimitReader(plain, size+1))
		if err != nil || int64(len(body)) != size {
			return errAskGit
		}
		if _, err := s.write(kind, body); err != nil {
			return err
		}
	}
	if in.Len() > 0 {
		return errAskGit
	}
	return nil
}

// complete checks that a commit and everything that it needs is there. What a ref of the repository needs is there; so
// the check ends at commits that were read before, all of which a ref had.
func (s *store) complete(sha string) error {
	seen := map[string]bool{}
	var tree func(sha string) error
	tree = func(sha string) error {
		if seen[sha] {
			return nil
		}
		seen[sha] = true
		entries, err := s.folder(sha)
		if err != nil {
			return err
		}
		for _, e := range entries {
			switch e.kind() {
			case "tree":
				err = tree(e.sha)
			case "blob":
				_, err = os.Lstat(s.file(e.sha))
			default:
				err = errAskGit
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	for next := []string{sha}; len(next) > 0; {
		last := next[len(next)-1]
		next = next[:len(next)-1]
		s.mu.Lock()
		_, known := s.commits[last]
		s.mu.Unlock()
		if known || seen[last] {
			continue
		}
		seen[last] = true
		kind, body, err := s.read(last)
		if err != nil || kind != "commit" {
			return errAskGit
		}
		co, err := parseCommit(last, string(body))
		if err != nil {
			return err
		}
		if err := tree(co.tree); err != nil {
			return err
		}
		next = append(next, strings.Fields(co.parents)...)
	}
	return nil
}
