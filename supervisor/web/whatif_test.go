package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// pretend configures a local and an API thread, and sets the answer to simulations.
func (v *visit) pretend(d *control.Simulation) {
	cfg := &threads.Config{
		Factory: threads.Factory{ListenToken: token},
		Threads: []threads.Thread{
			{Name: "api", Overlap: true, Slots: 1, MaxSessions: 3, Agents: []string{hostile}},
			{Name: "llama", Slots: 1, MaxSessions: 1, Hold: 4 * 60e9, Agents: []string{"dev-a", "dev-b"}},
		},
		Agents: []agents.Agent{{Name: hostile}, {Name: "dev-a", Roles: []string{"dev"}}, {Name: "dev-b"}},
	}
	v.site.Config = func() *threads.Config { return cfg }
	v.api.set("/v1/simulate", d)
}

func simulated() *control.Simulation {
	return &control.Simulation{
		Days: 7, Sessions: 12, Changes: []string{"llama: 2 slots in place of 1", hostile},
		Happened: control.Played{Issues: 8, Done: 8, MeanTurn: 4.5 * 3600, MeanWait: 3.5 * 3600, Busy: 0.5},
		Now:      control.Played{Issues: 8, Done: 8, MeanTurn: 4.6 * 3600, MeanWait: 3.6 * 3600, Busy: 0.5, Idle: 60},
		Changed:  &control.Played{Issues: 8, Done: 7, MeanTurn: 2 * 3600, MeanWait: 3600, Busy: 0.4, Idle: 4 * 24 * 3600},
	}
}

// The form shows the current factory, simulates nothing until it is submitted, and keeps the values submitted.
func TestWhatIf(t *testing.T) {
	v := newVisit(t)
	v.signIn()
	v.pretend(simulated())
	status, page := v.get("/whatif")
	for _, want := range []string{
		`name="slots.api" type="number" min="1" max="64" value="3"`, `name="hold.llama" value="4m0s"`,
		`value="dev-a" checked`, `name="days" type="number" min="1" max="30" value="7"`,
	} {
		if status != http.StatusOK || !strings.Contains(page, want) {
			t.Errorf("got %d, want 200 with %s:\n%s", status, want, page)
		}
	}
	if strings.Contains(page, "hold.api") || v.api.commands() != "" || strings.Contains(page, "<img") {
		t.Errorf("got commands %q and the form\n%s", v.api.commands(), page)
	}
	query := url.Values{
		"asked": {"1"}, "days": {"3"}, "slots.llama": {"2"}, "slots.api": {"3"}, "hold.llama": {"0s"},
		"with":       {"dev-a", hostile},
		"slots.none": {"9"},
	}
	_, page = v.get("/whatif?" + query.Encode())
	sent := `/v1/simulate {"days":3,"slots":{"api":3,"llama":2},"hold":{"llama":"0s"},"without":["dev-b"]}`
	if v.api.commands() != sent {
		t.Errorf("sent %s\nwant %s", v.api.commands(), sent)
	}
	for _, want := range []string{
		`name="slots.llama" type="number" min="1" max="64" value="2"`, `value="dev-b">`, `value="dev-a" checked`,
		"With these changes (llama: 2 slots in place of 1, &lt;/td",
		"take 2h00m on average instead of 4h36m, and wait 1h00m",
		"1 issue would still be open after 7 days", "comes close to what happened",
		`2h00m <small class="yes">2h36m less</small>`, `4d0h <small class="no">3d23h more</small>`,
		`40 %</td>`, `7 <small class="no">1 less</small>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s:\n%s", want, page)
		}
	}
	if strings.Contains(page, "<img") {
		t.Errorf("a name became markup:\n%s", page)
	}
	if status, _ := v.get("/live/whatif?asked=1"); status != http.StatusNotFound {
		t.Errorf("/live/whatif: got status %d, want 404", status)
	}
}

// A refusal is shown beside the form, which stays.
func TestWhatIfRefused(t *testing.T) {
	v := newVisit(t)
	v.signIn()
	v.pretend(nil)
	for query, want := range map[string]string{
		"asked=1&days=x":                           "cannot read &#34;x&#34; as a number of days",
		"asked=1&slots.llama=%3Cimg":               "cannot read &#34;&lt;img&#34; as a number of slots of llama",
		"asked=1&slots.llama=99999999999999999999": "as a number of slots",
		"asked=1&days=6":                           "nothing to simulate",
	} {
		v.api.set("/v1/simulate", control.Conflict("nothing to simulate"))
		status, page := v.get("/whatif?" + query)
		if status != http.StatusOK || !strings.Contains(page, want) || !strings.Contains(page, "<fieldset>") ||
			strings.Contains(page, "<img") {
			t.Errorf("%s: got %d, want %s:\n%s", query, status, want, page)
		}
	}
	v.site.Config = func() *threads.Config { return nil }
	if b, err := v.site.whatIf(t.Context(), nil); err == nil {
		t.Errorf("without a configuration: got %+v, want an error", b)
	}
}

// The sentences say how far the simulation can be trusted.
func TestSays(t *testing.T) {
	for _, tt := range []struct {
		name           string
		happened, now  float64 // the mean turnaround; 0: nothing was done
		want, unwanted string
	}{
		{"the same", 3600, 3600, "comes close", "would"},
		{"nearly", 3600, 3000, "comes close", "direction"},
		{"far", 3600, 600, "10m00s for an issue, is far from what happened, 1h00m", "comes close"},
		{"nothing done", 0, 600, "cannot be compared", "close"},
	} {
		d := &control.Simulation{
			Days: 7, Happened: control.Played{MeanTurn: tt.happened},
			Now: control.Played{Done: 1, MeanTurn: tt.now},
		}
		if tt.happened > 0 {
			d.Happened.Done = 1
		}
		text := ""
		for _, r := range says(d).Rows {
			text += string(r.HTML)
		}
		if !strings.Contains(text, tt.want) || strings.Contains(text, tt.unwanted) {
			t.Errorf("%s: got %s", tt.name, text)
		}
	}
}

// spell writes a duration in the units that a person would use, even for impossible values.
func TestSpell(t *testing.T) {
	for in, want := range map[float64]string{
		0: "0s", -5: "0s", 41.7: "41s", 3600: "1h00m", 47 * 3600: "1d23h", 3.44 * 24 * 3600: "3d10h", 1e300: "11574d1h",
	} {
		if got := spell(in); got != want {
			t.Errorf("spell(%g) = %s, want %s", in, got, want)
		}
	}
}
