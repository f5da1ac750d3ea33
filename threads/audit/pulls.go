package audit

import (
	"regexp"
	"slices"
	"strings"

	"codeberg.org/johba/disinto/forge"
)

// MostShown bounds the sessions in a pull request's comment with receipts, which shows the newest ones.
const MostShown = 50

// mostFaults bounds the faults of a report: who edits a comment decides how many rows it has.
const mostFaults = 100

// Session is an ended session with a receipt.
type Session struct {
	Run         string
	Item, Chain forge.Ref
	Pull        forge.Ref // the pull request whose comment was written at the session's end; zero: none
}

// Pulls is the comparison of receipts with the comments on pull requests.
type Pulls struct {
	Comments int     `json:"comments"`         // pull requests with a comment
	Matching int     `json:"matching"`         // rows with the hash of their session's receipt
	Others   int     `json:"others"`           // rows of other supervisors' sessions
	Faults   []Fault `json:"faults,omitempty"` // at most 100
}

// Fault is a row of a comment that is missing or wrong.
type Fault struct {
	Pull string `json:"pull"`
	Run  string `json:"run_id"`
	Why  string `json:"why"`
}

// longestRun bounds the name of a session in a comment, in bytes.
const longestRun = 64

var rowPattern = regexp.MustCompile("(?m)^\\| ([a-z0-9-]+) \\|.*\\| `([^`|]*)` \\|\r?$")

// ComparePulls compares the journal of a supervisor with the comments that show receipts, by pull request. read reports
// whether a repository's comments were read. Expected is what the supervisor wrote at the end of the last session on a
// pull request: all sessions until then on it and on its issue. Nothing is expected of a comment that the journal knows
// as not written yet.
func (j *Journal) ComparePulls(instance string, comments map[forge.Ref]string, read func(repo string) bool) Pulls {
	p := Pulls{Comments: len(comments)}
	pulls := make(map[forge.Ref]int)
	for i := range j.Sessions {
		if pull := j.Sessions[i].Pull; pull.Number > 0 && read(pull.Repo) {
			pulls[pull] = i
		}
	}
	for pull := range comments {
		if _, known := pulls[pull]; !known {
			pulls[pull] = -1
		}
	}
	for pull, last := range pulls {
		shown := p.rows(pull, comments[pull], instance+"-", j)
		if last >= 0 && !j.Owed[pull] {
			p.missing(pull, j.expected(pull, last), shown)
		}
	}
	slices.SortFunc(p.Faults, func(a, b Fault) int {
		return strings.Compare(a.Pull+" "+a.Run+" "+a.Why, b.Pull+" "+b.Run+" "+b.Why)
	})
	p.Faults = p.Faults[:min(len(p.Faults), mostFaults)]
	return p
}

// expected returns the sessions that the comment on a pull request must have; last is the newest that wrote it. A
// comment that was written later leaves out the oldest ones.
func (j *Journal) expected(pull forge.Ref, last int) (all []Session) {
	must := 0
	for i, s := range j.Sessions {
		if s.Item != pull && s.Chain != j.Sessions[last].Chain {
			continue
		}
		if all = append(all, s); i <= last {
			must = len(all)
		}
	}
	return all[min(must, max(0, len(all)-MostShown)):must]
}

// rows compares the rows of a pull request and returns the sessions in them. A journal that has forgotten sessions does
// not know the first rows. Other supervisors may share the account, and this one may have had another identity.
func (p *Pulls) rows(pull forge.Ref, body, ours string, j *Journal) map[string]bool {
	shown := make(map[string]bool)
	for _, m := range rowPattern.FindAllStringSubmatch(body, 2*MostShown) {
		if len(m[1]) > longestRun {
			continue
		}
		switch hash, known := j.Hashes[m[1]]; {
		case !known && !strings.HasPrefix(m[1], ours):
			p.Others++
		case !known && j.Forgot && len(shown) == 0:
			continue
		case !known:
			p.fault(pull, m[1], "the journal does not know this session")
		case hash != m[2]:
			p.fault(pull, m[1], "the comment has another hash than its receipt")
		default:
			p.Matching++
		}
		shown[m[1]] = true
	}
	return shown
}

func (p *Pulls) missing(pull forge.Ref, expected []Session, shown map[string]bool) {
	for _, s := range expected {
		if !shown[s.Run] {
			p.fault(pull, s.Run, "the comment does not have this session, or was deleted")
		}
	}
}

func (p *Pulls) fault(pull forge.Ref, run, why string) {
	p.Faults = append(p.Faults, Fault{pull.String(), run, why})
}

// Also keeps the faults that another comparison has too: a session may have ended between the reading of the journal
// and of the comments.
func (p *Pulls) Also(others []Fault) {
	p.Faults = slices.DeleteFunc(p.Faults, func(f Fault) bool { return !slices.Contains(others, f) })
}
