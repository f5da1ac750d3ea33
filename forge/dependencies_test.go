package forge

import (
	"slices"
	"strings"
	"testing"
)

// in is the repository of the issues that the tests read. The texts are those of its issue 42.
const in = "johba/harb"

func numbered(numbers ...int64) []Ref {
	var refs []Ref
	for _, n := range numbers {
		refs = append(refs, Ref{in, n})
	}
	return refs
}

func TestDependencies(t *testing.T) {
	other := Ref{"johba/other", 5}
	tests := []struct {
		name, body string
		want       []Ref
	}{
		// The texts on which we measured the grammar of upstream's bash scheduler, with the results that we want. Its
		// production image ignored letter case only because of the awk that it happened to contain, so its users wrote
		// every one of these forms.
		{"section", "## Dependencies\n- #5", numbered(5)},
		{"section in lower case", "## dependencies\n- #5", numbered(5)},
		{"sentence", "Depends on #5", numbered(5)},
		{"emphasis", "**Depends on:** #5", numbered(5)},
		{"upper case and a list", "BLOCKED BY #5, #6", numbered(5, 6)},
		{"and", "depends on #5 and #6", numbered(5, 6)},
		{"number in the heading", "## Depends on #11\n#12", numbered(11, 12)},
		{"third level", "### Dependencies\n- #5", numbered(5)},
		{"hyphen and colon", "Depends-on: #5", numbered(5)},
		{"other verbs", "requires #5, after #6, needs #7", nil},
		{"negated", "not blocked by #5", nil},
		{"unblocked", "Unblocked by #5; it still depends on #3", numbered(3)},
		{"fence in a section", "## Dependencies\n```\n#5\n```", nil},
		{"fence", "```\ndepends on #5\n```", nil},
		{"indented fence", "  ```\n  depends on #5\n  ```", nil},
		{"tilde fence", "~~~\ndepends on #5\n~~~", nil},
		{"comment", "<!-- depends on #5 -->", nil},
		{"struck out", "~~Depends on #5~~, depends on #6", numbered(6)},
		{"struck out in a section", "## Dependencies\n- ~~#5~~ done\n- #6", numbered(6)},
		{"the phrase as code", "Write `depends on #5`, as in `Blocked by #6`", nil},
		{"a reference as code", "Depends on `#5` and #6", numbered(5, 6)},
		{"other repository", "## Dependencies\njohba/other#5", []Ref{other}},
		{"colour", "## Dependencies\ncolor #123456", numbered(123456)},
		{"checked box", "## Dependencies\n- [x] #5\n- [ ] #6", numbered(6)},
		{"address", "## Dependencies\nhttp://forgejo:3000/johba/harb/issues/12", numbered(12)},
		{"another section", "## Related\n#5", nil},
		{"CRLF", "## Dependencies\r\n- #5\r\n\r\n## Notes\r\n#6\r\n", numbered(5)},
		{"leading zeros", "depends on #007", numbered(7)},
		{"itself", "depends on #42", numbered(42)},

		// Sections.
		{"blocked by", "# Blocked by\n* #5\n1. #6", numbered(5, 6)},
		{"no space after the marks", "##Dependencies\n#5", numbered(5)},
		{"indented", "   ## Dependencies\n#5", numbered(5)},
		{"indented as code", "    ## Dependencies\n#5", nil},
		{"closing marks and a colon", "## Dependencies: ##\n#5", numbered(5)},
		{"decorated heading", "## 🔗 **Dependencies**\n#5", numbered(5)},
		{"numbered heading", "## 3. Dependencies\n#5", numbered(5)},
		{"fourth level is no section", "#### Dependencies\nsee #5", nil},
		{"another word", "## Dependenciesless\n#5", nil},
		{"not at the beginning", "## Our Dependencies\n#5", nil},
		{"ends at its own level", "## Dependencies\n#5\n## Notes\n#6", numbered(5)},
		{"ends at a higher level", "### Dependencies\n#5\n## Notes\n#6", numbered(5)},
		{"third ends at third", "### Dependencies\n#5\n### Notes\n#6", numbered(5)},
		{"subsections belong to it", "## Dependencies\n### Hard\n#5\n### Soft\n#6\n#### Fine\n#7", numbered(5, 6, 7)},
		{"first ends at second", "# Dependencies\n#5\n## Notes\n#6", numbered(5)},
		{"#6 begins no heading", "## Dependencies\n#5\n#6 and text", numbered(5, 6)},
		{"an empty heading ends it", "## Dependencies\n#5\n##\n#6", numbered(5)},
		{"two sections", "## Depends on\n#6\n## Notes\n#9\n## Blocked by\n#5", numbered(5, 6)},
		{"words between references", "## Dependencies\n- the parser (#5)\n- see `#6`", numbered(5, 6)},
		{"checked in capitals", "## Dependencies\n  * [X] #5\n1. [x] #6\n- [ ] #7", numbered(7)},
		{"a link named x is no checked box", "## Dependencies\n- [x](http://h/johba/harb/issues/5)", numbered(5)},

		// Phrases.
		{"colon", "blocked by: #5", numbered(5)},
		{"hyphen", "Blocked-by #5", numbered(5)},
		{"kinds", "depends on issue #5, PR #6 and pull request #7", numbered(5, 6, 7)},
		{"sentence ends the row", "Depends on #5. See #6.", numbered(5)},
		{"words end the row", "depends on #5 because of #6", numbered(5)},
		{"a word before the reference", "depends on what #5 decides", nil},
		{"remarks", "depends on #5 (the parser), #6 (see #9) & #7", numbered(5, 6, 7)},
		{"in parentheses", "Mend it (depends on #5).", numbered(5)},
		{"link", "depends on [the parser](https://git.example.org/johba/harb/issues/5)", numbered(5)},
		{"link with a number", "depends on [#5](http://localhost:3000/johba/harb/issues/5) and #6", numbered(5, 6)},
		{"table", "| **Depends on** | #5, #6 |", numbered(5, 6)},
		{"quoted", "> depends on #5", numbered(5)},
		{"in a heading", "## Lexer, depends on #5\n#6", numbered(5)},
		{"twice on a line", "depends on #6, and is blocked by #5", numbered(5, 6)},
		{"once each, sorted", "depends on #9, #5, #5 and johba/other#5\nblocked by #9", append(numbered(5, 9), other)},
		{"checked", "- [x] depends on #5\n- [ ] depends on #6", numbered(6)},
		{"not, emphasised", "**not** blocked by #5", nil},
		{"isn't", "isn't blocked by #5, isn’t blocked by #6", nil},
		{"no longer", "no longer blocked by #5", nil},
		{"un-blocked", "un-blocked by #5", nil},
		{"not belongs to another phrase", "not now, depends on #5", numbered(5)},
		{"list below", "**Depends on:**\n\n- #5\n- the lexer, #6\n\nSee #9", numbered(5, 6)},
		{"list below, one checked", "Depends on:\n- [x] #5\n- [ ] #6", numbered(6)},
		{"nothing below", "Depends on:\nnothing, but see #5\n- #6", nil},
		{"list after a complete phrase", "Depends on #5\n- #6", numbered(5)},
		{"wrapped", "This depends on #5,\n#6 and #7.\n#8", numbered(5, 6, 7)},
		{"wrapped after the phrase", "This is blocked by\n#5.", numbered(5)},
		{"an empty line ends the row", "depends on #5,\n\n#6", numbered(5)},
		{"a horizontal rule ends the row", "depends on #5\n---\n- #6", numbered(5)},

		// Fences, comments.
		{"fence in a list", "- ```sh\n  depends on #5\n  ```\n- depends on #6", numbered(6)},
		{"fence in a quote", "> ```\n> depends on #5\n> ```\ndepends on #6", numbered(6)},
		{"a shorter run does not close the fence", "````\n```\ndepends on #5\n````\ndepends on #6", numbered(6)},
		{"a run of the other character does not close the fence", "```\n~~~\ndepends on #5\n```\ndepends on #6", numbered(6)},
		{"a run followed by words does not close the fence", "```\n``` sh\ndepends on #5\n```\ndepends on #6", numbered(6)},
		{"never closed", "```\ndepends on #5", nil},
		{"code span on one line", "``` depends on #5 ```", numbered(5)},
		{"fence hides a heading", "```\n## Dependencies\n```\n#5", nil},
		{"comment over several lines", "## Dependencies\n<!-- such as\n- #5\n--> #6", numbered(6)},
		{"comment in a line", "depends <!-- as it -->on <!-- #4 --> #5", numbered(5)},
		{"two comments", "<!-- a --><!-- #4 -->depends on #5", numbered(5)},
		{"comment never closed", "<!-- todo\ndepends on #5", numbered(5)},
		{"comment closed before it opens", "--> <!-- depends on #5", numbered(5)},
		{"comment in code", "write `<!--` first\ndepends on #5\nand `-->` last", numbered(5)},
		{"comment in a fence", "```\n<!--\n```\ndepends on #5 -->", numbered(5)},
		{"fence in a comment", "<!--\n```\n-->\ndepends on #5", numbered(5)},

		// References.
		{"zero", "depends on #0", nil},
		{"too large", "depends on #99999999999999999999 and #5", nil},
		{"hexadecimal", "## Dependencies\n#12ab, #5_, C#5, &#39;", nil},
		{"case of the repository", "depends on Johba/HARB#5", numbered(5)},
		{"case of another", "depends on Johba/Other#5", []Ref{{"Johba/Other", 5}}},
		{"longer path", "## Dependencies\nsrc/johba/other#5", nil},
		{"dots", "## Dependencies\n../harb#5 ./..#6", nil},
		{"address of a pull request", "depends on https://git.example.org/johba/other/pulls/5.", []Ref{other}},
		{"address with a comment", "depends on http://h/johba/other/issues/5#issuecomment-77", []Ref{other}},
		{"forge under a path", "depends on http://h/git/johba/other/issues/5/", []Ref{other}},
		{"address of something else", "## Dependencies\nhttp://h/johba/other/src/branch/main/x.go#5 http://h/issues/6", nil},
		{"address with letters", "depends on http://h/johba/other/issues/5a", nil},
		{"in angle brackets", "blocked by <http://h/johba/other/issues/5>", []Ref{other}},

		{"empty", "", nil},
		{"phrase at the end", "depends on", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Dependencies(tt.body, Ref{in, 42})
			if !slices.Equal(got, tt.want) {
				t.Errorf("Dependencies(%q)\n got %v\nwant %v", tt.body, got, tt.want)
			}
		})
	}
}

