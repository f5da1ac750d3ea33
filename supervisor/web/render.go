package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
)

//go:embed templates
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

// templates has all pages and rows. It is parsed when the first page is shown, because most commands show none. Any
// test of a page finds a syntax error in a template.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"at": at, "took": control.Age, "words": words, "heading": heading, "amount": control.Tokens,
		"usd": usd, "asset": asset, "ref": refOf, "dict": dict, "hit": control.Hit, "hitOf": hitOf,
		"costOf": control.CostOf,
	}).ParseFS(templateFiles, "templates/*.html"))
})

// hitOf writes the cached share of a usage. Templates hold the usage as a value or as a pointer.
func hitOf(u any) string {
	switch u := u.(type) {
	case agents.Usage:
		return control.HitOf(&u)
	case *agents.Usage:
		return control.HitOf(u)
	}
	return control.Hit(nil)
}

// render returns a row: a template executed with data. A template that cannot be executed is a bug in this package,
// and the request ends with 500.
func render(name, id string, data any) row {
	return row{id, template.HTML(execute(name, data))}
}

func execute(name string, data any) []byte {
	var text bytes.Buffer
	if err := templates().ExecuteTemplate(&text, name, data); err != nil {
		panic(fmt.Sprintf("template %s: %v", name, err))
	}
	return bytes.Map(visible, text.Bytes())
}

// visible removes control characters, and format characters that hide in a text or reverse its direction: no markup
// can confine those within a title or a tooltip. The two joiners stay, because emoji and some scripts need them.
func visible(r rune) rune {
	if r == '\n' || r == '\t' || r == '\u200c' || r == '\u200d' || !unicode.In(r, unicode.Cc, unicode.Cf) {
		return r
	}
	return -1
}

// sheet is a board with the data of the layout around it.
type sheet struct {
	*board
	Pages   []page
	Path    string // of this page
	Query   string
	Version string
	Visitor *visitor
	Said    string // the answer of the last command
	Failed  bool   // the command failed
	Live    bool   // the page is kept up to date while it is open
	Single  bool   // the factory has one repository, so its name is hidden
}

// Nav returns the navigation's links.
func (s *sheet) Nav() (list []navigation) {
	for _, p := range s.Pages {
		if p.title != "" {
			list = append(list, navigation{p.path, p.title, p.key, p.path == s.Path})
		}
	}
	return list
}

// navigation is a link in the navigation.
type navigation struct {
	Path, Title, Key string
	Here             bool
}

// serve shows a page.
func (s *Site) serve(w http.ResponseWriter, r *http.Request, v *visitor, p page) {
	query := r.URL.Query()
	said, failed := s.visitors.consumeNotice(v)
	b, err := p.show(s, r.Context(), query)
	status := http.StatusOK
	if err != nil {
		status, b = statusOf(err), &board{Title: "Not here"}
		said, failed = err.Error(), true
	}
	sheet := &sheet{
		board: b, Pages: pages, Path: p.path, Query: query.Encode(), Version: b.version(), Visitor: v, Said: said,
		Failed: failed, Live: err == nil, Single: s.single(),
	}
	send(w, status, "page", sheet)
}

// single reports whether the factory has one repository.
func (s *Site) single() bool {
	c := s.Config()
	return c != nil && len(c.Forge.Repos) == 1
}

// statusOf returns the HTTP status for an error.
func statusOf(err error) int {
	if no := (*control.Refusal)(nil); errors.As(err, &no) {
		return no.Status
	}
	return http.StatusServiceUnavailable
}

func (s *Site) showSignIn(w http.ResponseWriter, status int, next, why string) {
	forge := ""
	if s.application() != nil {
		f := s.factory()
		forge = f.WebAddress() + "/signin/forge?" + url.Values{"next": {local(next)}}.Encode()
	}
	send(w, status, "signin", map[string]any{"Next": local(next), "Why": why, "Forge": forge})
}

// send executes a template before it sends anything, so that no page is cut off in the middle.
func send(w http.ResponseWriter, status int, name string, data any) {
	text := execute(name, data)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// static serves the scripts and the style. Their addresses contain the hash of their content, so browsers may cache
// them.
func static(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "max-age=31536000, immutable")
	http.ServeFileFS(w, r, staticFiles, "static/"+r.PathValue("name"))
}

// asset returns the address of a file of static.
func asset(name string) (string, error) {
	text, err := staticFiles.ReadFile("static/" + name)
	sum := sha256.Sum256(text)
	return "/static/" + name + "?" + hex.EncodeToString(sum[:6]), err
}

// moment is a time as shown on a page.
type moment struct {
	Machine string // for the browser, which shows the age
	Human   string
}

func at(t time.Time) moment {
	return moment{t.UTC().Format(time.RFC3339), t.UTC().Format("2 Jan 15:04 MST")}
}

// marked matches the times and references in a sentence.
var marked = regexp.MustCompile(
	`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)|[\w.-]+/[\w.-]+#\d{1,15}\b`)

// words returns a sentence as HTML, with times and references marked up.
func words(s string) template.HTML { return markUp(s, true) }

// heading returns a sentence as HTML without links, for the summary of a collapsible part, which takes the keyboard
// focus itself.
func heading(s string) template.HTML { return markUp(s, false) }

func markUp(s string, links bool) template.HTML {
	var b strings.Builder
	last := 0
	for _, span := range marked.FindAllStringIndex(s, -1) {
		b.WriteString(template.HTMLEscapeString(s[last:span[0]]))
		last = span[1]
		text := s[span[0]:span[1]]
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			m := at(t)
			fmt.Fprintf(&b, `<time datetime="%s">%s</time>`, m.Machine, m.Human)
		} else if ref, err := forge.ParseRef(text, ""); err == nil && links {
			l := refOf(ref.Repo, ref.Number)
			fmt.Fprintf(&b, `<a href="%s"><span class="repo">%s</span>%s</a>`, template.HTMLEscapeString(l.Href),
				template.HTMLEscapeString(l.Repo), template.HTMLEscapeString(l.Text))
		} else {
			b.WriteString(template.HTMLEscapeString(text))
		}
	}
	b.WriteString(template.HTMLEscapeString(s[last:]))
	return template.HTML(b.String())
}

func usd(v float64) string { return "$" + strconv.FormatFloat(v, 'f', 2, 64) }

// link is a reference with the address of its page. The page hides the repository if the factory has only one.
type link struct{ Repo, Text, Href string }

// refOf returns the link to an issue or pull request; for scheduled work (number 0), the repository only.
func refOf(repo string, number int64) link {
	ref := forge.Ref{Repo: repo, Number: number}
	if number == 0 {
		return link{Repo: repo}
	}
	return link{repo, ref.Short(), "/issue?" + url.Values{"ref": {ref.String()}}.Encode()}
}

// dict returns a map as data for a nested template.
func dict(pairs ...any) map[string]any {
	m := make(map[string]any)
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	return m
}
