package hire

import (
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/tomltext"
)

// retiring is the part of an agent's table that retiring needs after the table is removed from factory.toml: a repeated
// run has to find the account again.
type retiring struct {
	Name  string `toml:"name"`
	Login string `toml:"forge_user"`
	Token string `toml:"variable"` // variable of its token, without the $ that would mark the variable as used
}

// retiringMark begins the line of factory.toml that records an agent being retired. To TOML it is a comment.
const retiringMark = "# being retired, to go on run retire-an-agent again: "

// recordRetiring adds an agent's line at the end of the text.
func recordRetiring(text string, l retiring) string {
	line := fmt.Sprintf("%s{ name = %s, forge_user = %s, variable = %s }",
		retiringMark, tomltext.Quote(l.Name), tomltext.Quote(l.Login), tomltext.Quote(l.Token))
	return tomltext.AppendLine(dropRetiring(text, l.Name), line)
}

// dropRetiring removes an agent's line.
func dropRetiring(text, name string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if l, ok := parseRetiring(line); !ok || l.Name != name {
			b.WriteString(line)
		}
	}
	return b.String()
}

func parseRetiring(line string) (l retiring, ok bool) {
	table, ok := strings.CutPrefix(line, retiringMark)
	if !ok {
		return l, false
	}
	var doc struct{ Agent retiring }
	_, err := toml.Decode("agent = "+table, &doc)
	return doc.Agent, err == nil && doc.Agent.Name != ""
}

// Retiring returns the account and the token's variable of an agent to be retired, which may already be gone from the
// file.
func (s Survey) Retiring(agent string) (login, tokenVar string) {
	if l, ok := s.retiring[agent]; ok && !s.isIn(agent) {
		return l.Login, l.Token
	}
	return s.Login(agent), s.TokenVar(agent)
}

// removeAgent removes the agent from factory.toml. A forge_user or token that does not follow from its name is
// recorded. The table of a role that loses its last agent becomes a comment if it would be a mistake; to hire for that
// role again, a person first removes the #.
func (r *Retire) removeAgent(text string) (string, error) {
	edited, err := Unregister(text, r.Name)
	if err != nil || edited == text {
		return text, err
	}
	for _, role := range idleRoles(text, edited) {
		without := tomltext.CommentOut(edited, []string{"roles", role})
		if r.countMistakes(without) < r.countMistakes(edited) {
			edited = without
		}
	}
	if r.Login != r.Name || r.TokenVar != agents.TokenVar(r.Name) {
		edited = recordRetiring(edited, retiring{r.Name, r.Login, r.TokenVar})
	}
	return edited, nil
}

// countMistakes counts the lines of the error that Validate returns.
func (r *Retire) countMistakes(text string) int {
	err := r.Validate(text)
	if err == nil {
		return 0
	}
	return 1 + strings.Count(err.Error(), "\n")
}

// idleRoles returns the roles whose last agent an edit removed, sorted.
func idleRoles(before, after string) (idle []string) {
	old, err1 := ParseSurvey(before)
	now, err2 := ParseSurvey(after)
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
