package file

import (
	"cmp"
	"slices"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// leastWindow is far above the step in which usage is counted.
const leastWindow = time.Hour

// windows reads the limits of a subscription, and the share of each that is kept from new issues.
func (t *table) windows() (list []threads.Window, reserve float64) {
	for _, w := range t.elements("windows") {
		got := threads.Window{Length: w.duration("length", 0, leastWindow), Budget: w.amounts("tokens", "usd")}
		switch {
		case !w.has("length"):
			w.wrong("length", `is not set, want one such as "5h" or "7d"`)
		case got.Length > threads.MaxWindow:
			w.wrong("length", "is %q, want at most 7d", w.values["length"])
		case got.Length > 0 && slices.ContainsFunc(list, func(o threads.Window) bool { return o.Length == got.Length }):
			w.wrong("length", "is %q, as in an earlier window: want one window of each length", w.values["length"])
		}
		if got.Tokens == 0 && got.USD == 0 && !w.has("tokens") && !w.has("usd") {
			w.wrong("tokens", "is not set, and usd is not either: want one of them, or both")
		}
		w.done()
		list = append(list, got)
	}
	slices.SortFunc(list, func(a, b threads.Window) int { return cmp.Compare(a.Length, b.Length) })
	for i := 1; i < len(list); i++ {
		shorter, longer := list[i-1], list[i]
		if shorter.Tokens > longer.Tokens && longer.Tokens > 0 || shorter.USD > longer.USD && longer.USD > 0 {
			t.wrong("windows", "has more in %s than in %s: want less in the shorter one", shorter.Name(), longer.Name())
		}
	}
	return list, t.reserve(len(list) > 0)
}

// reserve reads the share of the windows that is kept from new issues.
func (t *table) reserve(windows bool) float64 {
	reserve := t.share("reserve")
	if reserve > 0 && !windows {
		t.wrong("reserve", "is set, and the thread has no windows: it is a share of each of them")
	}
	return reserve
}
