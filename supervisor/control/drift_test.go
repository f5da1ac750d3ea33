package control

import "testing"

// TestDriftLine covers models that fit and models that do not.
func TestDriftLine(t *testing.T) {
	calm := DriftDay{
		Day: "2026-11-22", Issues: 20, Half: DriftWait{Low: 20, Middle: 30, High: 60, Real: 45},
		Most: DriftWait{Low: 600, Middle: 900, High: 1200, Real: 1000},
	}
	long, most := calm, calm
	long.Misses, long.Half.Real = 1, 4000
	most.Misses, most.Most.Real = 1, 9000
	changed := func(c DriftChange) Drift { return Drift{Changes: []DriftChange{c}} }
	const no = "the model of the factory no longer fits: "
	for want, d := range map[string]Drift{
		"no day can be judged yet": {Fits: true},
		"the model of the factory fits: on 2026-11-22 half of the issues waited up to 45 s, and 20 s to 60 s were " +
			"expected": {Fits: true, Days: []DriftDay{calm, long}},
		no + "on 2026-11-22 half of the issues waited up to 1h07m, and 20 s to 60 s were " +
			"expected": {Misses: 1, Days: []DriftDay{calm, long}},
		no + "on 2026-11-22 95 % of the issues waited up to 2h30m, and 10 min to 20 min were expected; checks take 6 " +
			"min instead of 60 s (9 times in 3 days)": {
			Misses: 1, Days: []DriftDay{most, long},
			Changes: []DriftChange{{Kind: "checks", What: "checks", Was: 60, Is: 360, Times: 9}},
		},
		no + "dev-qwen takes 41 min for issue sessions instead of 20 min (12 times in 3 days)": changed(
			DriftChange{Kind: "agent", What: "issue, dev-qwen", Was: 1200, Is: 2460, Times: 12}),
		no + "the forge answers late: the forge merges 64 s after an approval instead of 3 s (12 times in 3 days)": changed(
			DriftChange{Kind: "forge", What: "merge", Was: 3, Is: 64, Times: 12}),
		no + "the forge answers late: the next session starts 30 s after the last instead of 2 s (12 times " +
			"in 3 days)": changed(
			DriftChange{Kind: "forge", What: "handover", Was: 2, Is: 30, Times: 12}),
		no + "a new issue waits 2 s beside a free agent instead of 30 s (1 time in 3 days)": changed(
			DriftChange{Kind: "forge", What: "notice", Was: 30, Is: 2, Times: 1}),
		no + "people take 5h00m instead of 1h00m (7 times in 3 days)": changed(
			DriftChange{Kind: "people", What: "people", Was: 3590, Is: 18000, Times: 7}),
		no + "30 % of the sessions fail instead of 5 % (60 sessions in 3 days)": changed(
			DriftChange{Kind: "failures", What: "failures", Was: 0.05, Is: 0.3, Times: 60}),
		no + "20 % of the sessions meet no backend or a usage limit, instead of 0 % (60 sessions in 3 days)": changed(
			DriftChange{Kind: "outages", What: "outages", Was: 0, Is: 0.2, Times: 60}),
	} {
		if got := d.Line(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
