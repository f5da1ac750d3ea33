package mergediff

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"codeberg.org/johba/disinto/agents"
)

// Entry is something of a change that its text does not show whole.
type Entry struct {
	Path  string
	Kind  string
	Size  int64  // in bytes; -1 means none
	Hash  string // of git's object, or of the content in Git LFS
	Shown bool   // it is small enough to count as shown
}

// String returns the entry in one line.
func (e Entry) String() string {
	words := visiblePath(e.Path) + ": " + e.Kind
	if e.Size >= 0 {
		words += fmt.Sprintf(", %d bytes", e.Size)
	}
	return words + ", " + e.Hash
}

// Words returns the first entries in one line.
func Words(all []Entry) string {
	words := make([]string, min(len(all), 3))
	for i := range words {
		words[i] = all[i].String()
	}
	if more := len(all) - len(words); more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, "; ")
}

// List returns the first entries as a list in Markdown, each as code, because names can be anything.
func List(all []Entry) string {
	var b strings.Builder
	for i, e := range all {
		if i == 50 {
			fmt.Fprintf(&b, "- and %d more\n", len(all)-i)
			break
		}
		b.WriteString("- `" + strings.ReplaceAll(e.String(), "`", "'") + "`\n")
	}
	return b.String()
}

// submodule is the kind of a submodule's entry.
const submodule = "submodule"

// maxListed bounds the entries of the list. What is not even listed is not shown.
const maxListed = 300

// lockShown is the largest patch of a lock file that is shown, in bytes: most of them nobody reads.
const lockShown = 16 << 10

// lockFiles are files that a package manager writes, by name.
var lockFiles = []string{
	"bun.lock", "Cargo.lock", "composer.lock", "deno.lock", "flake.lock", "Gemfile.lock", "go.sum", "gradle.lockfile",
	"mix.lock", "npm-shrinkwrap.json", "package-lock.json", "Package.resolved", "packages.lock.json", "pdm.lock",
	"Pipfile.lock", "pnpm-lock.yaml", "poetry.lock", "Podfile.lock", "pubspec.lock", "uv.lock", "yarn.lock",
}

// page composes what a reviewer sees. Its own lines begin with ===, as no line of a patch does.
type page struct {
	most        Limits
	own, merged []*file // base...head, and what the merge does to the base
	rebased     bool
	view        *View
	text        bytes.Buffer
}

func (p *page) list(e Entry) { p.view.Listed = append(p.view.Listed, e) }

// compose makes the view. In a conflict, own is all that can be shown.
func (p *page) compose() *View {
	patch := make(map[string]*file, len(p.own))
	var whole bytes.Buffer
	for _, f := range p.own {
		if patch[f.key()] = f; !f.cut() {
			whole.Write(f.patch)
		}
	}
	p.view.Patch = whole.String()
	shown := make(map[string]bool, len(p.merged))
	for _, f := range p.merged {
		shown[f.key()] = !p.show(f) || same(f, patch[f.key()])
	}
	if len(p.merged) == 0 {
		p.text.WriteString("=== The merge changes nothing.\n")
	}
	p.showOwn(shown)
	text := p.head() + visible(p.text.String())
	p.view.Parts = split(text, p.most.Part)
	return p.view
}

// head returns the lines before the patches.
func (p *page) head() string {
	var b strings.Builder
	switch {
	case p.view.Conflict:
		b.WriteString("=== This conflicts with its base, so there is no merge to show. It is base...head.\n")
	case p.rebased:
		b.WriteString("=== This is what rebasing the commits does to the base. A merge would do something else.\n")
	default:
		b.WriteString("=== This is what the merge does to the base.\n")
	}
	if len(p.view.Listed) > maxListed {
		rest := len(p.view.Listed) - maxListed
		p.view.Listed = append(p.view.Listed[:maxListed:maxListed], Entry{
			Path: fmt.Sprintf("%d more", rest), Kind: "not even listed", Size: -1, Hash: "no hash",
		})
	}
	if len(p.view.Listed) > 0 {
		b.WriteString("=== It is not shown whole. Of these you see a name, a size and a hash at most:\n")
	}
	for _, e := range p.view.Listed {
		fmt.Fprintf(&b, "=== %s\n", e)
	}
	return b.String()
}

// show adds the patch of a file, and lists what it does not show. It reports whether it added the patch.
func (p *page) show(f *file) bool {
	small := f.size <= p.most.Unseen
	e := Entry{Path: f.newPath, Size: f.size, Hash: "blob " + f.newHash}
	if f.deleted() {
		e.Hash = "was blob " + f.oldHash
	}
	lfs, id := f.largeFile()
	switch {
	case f.submodule():
		e.Kind, e.Size, e.Hash, e.Shown = submodule, -1, "from commit "+f.oldHash+" to "+f.newHash, f.deleted()
		p.list(e)
	case lfs >= 0:
		e.Kind, e.Size, e.Hash, e.Shown = "file in Git LFS", lfs, "sha256 "+id, lfs <= p.most.Unseen
		p.list(e)
	case f.binary && f.size > maxText:
		e.Kind, e.Shown = "more than "+agents.Size(maxText), false
		p.list(e)
	case f.binary:
		e.Kind, e.Shown = "binary", small || f.deleted()
		p.list(e)
	case slices.Contains(lockFiles, path.Base(f.newPath)) && f.length > lockShown:
		e.Kind, e.Shown = "lock file", small
		p.list(e)
		return false
	case !p.fits(f):
		e.Kind = "too long: its difference has " + agents.Size(int64(f.length))
		p.list(e)
		return false
	}
	p.text.Write(f.patch)
	return true
}

