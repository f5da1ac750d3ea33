package session

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/forge"
)

// Git LFS stores the contents of large files beside the repository, which has pointers in their place. git's hooks
// upload the contents, and our git runs no hooks: the program itself downloads them before a checkout, and uploads them
// before a push. A push without them would make a pointer to nothing, and the default branch could not be cloned again.

// NoLFS is the reason of a session that needs git-lfs where it is not installed.
const NoLFS = "the repository uses Git LFS, and git-lfs is not installed here: install it (apt-get install git-lfs)"

// lfsSettings are git's settings for git-lfs. The address of a branch's .lfsconfig does not count: the token goes to
// the forge only.
func lfsSettings(url string) [][2]string {
	return [][2]string{
		{"lfs.url", url + "/info/lfs"},
		{"lfs.pushurl", url + "/info/lfs"},
		{"lfs.allowincompletepush", "false"},
		{"lfs.locksverify", "false"},
		{"lfs.skipdownloaderrors", "true"}, // a file that the forge has lost stays a pointer
	}
}

// lfsConfig returns the mirror's settings for the agent's own commits and checkouts.
func (t *tree) lfsConfig() string {
	return fmt.Sprintf(`[lfs]
	url = "%[1]s/info/lfs"
	pushurl = "%[1]s/info/lfs"
[filter "lfs"]
	clean = git-lfs clean -- %%f
	smudge = git-lfs smudge -- %%f
	process = git-lfs filter-process
	required = true
`, configQuoted.Replace(t.url))
}

// usesLFS reports whether a commit has files in Git LFS.
func (t *tree) usesLFS(ctx context.Context, rev string) bool {
	out, _ := t.do(ctx, t.mirror, // fails without a match
		"grep", "--files-with-matches", "-e", `filter=lfs\b`, rev, "--", ":(glob)**/.gitattributes")
	return out != ""
}

// hasLFS reports whether git-lfs can be run.
func (t *tree) hasLFS(ctx context.Context) bool {
	_, err := t.do(ctx, t.mirror, "lfs", "version")
	return err == nil
}

// fetchLargeFiles downloads the large files of some commits into the mirror, from which a checkout takes them. missing
// reports that some could not be downloaded: they stay pointers.
func (t *tree) fetchLargeFiles(ctx context.Context, revs ...string) (missing error, err error) {
	revs = slices.DeleteFunc(slices.Clone(revs), func(rev string) bool { return !t.has(ctx, rev) || !t.usesLFS(ctx, rev) })
	if len(revs) == 0 {
		return nil, nil
	}
	if !t.hasLFS(ctx) {
		return nil, end(agents.BackendDown, NoLFS)
	}
	config := filepath.Join(t.mirror, "config")
	text, err := plainfile.Read(config, maxLeft)
	if filters := t.lfsConfig(); err == nil && !strings.Contains(string(text), filters) {
		err = writeFile(config, append(text, filters...))
	}
	if err != nil {
		return nil, err
	}
	_, missing = t.ask(ctx, t.mirror, append([]string{"lfs", "fetch", t.url}, revs...)...)
	return missing, ctx.Err()
}

// uploadLargeFiles uploads the large files of a commit that are not on the forge, and checks that the forge has all of
// them. Call it before every push.
func (t *tree) uploadLargeFiles(ctx context.Context, rev string) error {
	files, err := t.newLargeFiles(ctx, rev)
	if err != nil || len(files) == 0 {
		return err
	}
	if !t.hasLFS(ctx) {
		return end(agents.BackendDown, NoLFS)
	}
	if err := t.upload(ctx, files); err != nil || t.missingFiles == nil {
		return err
	}
	missing, err := t.missingFiles(ctx, files)
	if err != nil || len(missing) == 0 {
		return err
	}
	return fmt.Errorf("%w: %d of %d, the first has the id %s", errNoContent, len(missing), len(files), missing[0].ID)
}

// errNoContent means that a commit has pointers of Git LFS whose contents are nowhere.
var errNoContent = errors.New("large files have a pointer of Git LFS but no content")

// upload uploads those of some large files that are in the mirror.
func (t *tree) upload(ctx context.Context, files []forge.LargeFile) error {
	dir, storage := t.mirror, t.mirror
	if common, err := t.runGit(ctx, "rev-parse", "--path-format=absolute", "--git-common-dir"); err == nil {
		dir, storage = t.dir, common // a program's own clone has its own large files
	}
	args := []string{"lfs", "push", "--object-id", t.url}
	here := len(args)
	for _, f := range files {
		if _, err := os.Stat(filepath.Join(storage, "lfs", "objects", f.ID[:2], f.ID[2:4], f.ID)); err == nil {
			args = append(args, f.ID)
		}
	}
	for ids := range slices.Chunk(args[here:], 1_000) { // a command line has 2 MB
		if _, err := t.ask(ctx, dir, append(slices.Clone(args[:here]), ids...)...); err != nil {
			return err
		}
	}
	return nil
}

// maxPointer is the largest size of a pointer of Git LFS, in bytes, by its specification.
const maxPointer = 1024

// newLargeFiles returns the large files in the commits of rev that are not on the forge.
func (t *tree) newLargeFiles(ctx context.Context, rev string) (files []forge.LargeFile, err error) {
	if !t.usesLFS(ctx, rev) {
		return nil, nil
	}
	out, err := t.do(ctx, t.mirror, "rev-list", "--objects", "--no-object-names", "--filter=blob:limit="+
		strconv.Itoa(maxPointer), rev, "--not", "--remotes", "--glob="+strings.TrimSuffix(pushedRefs, "/"))
	if err != nil || out == "" {
		return nil, err
	}
	var objects bytes.Buffer
	err = t.run(ctx, agents.Cmd{
		Argv: []string{"git", "cat-file", "--batch"}, Dir: t.mirror, Env: t.environ,
		Stdin: strings.NewReader(out + "\n"), Stdout: &objects,
	})
	if err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	return largeFilesIn(&objects)
}

// largeFilesIn returns the large files whose pointers are among objects in the format of cat-file --batch.
func largeFilesIn(objects *bytes.Buffer) (files []forge.LargeFile, err error) {
	in := bufio.NewReader(objects)
	for {
		header, err := in.ReadString('\n')
		if header == "" {
			return files, nil
		}
		field := strings.Fields(header)
		if err != nil || len(field) != 3 {
			return nil, fmt.Errorf("git cat-file: %q", header)
		}
		size, err := strconv.Atoi(field[2])
		if err != nil {
			return nil, fmt.Errorf("git cat-file: %q", header)
		}
		text := make([]byte, size+1) // a newline follows
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, fmt.Errorf("git cat-file: %w", err)
		}
		if f, ok := parsePointer(string(text[:size])); ok && field[1] == "blob" && !slices.Contains(files, f) {
			files = append(files, f)
		}
	}
}

var pointer = regexp.MustCompile(
	`(?s)^version https://git-lfs\.github\.com/spec/v1\n.*?\boid sha256:([0-9a-f]+)\nsize (\d+)\n`)

// parsePointer reads the pointer of a large file.
func parsePointer(text string) (f forge.LargeFile, ok bool) {
	m := pointer.FindStringSubmatch(text)
	if m == nil || len(text) > maxPointer || len(m[1]) != 64 {
		return f, false
	}
	size, err := strconv.ParseInt(m[2], 10, 64)
	return forge.LargeFile{ID: m[1], Size: size}, err == nil
}
