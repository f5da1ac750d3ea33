package mergediff

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

const (
	// maxText is the largest file that is shown as text, in bytes. git reads no larger one.
	maxText = 8 << 20
	// maxPatch bounds the patches of one difference that are held, in bytes. They also say where comments can be placed.
	maxPatch = 16 << 20
	// maxRead bounds the binary files that are searched for text, in bytes each, and maxBinary their number.
	maxRead, maxBinary = 1 << 20, 100
)

// file is one changed file.
type file struct {
	status           byte // as git diff --raw: A, D, M, R, T
	oldMode, newMode string
	oldHash, newHash string
	oldPath, newPath string
	size             int64 // of the new version in bytes; 0 if there is none
	patch            []byte
	length           int // of the patch in bytes, of which some may be cut
	binary           bool
}

func (f *file) key() string { return f.oldPath + "\x00" + f.newPath }

func (f *file) submodule() bool { return f.oldMode == "160000" || f.newMode == "160000" }

func (f *file) deleted() bool { return f.status == 'D' }

// cut reports whether a part of the patch is missing.
func (f *file) cut() bool { return f.length > len(f.patch) }

// diff returns the files that differ between two trees, in git's order, each with its patch.
func (g *repo) diff(ctx context.Context, from, to string) ([]*file, error) {
	files, err := g.changed(ctx, from, to)
	if err != nil || len(files) == 0 {
		return nil, err
	}
	if err := g.sizes(ctx, files); err != nil {
		return nil, err
	}
	if err := g.patches(ctx, files, from, to); err != nil {
		return nil, err
	}
	return files, g.textOf(ctx, files, from, to)
}

// changed returns the files that differ between two trees, or those of them at some paths.
func (g *repo) changed(ctx context.Context, from, to string, paths ...string) ([]*file, error) {
	args := []string{"diff-tree", "-r", "-M", "-z", "--raw", "--no-abbrev", "--ignore-submodules=none", from, to, "--"}
	raw, err := g.read(ctx, append(args, paths...)...)
	if err != nil {
		return nil, err
	}
	return parseRaw(raw)
}

// parseRaw reads the output of diff-tree --raw -z.
func parseRaw(raw string) (files []*file, err error) {
	words := strings.Split(strings.TrimSuffix(raw, "\x00"), "\x00")
	for len(words) > 1 {
		field := strings.Fields(strings.TrimPrefix(words[0], ":"))
		if len(field) != 5 {
			return nil, fmt.Errorf("git diff-tree: cannot read %.100q", words[0])
		}
		f := &file{
			oldMode: field[0], newMode: field[1], oldHash: field[2], newHash: field[3], status: field[4][0],
			oldPath: words[1], newPath: words[1],
		}
		words = words[2:]
		if f.status == 'R' || f.status == 'C' {
			if len(words) == 0 {
				return nil, fmt.Errorf("git diff-tree: no new name of %.100q", f.oldPath)
			}
			f.newPath, words = words[0], words[1:]
		}
		files = append(files, f)
	}
	return files, nil
}

// sizes sets the sizes of the files' new versions.
func (g *repo) sizes(ctx context.Context, files []*file) error {
	var in, out bytes.Buffer
	for _, f := range files {
		if !f.deleted() && !f.submodule() {
			fmt.Fprintln(&in, f.newHash)
		}
	}
	if err := g.do(ctx, &in, &out, "cat-file", "--batch-check=%(objectname) %(objectsize)"); err != nil {
		return err
	}
	size := make(map[string]int64)
	for line := range strings.Lines(out.String()) {
		hash, n, _ := strings.Cut(strings.TrimSpace(line), " ")
		bytes, err := strconv.ParseInt(n, 10, 64)
		if err != nil {
			return fmt.Errorf("git cat-file: cannot read %.100q", line)
		}
		size[hash] = bytes
	}
	for _, f := range files {
		f.size = size[f.newHash]
	}
	return nil
}

