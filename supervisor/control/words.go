package control

import (
	"fmt"
	"strings"
	"time"

	"codeberg.org/johba/disinto/agents"
)

// Age formats a duration in its two largest units: 41s, 3m12s, 2h05m, 3d4h. A terminal and a page show the same.
func Age(d time.Duration) string {
	d = max(d, 0).Truncate(time.Second)
	days, hours := int(d.Hours())/24, int(d.Hours())%24
	minutes, seconds := int(d.Minutes())%60, int(d.Seconds())%60
	switch {
	case days > 0:
		return fmt.Sprintf("%dd%dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh%02dm", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%dm%02ds", minutes, seconds)
	}
	return fmt.Sprintf("%ds", seconds)
}

// Count returns "1 request" or "2 requests".
func Count[N int | int64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Tokens formats a number of tokens: 950, 12k, 3.4M.
func Tokens(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprint(n)
	case n < 1_000_000:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprintf("%d.%dM", n/1_000_000, n/100_000%10)
}

// Hit formats a cache hit rate, such as 87 %; "-" if it is unknown, unlike 0 %.
func Hit(share *float64) string {
	if share == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100**share)
}

// HitOf returns Hit for one usage, and "-" for nil.
func HitOf(u *agents.Usage) string {
	if u == nil {
		return Hit(nil)
	}
	if share, known := u.Hit(); known {
		return Hit(&share)
	}
	return Hit(nil)
}

// CostOf writes the cost of a usage: "$0.12", "~$0.12" if it is estimated, and "-" if it is unknown.
func CostOf(u *agents.Usage) string {
	switch {
	case u == nil || u.CostUSD == 0:
		return "-"
	case u.Estimated:
		return fmt.Sprintf("~$%.2f", u.CostUSD)
	}
	return fmt.Sprintf("$%.2f", u.CostUSD)
}

// ItemPage returns the page of an issue or pull request on the forge, which redirects from one to the other. It is
// empty if the forge's address is unknown.
func ItemPage(forgeURL, repo string, number int64) string {
	if forgeURL == "" {
		return ""
	}
	return fmt.Sprintf("%s/%s/issues/%d", strings.TrimSuffix(forgeURL, "/"), repo, number)
}
