package hire

import (
	"strings"

	"github.com/BurntSushi/toml"

	"codeberg.org/johba/disinto/agents"
)

// leaving is what has to be known of an agent until it is retired, and went with its table of factory.toml: a run that breaks
// off after that must find the account again.
type leaving struct {
	Name  string `toml:"name"`
	Login string `toml:"forge_user"`
	Token string `toml:"variable"` // of its token, without the $ that would make it one in use
}

// leavingMark begins the line of factory.toml that remembers an agent. To TOML it is a comment.
const leavingMark = "# being retired, to go on run retire-an-agent again: "

// noteLeaving adds the line, at the end of the text.
func noteLeaving(text string, l leaving) string {
	text = endLine(dropLeaving(text, l.Name))
	return text + leavingMark + "{ name = " + quote(l.Name) + ", forge_user = " + quote(l.Login) + ", variable = " + quote(l.Token) + " }" + breakOf(text)
}

// dropLeaving takes the line of an agent out.
func dropLeaving(text, name string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if l, ok := parseLeaving(line); !ok || l.Name != name {
			b.WriteString(line)
		}
	}
	return b.String()
}

func parseLeaving(line string) (l leaving, ok bool) {
	table, ok := strings.CutPrefix(line, leavingMark)
	if !ok {
		return l, false
	}
	var doc struct{ Agent leaving }
	_, err := toml.Decode("agent = "+table, &doc)
	return doc.Agent, err == nil && doc.Agent.Name != ""
}

// Leaving is the account and the token's variable of an agent that is to be retired. It may be out of the file already.
func (s Survey) Leaving(agent string) (login, tokenVar string) {
	if l, ok := s.leaving[agent]; ok && !s.isIn(agent) {
		return l.Login, l.Token
	}
	return s.Login(agent), s.TokenVar(agent)
}

// takeOut is factory.toml without the agent. What would be forgotten by that is noted, and a role that nobody has any more, if
// it is a mistake to have such a table, becomes a comment: hiring somebody for it begins with taking the # away.
func (r *Retire) takeOut(text string) (string, error) {
	edited, err := Unregister(text, r.Name)
	if err != nil || edited == text {
		return text, err
	}
	for _, role := range idleRoles(text, edited) {
		without := commentOut(edited, []string{"roles", role})
		if r.mistakes(without) < r.mistakes(edited) {
			edited = without
		}
	}
	if r.Login != r.Name || r.TokenVar != agents.TokenVar(r.Name) {
		edited = noteLeaving(edited, leaving{r.Name, r.Login, r.TokenVar})
	}
	return edited, nil
}

// mistakes counts the lines of what is wrong.
func (r *Retire) mistakes(text string) int {
	err := r.Validate(text)
	if err == nil {
		return 0
	}
	return 1 + strings.Count(err.Error(), "\n")
}

// idleRoles are the roles that somebody had before an edit, and nobody has after it, sorted.
func idleRoles(before, after string) (idle []string) {
	old, err1 := Look(before)
	now, err2 := Look(after)
	if err1 != nil || err2 != nil {
		return nil
	}
	has := now.roles()
	for _, role := range old.roles().sorted() {
		if !has[role] {
			idle = append(idle, role)
		}
	}
	return idle
}

// commentOut makes comments of a table with a header and of those below it.
func commentOut(text string, table []string) string {
	d := scan(text)
	for i := len(d.sections) - 1; i >= 0; i-- {
		s := &d.sections[i]
		if s.head.to == 0 || strings.Join(s.path, "\x00") != strings.Join(table, "\x00") && !isBelow(s.path, table) {
			continue
		}
		var b strings.Builder
		for line := range strings.Lines(text[s.head.from:s.end]) {
			b.WriteString("# " + line)
		}
		text = text[:s.head.from] + b.String() + text[s.end:]
	}
	return text
}
