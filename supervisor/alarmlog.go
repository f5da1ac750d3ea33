package supervisor

import (
	"maps"
	"slices"
	"strings"
	"time"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// alarmLog logs once what stands in the status for a while, and its end. The zero value has logged nothing. One
// goroutine uses it.
type alarmLog struct{ standing map[string]standing }

// standing is the line about something that lasts, and the one about its end; empty logs no end.
type standing struct {
	notice
	over string
}

// news returns the log lines of a new status.
func (a *alarmLog) news(d *control.Document) (lines []notice) {
	now := make(map[string]standing)
	addAlarms(now, d)
	addQueue(now, d)
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if _, known := a.standing[key]; !known {
			lines = append(lines, now[key].notice)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(a.standing)) {
		if _, lasts := now[key]; !lasts {
			lines = append(lines, notice{words: a.standing[key].over})
		}
	}
	a.standing = now
	return lines
}

// addAlarms adds the alarms, and what else cannot start now: agents and services that wait for a person, and threads
// that are rate limited or backing off.
func addAlarms(now map[string]standing, d *control.Document) {
	add := func(kind threads.Code, about, words, over string) {
		now[string(kind)+" "+about] = standing{notice{warn: true, words: words}, over}
	}
	for _, a := range d.Alarms {
		add(a.Code, a.About, a.Words, "over: "+string(a.Code)+" "+a.About)
	}
	for i := range d.Agents {
		if x := &d.Agents[i]; x.State == control.AgentHeld && x.NeedsPerson {
			words := x.Name + " can start nothing: " + strings.TrimPrefix(x.Why, x.Name+" ")
			add(threads.AgentHeld, x.Name, words, x.Name+" can start again")
		}
	}
	for i := range d.Services {
		if x := &d.Services[i]; x.NeedsPerson {
			add("service", x.Name, "service "+x.Name+" needs a person: "+x.Why, "service "+x.Name+" needs nobody any more")
		}
	}
	for i := range d.Threads {
		if t := &d.Threads[i]; !t.ParkedUntil.IsZero() {
			words := "thread " + t.Name + " is " + t.Rest() + " until " + t.ParkedUntil.Format(time.RFC3339) + ": " + t.ParkedWhy
			add(t.ParkedAs, t.Name, words, "thread "+t.Name+" is free again")
		}
	}
}

// addQueue adds what holds items: no room on this machine, unless the alarm of the disk says it, and claims of others.
func addQueue(now map[string]standing, d *control.Document) {
	full := slices.ContainsFunc(d.Alarms, func(a control.AlarmDocument) bool { return a.Code == threads.NoRoom })
	for i := range d.Queue {
		switch q := &d.Queue[i]; {
		case q.Code == threads.NoRoom && !full:
			now[string(q.Code)] = standing{notice{warn: true, words: "no room to start: " + q.Why}, "there is room again"}
		case q.Code == threads.ClaimedElsewhere:
			ref := forge.Ref{Repo: q.Repo, Number: q.Number}.String()
			now[string(q.Code)+" "+ref] = standing{notice: notice{words: "[" + ref + "] " + q.Why}}
		}
	}
}