// patches sets the patches of the files that differ between two trees, or of those of them at some paths.
func (g *repo) patches(ctx context.Context, files []*file, from, to string, more ...string) error {
	args := []string{
		"diff-tree", "-r", "-M", "-p", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv",
		"--ignore-submodules=none", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/",
	}
	out := &sections{left: maxPatch, most: g.most}
	for _, f := range files {
		if out.files = append(out.files, f); f.status == 'T' { // a file is deleted, and another created
			out.files = append(out.files, f)
		}
	}
	if err := g.do(ctx, nil, out, append(append(args, from, to), more...)...); err != nil {
		return err
	}
	if out.at != len(out.files) {
		return fmt.Errorf("git diff-tree: %d patches of %d files", out.at, len(out.files))
	}
	for _, f := range files {
		f.binary = !bytes.Contains(f.patch, []byte("\n@@ ")) && binaryMark.Match(f.patch)
	}
	return nil
}

// textOf shows as text what git takes for binary because of a few NUL bytes: a script runs with them.
func (g *repo) textOf(ctx context.Context, files []*file, from, to string) error {
	few := make(map[string]*file)
	var paths []string
	for _, f := range files {
		if !f.binary || f.size > maxRead || len(few) == maxBinary {
			continue
		}
		ok, err := g.isText(ctx, f.oldHash)
		if err == nil && ok {
			ok, err = g.isText(ctx, f.newHash)
		}
		if err != nil {
			return err
		}
		if ok {
			few[f.key()] = f
			paths = append(paths, ":(literal)"+f.oldPath, ":(literal)"+f.newPath)
		}
	}
	if len(few) == 0 {
		return nil
	}
	again, err := g.changed(ctx, from, to, paths...)
	if err != nil {
		return err
	}
	if err := g.patches(ctx, again, from, to, append([]string{"--text", "--"}, paths...)...); err != nil {
		return err
	}
	for _, one := range again { // without the rest, git may pair two files in another way: they stay binary
		if f := few[one.key()]; f != nil {
			f.patch, f.length, f.binary = one.patch, one.length, false
		}
	}
	return nil
}

// isText reports whether a file's version has at most one byte in ten that text does not have. The file may be absent.
func (g *repo) isText(ctx context.Context, hash string) (bool, error) {
	if strings.Trim(hash, "0") == "" {
		return true, nil
	}
	out := &sample{}
	err := g.do(ctx, nil, out, "cat-file", "blob", hash)
	return out.size <= maxRead && 10*odd(out.text) <= len(out.text), err
}

// sample keeps the beginning of what is written to it.
type sample struct {
	text []byte
	size int
}

func (s *sample) Write(p []byte) (int, error) {
	s.size += len(p)
	s.text = append(s.text, p[:min(len(p), maxRead-len(s.text))]...)
	return len(p), nil
}

// sections reads the patches of files as they come, in the same order. In a patch no line of a file begins with a d,
// and git quotes names with line breaks, so that nothing in a branch looks like the beginning of the next patch.
type sections struct {
	files []*file
	at    int    // patches that have begun
	left  int    // bytes that may still be held
	most  int    // length of the longest patch that is held
	line  []byte // the beginning of a line, too short to be recognised
	in    bool   // what comes continues a line
}

var (
	header     = []byte("diff --git ")
	binaryMark = regexp.MustCompile(`(?m)^Binary files .* differ$`)
)

// Write never fails, so that git ends by itself.
func (s *sections) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n') + 1
		whole := i > 0
		if !whole {
			i = len(p)
		}
		s.add(p[:i], whole)
		p = p[i:]
	}
	return n, nil
}

// add takes a piece of a line. whole reports that the line ends with it.
func (s *sections) add(p []byte, whole bool) {
	if !s.in {
		s.line = append(s.line, p...)
		if !whole && len(s.line) < len(header) {
			return
		}
		p = s.line
		if bytes.HasPrefix(p, header) {
			s.at++
		}
	}
	s.in = !whole
	if 0 < s.at && s.at <= len(s.files) {
		f := s.files[s.at-1]
		if f.length += len(p); f.length > s.most {
			s.left += len(f.patch)
			f.patch = nil
		} else if len(p) <= s.left {
			s.left -= len(p)
			f.patch = append(f.patch, p...)
		}
	}
	s.line = s.line[:0]
}
