package screen

import (
	"encoding/xml"
	"fmt"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// Sizes in the picture, in pixels, from a terminal's font.
const (
	letterWidth, lineHeight = 8.43, 19
	margin                  = 16
)

// colours of the styles, readable on the picture's dark background.
var colours = map[style]string{
	faint: "#8b949e", bold: "#ffffff", good: "#7ee787", held: "#e3b341", wrong: "#ff7b72",
}

// TestPicture checks the README's picture of a terminal, with the status of a demo and disinto why of an issue.
func TestPicture(t *testing.T) {
	d := read[control.Document](t, "status/demo.json")
	v := View{Now: d.Forge.LastScan, Width: 100, Colour: true}
	ex := &threads.Explanation{
		Repo: "ada/teashop", Number: 9, Kind: "issue", Title: "Take the stock from the ledger", Code: threads.BlockerCycle,
		Verdict:  "waits: dependency cycle: ada/teashop#9 -> ada/teashop#10 -> ada/teashop#9",
		Mend:     "remove one dependency of the circle",
		Position: 8, Steps: []threads.Step{{Rule: "open", OK: true}},
	}
	text := prompt("disinto status") + v.Status(d) + "\n" + prompt("disinto why 9") + v.Why(ex)
	golden(t, "../../../docs/session.svg", picture(text))
}

func prompt(command string) string { return string(faint) + "$ " + resetStyle + command + "\n\n" }

// picture draws text with the escape sequences of styles as an SVG.
func picture(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	width := 0
	for _, line := range lines {
		width = max(width, Columns(unstyled(line)))
	}
	var b strings.Builder
	w, h := 2*margin+float64(width)*letterWidth, 2*margin+len(lines)*lineHeight
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" font-family="ui-monospace, monospace"`,
		w, h)
	fmt.Fprintf(&b, ` font-size="14" fill="#c9d1d9"><rect width="100%%" height="100%%" rx="8" fill="#0d1117"/>`+"\n")
	for i, line := range lines {
		fmt.Fprintf(&b, `<text x="%d" y="%d" xml:space="preserve">%s</text>`+"\n", margin,
			margin+(i+1)*lineHeight-5, spans(line))
	}
	return b.String() + "</svg>\n"
}

// spans returns the pieces of a line as SVG, in their colours.
func spans(line string) string {
	var b strings.Builder
	s := plain
	for line != "" {
		before, rest, found := strings.Cut(line, "\x1b[")
		if before != "" {
			b.WriteString(span(before, s))
		}
		if !found {
			break
		}
		code, after, _ := strings.Cut(rest, "m")
		if s = style("\x1b[" + code + "m"); s == resetStyle {
			s = plain
		}
		line = after
	}
	return b.String()
}

func span(text string, s style) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text))
	if s == plain {
		return b.String()
	}
	return fmt.Sprintf(`<tspan fill="%s">%s</tspan>`, colours[s], b.String())
}

// unstyled removes the escape sequences of styles from a line.
func unstyled(line string) string {
	for s := range colours {
		line = strings.ReplaceAll(line, string(s), "")
	}
	return strings.ReplaceAll(line, resetStyle, "")
}