func (p *page) fits(f *file) bool { return !f.cut() && p.text.Len()+f.length <= p.most.Whole }

// showOwn adds the patches of base...head that the merge does not have in the same words and lines.
func (p *page) showOwn(shown map[string]bool) {
	began := false
	for _, f := range p.own {
		if shown[f.key()] {
			continue
		}
		if !began {
			p.text.WriteString("=== Of these files, base...head is another difference. Comments on lines count its lines.\n")
		}
		if began = true; p.fits(f) {
			p.text.Write(f.patch)
		} else {
			fmt.Fprintf(&p.text, "=== %s: too long\n", visiblePath(f.newPath))
		}
	}
}

var indexLine = regexp.MustCompile(`(?m)^index [0-9a-f]+\.\.[0-9a-f]+`)

// same reports whether two patches of a file differ in nothing but the versions that they begin and end with.
func same(a, b *file) bool {
	switch {
	case b == nil:
		return false
	case a.oldHash == b.oldHash && a.newHash == b.newHash && a.oldMode == b.oldMode && a.newMode == b.newMode:
		return true
	case a.cut() || b.cut() || a.binary || a.submodule():
		return false
	}
	return bytes.Equal(indexLine.ReplaceAll(a.patch, nil), indexLine.ReplaceAll(b.patch, nil))
}

// The lines of a pointer of Git LFS, as a patch shows them.
var (
	pointerVersion = regexp.MustCompile(`(?m)^[ +]version https://git-lfs\.github\.com/spec/v1$`)
	pointerID      = regexp.MustCompile(`(?m)^[ +]oid sha256:([0-9a-f]+)$`)
	pointerSize    = regexp.MustCompile(`(?m)^[ +]size (\d+)$`)
)

// maxPointer is the largest size of a pointer of Git LFS, in bytes, by its specification.
const maxPointer = 1024

// largeFile returns the size and the id of the content that a file has in Git LFS; -1 if it has none.
func (f *file) largeFile() (size int64, id string) {
	if f.size > maxPointer || f.binary || !pointerVersion.Match(f.patch) {
		return -1, ""
	}
	oid, length := pointerID.FindSubmatch(f.patch), pointerSize.FindSubmatch(f.patch)
	if oid == nil || length == nil || len(oid[1]) != 64 {
		return -1, ""
	}
	size, err := strconv.ParseInt(string(length[1]), 10, 64)
	if err != nil {
		return -1, ""
	}
	return size, string(oid[1])
}

// odd counts the bytes of a text that text does not have.
func odd(text []byte) (n int) {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 || isControl(r) && r != '\f' && r != '\x1b' {
			n++
		}
		text = text[size:]
	}
	return n
}

// isControl reports whether a character controls what shows it. Those that turn the direction of writing are among
// them: with them, code reads differently from what it does. So are those that end a line for some programs only.
func isControl(r rune) bool {
	return r != '\n' && r != '\t' && r != '\r' && unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
}

// visible shows every byte of a text: control characters, and what is not UTF-8, as \x00 or \u202e. A CR at the end
// of a line stays.
func visible(text string) string {
	plain := func(r rune) bool { return r != utf8.RuneError && r != '\r' && !isControl(r) }
	if strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case plain(r), r == '\r' && strings.HasPrefix(text, "\r\n"), r == utf8.RuneError && size > 1:
			b.WriteString(text[:size])
		case size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		text = text[size:]
	}
	return b.String()
}

// visiblePath returns a path in one line.
func visiblePath(path string) string {
	if quoted := strconv.Quote(path); quoted != `"`+path+`"` {
		return quoted
	}
	return path
}

// split cuts a text into parts of at most size bytes, between lines where it can. A part that begins within a patch
// names its file.
func split(text string, size int) (parts []string) {
	note := ""
	for len(note)+len(text) > size {
		room := max(size-len(note), 1)
		cut := strings.LastIndexByte(text[:room], '\n') + 1
		if cut < room/2 {
			for cut = room; cut > 1 && !utf8.RuneStart(text[cut]); {
				cut--
			}
		}
		part := note + text[:cut]
		parts, text = append(parts, part), text[cut:]
		if i := strings.LastIndex("\n"+part, "\n"+string(header)); i >= 0 {
			name, _, _ := strings.Cut(part[i:], "\n")
			note = "=== continued: " + strings.ToValidUTF8(name[:min(len(name), size/4)], "") + "\n"
		}
		if strings.HasPrefix(text, string(header)) {
			note = ""
		}
	}
	return append(parts, note+text)
}
