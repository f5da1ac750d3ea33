package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"codeberg.org/johba/disinto/threads"
)

// Kind is a kind of recurring issue: an [[issues]] table of a load file.
type Kind struct {
	PerDay   float64  `toml:"per_day"`        // on average, at random moments
	Together int      `toml:"together"`       // number filed at once; 0: one
	Minutes  float64  `toml:"minutes"`        // mean length of a writing session; 0: 8
	Sigma    float64  `toml:"sigma"`          // sigma of their lognormal distribution; 0: 0.8
	Sessions float64  `toml:"sessions"`       // mean number of writing sessions; 0: 2
	Review   float64  `toml:"review_minutes"` // length of each review; 0: 3
	Priority int      `toml:"priority"`       // 0: 5
	Skills   []string `toml:"skills"`
	Agent    string   `toml:"agent"` // agent that they are assigned to; empty: none
	Repo     string   `toml:"repo"`
}

// mostMistakes bounds the mistakes that are reported of a load file.
const mostMistakes = 20

// DecodeLoad reads a load file for a configuration, which must have the agents and repositories that the file names.
// It reports all mistakes at once.
func DecodeLoad(name, text string, cfg *threads.Config) ([]Kind, error) {
	var file struct {
		Issues []Kind `toml:"issues"`
	}
	md, err := toml.Decode(text, &file)
	if err != nil {
		var pe toml.ParseError
		if errors.As(err, &pe) {
			return nil, fmt.Errorf("%s:%d: %s", name, pe.Position.Line, pe.Message)
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var wrong []error
	told := make(map[string]bool)        // by the key
	for _, key := range md.Undecoded() { // it lists the keys of an unknown table, too
		if !told[key.String()] && !told[key[:len(key)-1].String()] {
			wrong = append(wrong, fmt.Errorf("%s: unknown key %s", name, key))
		}
		told[key.String()] = true
	}
	if len(file.Issues) == 0 {
		wrong = append(wrong, fmt.Errorf("%s: no work: add an [[issues]] table with per_day", name))
	}
	for i := range file.Issues {
		if why := file.Issues[i].check(cfg); why != "" {
			wrong = append(wrong, fmt.Errorf("%s: [[issues]] table %d: %s", name, i+1, why))
		}
	}
	if more := len(wrong) - mostMistakes; more > 0 {
		wrong = append(wrong[:mostMistakes], fmt.Errorf("%s: %d more mistakes", name, more))
	}
	return file.Issues, errors.Join(wrong...)
}

// check sets the defaults, and returns the first mistake or "".
func (k *Kind) check(cfg *threads.Config) string {
	k.Minutes, k.Sigma = cmp.Or(k.Minutes, 8), cmp.Or(k.Sigma, 0.8)
	k.Sessions, k.Review = cmp.Or(k.Sessions, 2), cmp.Or(k.Review, 3)
	k.Priority, k.Together = cmp.Or(k.Priority, 5), cmp.Or(k.Together, 1)
	const most = 24 * 60
	switch {
	case k.PerDay <= 0 || outside(k.PerDay, 0, 10_000):
		return fmt.Sprintf("per_day is %g, want more than 0 and at most 10000", k.PerDay)
	case outside(k.Minutes, 0, most), outside(k.Review, 0, most):
		return "minutes and review_minutes: want 0 to 1440"
	case outside(k.Sigma, 0, 3):
		return fmt.Sprintf("sigma is %g, want 0 to 3", k.Sigma)
	case outside(k.Sessions, 1, 20):
		return fmt.Sprintf("sessions is %g, want 1 to 20", k.Sessions)
	case k.Priority < 1 || k.Priority > 10:
		return fmt.Sprintf("priority is %d, want 1 to 10", k.Priority)
	case k.Together < 1 || k.Together > 1000:
		return fmt.Sprintf("together is %d, want 1 to 1000", k.Together)
	case k.Agent != "" && cfg.Agent(k.Agent) == nil:
		return fmt.Sprintf("agent: there is no %q in %s", k.Agent, cfg.Name)
	case k.Repo != "" && !slices.Contains(cfg.Forge.Repos, k.Repo):
		return fmt.Sprintf("repo: %q is not one of %s", k.Repo, strings.Join(cfg.Forge.Repos, ", "))
	}
	return ""
}

// outside is also true for NaN, which TOML can express.
func outside(x, lo, hi float64) bool { return !(x >= lo && x <= hi) }

// MostIssues is the approximate maximum number of issues in a load. Playing that many takes about a minute.
const MostIssues = 100_000

// Enough returns an error if these kinds file more than MostIssues in the given days.
func Enough(kinds []Kind, days float64) error {
	all := 0.
	for i := range kinds {
		all += kinds[i].PerDay * days
	}
	if all > MostIssues {
		return fmt.Errorf("it has about %.0f issues in %g days, want at most %d: lower per_day or --days",
			all, days, MostIssues)
	}
	return nil
}

// MakeKinds generates a load of some days. Equal seeds give equal loads.
func MakeKinds(kinds []Kind, days float64, seed uint64) Load {
	var load Load
	end := time.Duration(days * float64(24*time.Hour))
	for i := range kinds {
		k := &kinds[i]
		rng := rand.New(rand.NewPCG(seed, uint64(i)+10))
		perSecond := k.PerDay / float64(k.Together) / (24 * time.Hour).Seconds()
		for at := gap(rng, perSecond); at < end; at += gap(rng, perSecond) {
			for range k.Together {
				load = append(load, k.work(rng, at))
			}
		}
	}
	slices.SortStableFunc(load, func(a, b Work) int { return cmp.Compare(a.At, b.At) })
	return load
}

// work generates one issue. The lengths of its sessions are lognormal.
func (k *Kind) work(rng *rand.Rand, at time.Duration) Work {
	w := Work{
		At: at, Repo: k.Repo, Priority: k.Priority, Skills: k.Skills, Pin: k.Agent,
		Review: time.Duration(k.Review * float64(time.Minute)),
	}
	for range sessionsOf(rng, k.Sessions) {
		w.Sessions = append(w.Sessions, seconds(60*k.Minutes*math.Exp(k.Sigma*rng.NormFloat64()-k.Sigma*k.Sigma/2)))
	}
	return w
}

// gap returns the time to the next arrival.
func gap(rng *rand.Rand, perSecond float64) time.Duration {
	return seconds(rng.ExpFloat64() / perSecond)
}

// sessionsOf returns the number of an issue's writing sessions, 8 at most: geometric, with a mean.
func sessionsOf(rng *rand.Rand, mean float64) int {
	n := 1
	for mean > 1 && n < 8 && rng.Float64() < 1-1/mean {
		n++
	}
	return n
}
