package screen

import (
	"fmt"
	"strings"

	"codeberg.org/johba/disinto/supervisor/control"
)

// services shows each service on a line, with its last output line or the reason why it is not ready.
func (v View) services(p *page, d *control.Document) {
	rows := [][]cell{row(faint, "SERVICE", v.stateWord(), v.forWords(), "PID", "RESTARTS", "SAYS")}
	for i := range d.Services {
		x := &d.Services[i]
		since := control.Age(v.Now.Sub(x.Since))
		line := row(plain, x.Name, x.State, since, fmt.Sprint(x.PID), fmt.Sprint(x.Restarts), statusText(x))
		line[0].style = bold
		if x.PID == 0 {
			line[3].text = ""
		}
		switch {
		case x.NeedsPerson:
			line[1].style = wrong
		case !x.Usable():
			line[1].style = held
		}
		if left := x.Until.Sub(v.Now); left > 0 {
			line[2].text = control.Age(left) + " more"
		}
		rows = append(rows, line)
	}
	p.headed(5, rows)
}

// stateWord heads the column of states.
func (v View) stateWord() string {
	if v.Lost {
		return "WAS"
	}
	return "STATE"
}

// statusText returns the reason why a service is not ready, or else its last output line. It starts with a note if the
// service runs with an older configuration.
func statusText(x *control.ServiceDocument) string {
	text := x.Why
	if text == "" {
		text = x.LastLine
	}
	if x.Changed {
		text = strings.TrimSpace("(changed: disinto restart " + x.Name + ") " + text)
	}
	return text
}
