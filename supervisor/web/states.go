package web

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/forge"
)

// trouble is a page that could not be shown, or a command that may not be used: what it is, and ways on.
type trouble struct {
	Pill  pill
	Words string
	Hint  string
	Forge string // its address; empty if it is unknown
}

// troubles has the title and the hint for the status of a refusal.
var troubles = map[int]struct{ title, hint string }{
	http.StatusNotFound: {
		"Not found",
		"It may be in a repository that the factory does not read, or be older than what it remembers.",
	},
	http.StatusForbidden: {
		"Not allowed", "An owner of the repositories can grant the right on Forgejo. Then sign out and in again.",
	},
	http.StatusServiceUnavailable: {
		"No answer", "Sessions may still run. See the supervisor's log on its host, then load the page again.",
	},
}

// refusalBoard returns the page for an error.
func (s *Site) refusalBoard(status int, err error) *board {
	known, is := troubles[status]
	if !is {
		known.title = "Not understood"
	}
	t := trouble{pill{"warn", strconv.Itoa(status)}, err.Error(), known.hint, s.forgeURL()}
	if repos := s.repos(); status == http.StatusNotFound && len(repos) > 0 {
		t.Hint += " It reads " + strings.Join(repos, ", ") + "."
	}
	return &board{Title: known.title, Sections: []section{{
		ID: "trouble", Class: "panel", Rows: []row{render("trouble", "trouble", t)},
	}}}
}

// refuse answers with a page that says what went wrong.
func (s *Site) refuse(w http.ResponseWriter, r *http.Request, v *visitor, err error) {
	status := statusOf(err)
	s.sendBoard(w, r, status, v, page{path: r.URL.Path}, s.refusalBoard(status, err))
}

// number matches what people type for an issue: 17, #17 or owner/name#17.
var number = regexp.MustCompile(`^([\w.-]+/[\w.-]+)?#?\d{1,15}$`)

// find leads to the issue with a number, or lists the open ones with a text in their titles.
func (s *Site) find(w http.ResponseWriter, r *http.Request, _ *visitor) {
	said := strings.TrimSpace(r.URL.Query().Get("q"))
	to := "/?" + url.Values{"q": {said}}.Encode() + "#queue"
	if _, err := forge.ParseRef(said, "any/where"); err == nil || number.MatchString(said) {
		to = "/issue?" + url.Values{"ref": {said}}.Encode()
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}
