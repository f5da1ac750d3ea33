package forge

import (
	"slices"
	"strings"
	"testing"
)

func TestCommandIn(t *testing.T) {
	verb := func(words ...string) *Command { return &Command{Verb: words[0], Args: words[1:]} }
	said := func(text string) *Command { return &Command{Verb: "tell", Text: text} }
	tests := []struct {
		name, text string
		want       *Command
	}{
		{"alone", "/disinto retry", verb("retry")},
		{"with an argument", "/disinto assign dev-kimi", verb("assign", "dev-kimi")},
		{"without a verb", "/disinto", verb("")},
		{"spaces and tabs", "  /disinto \t assign\tdev-kimi  \r\n", verb("assign", "dev-kimi")},
		{"capitals, as phones write them", "/Disinto Retry", verb("retry")},
		{"below other text", "Thanks, that was the network.\n\n/disinto retry\n\nPlease.", verb("retry")},
		{"directly below other text", "Once more:\n/disinto retry", verb("retry")},
		{"two commands", "/disinto retry\n/disinto cancel", &Command{Verb: "retry", More: true}},
		{"with a text", "Well.\n\n/disinto Tell use `tabs`,  not\n\n\tspaces  \n", said("use `tabs`,  not\n\n\tspaces")},
		{
			"with a text below", "/disinto tell\n```\n/disinto cancel\n<!-- x -->\n```",
			said("```\n/disinto cancel\n<!-- x -->\n```"),
		},
		{
			"with a text, then a command", "/disinto tell tabs\n/disinto cancel",
			&Command{Verb: "tell", More: true, Text: "tabs"},
		},
		{"without its text", "/disinto tell", said("")},
		{"text", "Please retry.", nil},
		{"empty", "", nil},
		{"all in capitals", "/DISINTO cancel", nil},
		{"other capitals", "/dISINTO cancel", nil},
		{"in the middle of a line", "Say /disinto cancel to end it.", nil},
		{"a longer word", "/disintos cancel", nil},
		{"a path", "/disinto/cancel", nil},
		{"a no-break space after the name", "/disinto\u00a0cancel", nil},
		{"code span", "`/disinto cancel`", nil},
		{"fence", "```\n/disinto cancel\n```", nil},
		{"fence of tildes", "~~~ text\n/disinto cancel\n~~~", nil},
		{"fence without an end", "```\n/disinto cancel", nil},
		{"fence in a quotation", "> ```\n/disinto cancel", nil},
		{"indented code", "    /disinto cancel", nil},
		{"code indented by a tab", "\t/disinto cancel", nil},
		{"quotation", "> /disinto cancel", nil},
		{"quotation in a quotation", "> > /disinto cancel", nil},
		{"second line of a quotation, without >", "> Once more:\n/disinto cancel", nil},
		{"third line of a quotation, without >", "> Once more:\nplease,\n/disinto cancel", nil},
		{"below a quotation", "> What now?\n\n/disinto cancel", verb("cancel")},
		{"list item", "- /disinto cancel", nil},
		{"HTML comment", "<!-- \n/disinto cancel\n-->", nil},
		{"quoted command, then a real one", "> /disinto cancel\n\n/disinto why", verb("why")},
		{"fenced command, then a real one", "```\n/disinto cancel\n```\n/disinto why", verb("why")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := CommandIn(tt.text)
			if ok != (tt.want != nil) {
				t.Fatalf("CommandIn(%q) = %+v, %v; want %+v", tt.text, got, ok, tt.want)
			}
			if !ok {
				return
			}
			if !got.Equal(*tt.want) {
				t.Errorf("CommandIn(%q) = %+v, want %+v", tt.text, got, *tt.want)
			}
		})
	}
}

func TestCommandIsBounded(t *testing.T) {
	c, ok := CommandIn("/disinto assign " + strings.Repeat("x ", 100_000))
	if !ok || len(c.Args) != maxCommandWords-1 {
		t.Errorf("CommandIn returned %d arguments, ok %v; want %d, true", len(c.Args), ok, maxCommandWords-1)
	}

	c, _ = CommandIn("/disinto tell " + strings.Repeat("é", MaxText))
	if len(c.Text) > MaxText+4 || len(c.Text) <= MaxText {
		t.Errorf("CommandIn returned a text of %d bytes", len(c.Text))
	}
}

// Every command stands on a line of the text that begins with /disinto, whatever else the text contains.
func FuzzCommandIn(f *testing.F) {
	for _, seed := range []string{
		"/disinto retry", "> x\n/disinto why", "```\n/disinto\n```\n/disinto why",
		"<!--\n/disinto\n-->",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := CommandIn(text)
		if !ok && (c.Verb != "" || c.Args != nil || c.More) {
			t.Fatalf("CommandIn(%q) reports no command, but returned %+v", text, c)
		}
		if ok && !slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
			words := strings.Fields(strings.ToLower(line))
			return len(words) > 0 && strings.Contains(words[0], "/disinto")
		}) {
			t.Fatalf("CommandIn(%q) = %+v, but no line begins with /disinto", text, c)
		}
		if quoted, yes := CommandIn("> " + strings.ReplaceAll(text, "\n", "\n> ")); yes {
			t.Fatalf("CommandIn found %+v inside a quotation of %q", quoted, text)
		}
	})
}
