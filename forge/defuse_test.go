package forge

import (
	"slices"
	"testing"
)

func TestDefuse(t *testing.T) {
	own := []Ref{{Repo: "ada/tea", Number: 8}}
	tests := []struct{ text, want string }{
		{"Sibling fixes #2 and ada/other#1", "Sibling fixes `#2` and ada/other#1"},
		{"fixes ada/other#1, closes: #3", "fixes `ada/other#1`, closes: `#3`"},
		{"Fixes #8", "Fixes #8"},
		{"closes ada/tea#8 and ADA/Tea#8", "closes ada/tea#8 and ADA/Tea#8"},
		{"FIXES #80", "FIXES `#80`"},
		{"**Fixes** #2, _resolves_: #3", "**Fixes** `#2`, _resolves_: `#3`"},
		{"fix !2, reopens #4", "fix `!2`, reopens `#4`"},
		{"closes\n#2", "closes\n`#2`"},
		{"fixes [#2](http://f/ada/tea/issues/2)", "fixes [`#2`](http://f/ada/tea/issues/2)"},
		{"resolved http://f/ada/tea/issues/2 now", "resolved `http://f/ada/tea/issues/2` now"},
		{"resolved http://f/ada/tea/issues/8 now", "resolved http://f/ada/tea/issues/8 now"},
		{"fixes: #2", "fixes: `#2`"},
		{"see #2, prefixes #2, fixes 2, fix the #2", "see #2, prefixes #2, fixes 2, fix the #2"},
		{"fixes `#2`", "fixes `#2`"},
		{"a\n```\nfixes #2\n```\nfixes #2\n", "a\n```\nfixes #2\n```\nfixes `#2`\n"},
		{"- ```\nfixes #2", "- ```\nfixes `#2`"}, // no fence for every reader
		{"    ```\nfixes #2", "    ```\nfixes `#2`"},
		{"", ""},
	}
	for _, tt := range tests {
		got := Defuse(tt.text, "ada/tea", own)
		if got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.text, got, tt.want)
		}
		if again := Defuse(got, "ada/tea", own); again != got {
			t.Errorf("%q: defused twice it is %q", got, again)
		}
		for _, ref := range Closes("", "", got, "ada/tea") {
			if ref != own[0] {
				t.Errorf("%q still closes %s", got, ref)
			}
		}
	}
	if got, want := DefuseMessage("x\n```\nfixes #2\n```", "ada/tea", own), "x\n```\nfixes `#2`\n```"; got != want {
		t.Errorf("a message: got %q, want %q", got, want)
	}
	got := Commands("The same approach\nfixes  #2 too. Fixes #8, closes ada/other#1.", "ada/tea", own)
	if want := []string{"fixes #2", "closes ada/other#1"}; !slices.Equal(got, want) {
		t.Errorf("got the commands %q, want %q", got, want)
	}
}
