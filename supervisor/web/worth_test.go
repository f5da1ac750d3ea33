package web

import (
	"net/http"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/supervisor/control"
)

func off(mean, by float64) control.AdviceFigure {
	return control.AdviceFigure{Mean: mean, Low: mean - by, High: mean + by}
}

// advice has a slot worth 12 issues, and two lines without a difference: a hostile name, and the removal of an agent.
func advice() *control.Advice {
	line := func(what string, done, open control.AdviceFigure) control.AdvisedLine {
		o := control.AdviceOutcome{Done: done, Open: open, USD: off(3, 1)}
		return control.AdvisedLine{What: what, AdviceOutcome: o}
	}
	return &control.Advice{
		Days: 3, Plays: 8, Now: control.AdviceOutcome{Issues: off(40, 0), Done: off(26.5, 1)},
		More: []control.AdvisedLine{
			line("one more slot on llama", off(12, 2), off(-7200, 60)), line(hostile, off(1, 3), off(0, 9)),
		},
		Less: []control.AdvisedLine{
			line("one slot less on llama", off(0, 1), off(3600, 600)), line("without dev-b", off(0, 1), off(0, 9)),
		},
	}
}

// The page requests nothing until the form is submitted. Then it draws the worth of each addition and the range of
// its true value, all on one scale.
func TestWorth(t *testing.T) {
	v := newVisit(t)
	v.signIn()
	v.pretend(nil)
	v.api.set("/v1/advise", advice())
	if _, page := v.get("/whatif"); !strings.Contains(page, `name="worth" type="number" min="1" max="30" value="30"`) ||
		v.api.commands() != "" {
		t.Errorf("before the form was submitted: got commands %q and\n%s", v.api.commands(), page)
	}
	_, page := v.get("/whatif?worth=3")
	if sent := `/v1/advise {"days":3}`; v.api.commands() != sent {
		t.Errorf("sent %s, want %s", v.api.commands(), sent)
	}
	for _, want := range []string{
		"Worth most is one more slot on llama: 12.0 more issues done in 3 days (10.0 to 14.0).",
		"No difference that can be told from chance: without dev-b.", "12.0 ±2.0", "-2h00m ±1m00s", "$3.00 ±$1.00",
		`<rect class="yes" x="33.0" y="4" width="174.0"`, // 12 on a scale from -2 to 14
		`<rect class="no"`, `aria-label="no difference that can be told from chance"`, "26.5 of 40.0 issues done",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s:\n%s", want, page)
		}
	}
	if strings.Contains(page, "<img") || signed(off(0.4, 0.1), spell) != "-" {
		t.Errorf("a name became markup, or a difference that rounds to zero is shown:\n%s", page)
	}
	v.api.set("/v1/advise", &control.Advice{Days: 3, More: advice().More[1:]})
	if _, page = v.get("/whatif?worth=3"); !strings.Contains(page, "No addition would have made") {
		t.Errorf("without a difference: got\n%s", page)
	}
	v.api.set("/v1/advise", control.Conflict("nothing to play again"))
	for query, want := range map[string]string{"worth=x": "cannot read &#34;x&#34;", "worth=9": "nothing to play again"} {
		status, page := v.get("/whatif?" + query)
		if status != http.StatusOK || !strings.Contains(page, want) || !strings.Contains(page, "<fieldset>") {
			t.Errorf("%s: got %d, want %s:\n%s", query, status, want, page)
		}
	}
}

// Impossible figures stay within the picture.
func TestPicture(t *testing.T) {
	for _, f := range []control.AdviceFigure{{}, off(1e300, 1e299), off(-1e300, 0)} {
		r := picture(f, min(0, f.Low), max(0, f.High), 1)
		for _, x := range []float64{r.Zero, r.Low, r.High, r.Bar, r.Bar + r.Width} {
			if !(x >= 0 && x <= rangeWidth) {
				t.Errorf("picture of %+v: got %+v", f, r)
			}
		}
	}
}
