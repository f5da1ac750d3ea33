package forge

import (
	"slices"
	"testing"
)

func TestCloses(t *testing.T) {
	tests := []struct {
		name, head, title, body string
		want                    []Ref
	}{
		{name: "branch", head: "fix/issue-12", want: numbered(12)},
		{name: "second try", head: "fix/issue-12-2", want: numbered(12)},
		{name: "other branches", head: "feature/issue-12"},
		{name: "longer branch", head: "fix/issue-12-parser"},
		{name: "prefix of a branch", head: "fix/issue-12x"},
		{name: "zero", head: "fix/issue-0"},
		{name: "too large", head: "fix/issue-99999999999999999999"},
		{
			name: "every keyword",
			body: "close #1 closes #2 closed #3 fix #4 fixes #5 fixed #6 resolve #7 resolves #8 resolved #9",
			want: numbered(1, 2, 3, 4, 5, 6, 7, 8, 9),
		},
		{name: "case and colon", body: "FIXES: #5", want: numbered(5)},
		{name: "title", title: "Mend the lexer (fixes #5)", want: numbered(5)},
		{name: "two digits are one number", title: "fixes #12", want: numbered(12)},
		{name: "title without a keyword", title: "Mend #5"},
		{name: "each keyword closes one", body: "Fixes #1, #2 and closes #3", want: numbered(1, 3)},
		{name: "other repository", body: "fixes johba/other#5", want: []Ref{{"johba/other", 5}}},
		{name: "address", body: "Closes http://localhost:3000/johba/harb/issues/5", want: numbered(5)},
		{name: "emphasis", body: "**Fixes** #1\n**Closes:** #2\n__resolves__: #3", want: numbered(1, 2, 3)},
		{name: "list", body: "- fixes #1\n- Fixes  #2", want: numbered(1, 2)},
		{name: "words between keyword and number", body: "fixes bug #5, fixes the #6"},
		{name: "other words", body: "prefixes #1, unfixed #2, closing #3, hotfix #4, fix-#5"},
		{name: "fence", body: "```\nfixes #5\n```"},
		{name: "comment", body: "<!-- fixes #5 -->"},
		{name: "keyword and number on two lines", body: "fixes\n#5"},
		{
			name: "union, sorted, once", head: "fix/issue-9", title: "fixes #9", body: "closes #3\ncloses #9",
			want: numbered(3, 9),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Closes(tt.head, tt.title, tt.body, in); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestIsDraft(t *testing.T) {
	tests := []struct {
		title string
		draft bool
		want  bool
	}{
		{"Mend the lexer", false, false},
		{"Mend the lexer", true, true},
		{"WIP: lexer", false, true},
		{"wip:lexer", false, true},
		{" [WIP] lexer", false, true},
		{"Draft: lexer", false, true},
		{"WIPE the lexer", false, false},
		{"Drafting: lexer", false, false},
		{"lexer WIP:", false, false},
		{"", false, false},
	}
	for _, tt := range tests {
		if got := IsDraft(tt.title, tt.draft); got != tt.want {
			t.Errorf("IsDraft(%q, %v) = %v, want %v", tt.title, tt.draft, got, tt.want)
		}
	}
}