// FuzzDependencies checks what callers rely on: the references are sorted, unique and usable in a path, and line ends
// make no difference.
func FuzzDependencies(f *testing.F) {
	for _, body := range []string{
		"## Dependencies\n- [x] #5\n- johba/other#6\n### More\nhttp://h/a/b/issues/7",
		"Depends on:\n- #5 (the parser)\n\n```\nblocked by #6\n```\n<!-- #7 -->",
		"not blocked by #5, depends on [#6](x) and\n#7",
		"> ~~~\n> `<!--`\n-->",
		"##\xffDependencies\r\n#5",
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		refs := Dependencies(body, Ref{in, 42})
		if !slices.IsSortedFunc(refs, Ref.Compare) || len(slices.Compact(slices.Clone(refs))) != len(refs) {
			t.Errorf("Dependencies(%q) = %v, want them sorted and unique", body, refs)
		}
		for _, r := range refs {
			if !ValidRepo(r.Repo) || r.Number <= 0 {
				t.Errorf("Dependencies(%q) contains %v, which cannot name an issue", body, r)
			}
		}
		if again := Dependencies("\n"+strings.ReplaceAll(body, "\n", "\r\n")+"\r\n", Ref{in, 42}); !slices.Equal(refs,
			again) {
			t.Errorf("Dependencies(%q) = %v, but %v with CRLF line ends", body, refs, again)
		}
	})
}

// BenchmarkDependencies reads hostile texts of 64 kB: the time must grow linearly with the text, not quadratically.
func BenchmarkDependencies(b *testing.B) {
	for _, hostile := range []string{"depends on #1 ", "depends on (", "((#1", "[](", "<!--", "- [ ] #1\n"} {
		body := strings.Repeat(hostile, 65536/len(hostile))
		b.Run(hostile, func(b *testing.B) {
			for b.Loop() {
				Dependencies(body, Ref{in, 42})
			}
		})
	}
}
