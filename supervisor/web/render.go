package web

import (
	"bytes"
	"context"
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
		"at": at, "took": control.Age, "words": words, "wordsIn": wordsIn, "result": result, "amount": control.Tokens,
		"usd": usd, "asset": asset, "ref": refOf, "hit": hit, "costOf": costOf, "pill": outcomePill,
		"status": statusPill, "logOf": logOf, "logHere": logHere, "verb": verb, "usual": usual, "kind": kindVerb,
		"member": memberPill, "legend": legend, "convoy": convoyPill,
	}).ParseFS(templateFiles, "templates/*.html"))
})

// hit writes the share of tokens that came from a cache.
func hit(share *float64) string {
	if share == nil {
		return unknown
	}
	return control.Hit(share)
}

// costOf writes the cost of a usage.
func costOf(u *agents.Usage) string {
	if u == nil || u.CostUSD == 0 {
		return unknown
	}
	return control.CostOf(u)
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
	Repos   []string
	Forge   string // the forge's address; empty if it is unknown
	At      time.Time
}

// Single reports whether the factory has one repository, whose name is hidden then.
func (s *sheet) Single() bool { return len(s.Repos) == 1 }

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
	b, err := s.board(r.Context(), p, r.URL.Query())
	if err != nil {
		s.refuse(w, r, v, err)
		return
	}
	s.sendBoard(w, r, http.StatusOK, v, p, b)
}

// board returns a page's content with what the layout shows of the factory.
func (s *Site) board(ctx context.Context, p page, query url.Values) (*board, error) {
	b, err := p.show(s, ctx, query)
	if err != nil {
		return nil, err
	}
	if b.State == nil {
		b.State = new(control.Document)
		_ = s.API.Get(ctx, "/v1/state?rows=0", b.State) // the page is of use without the number
	}
	b.Needs = needs(b.State)
	return b, nil
}

// renews is the header of a request by which an open page renews itself. It gets no notice: the page that the visitor
// is about to load shows the answer of the command, and an open page that is left would take it away.
const renews = "Disinto-Renews"

// sendBoard sends a board in the layout of all pages. A page that could be shown is kept up to date.
func (s *Site) sendBoard(w http.ResponseWriter, r *http.Request, status int, v *visitor, p page, b *board) {
	said, failed := "", false
	if r.Header.Get(renews) == "" {
		said, failed = s.visitors.consumeNotice(v)
	}
	sheet := &sheet{
		board: b, Pages: pages, Path: p.path, Query: r.URL.Query().Encode(), Version: b.version(), Visitor: v, Said: said,
		Failed: failed, Live: status == http.StatusOK && p.rest > 0, At: time.Now().UTC(), Repos: s.repos(),
		Forge: s.forgeURL(),
	}
	send(w, status, "page", sheet)
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
	text := drawProgress(execute(name, data), time.Now())
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
	`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)|(?:[\w.-]+/[\w.-]+)?#\d{1,15}\b`)

// words returns a sentence as HTML, with times and full references marked up.
func words(s string) template.HTML { return wordsIn("", s) }

// wordsIn is words with a repository for references such as #12.
func wordsIn(repo, s string) template.HTML {
	var b strings.Builder
	last := 0
	for _, span := range marked.FindAllStringIndex(s, -1) {
		before, text := s[last:span[0]], s[span[0]:span[1]]
		last = span[1]
		t, notTime := time.Parse(time.RFC3339, text)
		preposition := ""
		for _, word := range []string{"until ", "since ", "at "} {
			if notTime == nil && strings.HasSuffix(before, word) { // page.js writes "for 3m" over "until 15:04"
				before, preposition = strings.TrimSuffix(before, word), word
			}
		}
		b.WriteString(template.HTMLEscapeString(before))
		if notTime == nil {
			m := at(t)
			fmt.Fprintf(&b, `<time datetime="%s" class="in %s">%s%s</time>`, m.Machine, preposition, preposition, m.Human)
		} else if ref, err := forge.ParseRef(text, repo); err == nil && ref.Repo != "" {
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

// opened matches the result of a session that opened a pull request.
var opened = regexp.MustCompile(`^opened #\d{1,15}$`)

// result writes the reason that a session gave for its end. It may be a line of a log, which must not become a link;
// that it opened a pull request does.
func result(repo, reason string) template.HTML {
	if opened.MatchString(reason) {
		return wordsIn(repo, reason)
	}
	return template.HTML(template.HTMLEscapeString(reason))
}

// progress matches a bar that a template drew without its width.
var progress = regexp.MustCompile(`data-from="(\d+)" data-usual="(\d+)" width="0"`)

// drawProgress gives the bars of progress in a page their widths. They are no part of a row, which would otherwise
// change with every second.
func drawProgress(page []byte, now time.Time) []byte {
	return progress.ReplaceAllFunc(page, func(bar []byte) []byte {
		m := progress.FindSubmatch(bar)
		from, _ := strconv.ParseInt(string(m[1]), 10, 64)
		usual, _ := strconv.ParseInt(string(m[2]), 10, 64)
		percent, class := 100*(now.Unix()-from)/max(usual, 1), ""
		if percent > 100 {
			class = ` class="over"`
		}
		return fmt.Appendf(nil, `data-from="%d" data-usual="%d" width="%d"%s`, from, usual, min(max(percent, 1), 100), class)
	})
}

// logOf returns the address of the log of an agent's, issue's or pull request's newest session, or of the one session.
func logOf(of, run string) string {
	return "/log?" + url.Values{"ref": {of}, "session": {run}}.Encode()
}

// title returns a word, or words, with a capital letter.
func title(words string) string {
	return strings.ToUpper(words[:min(1, len(words))]) + words[min(1, len(words)):]
}

// spentUSD writes what was spent, as far as known; unknown if that is nothing.
func spentUSD(v float64) string {
	if v == 0 {
		return unknown
	}
	return usd(v)
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
