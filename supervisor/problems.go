package supervisor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

// problems has the faults that a person must fix, and counts those that the supervisor fixed itself, for the status.
// In a month without faults all of it stays empty.
type problems struct {
	mu         sync.Mutex // guards the fields below
	first      string     // says that a first start waits for a person
	journal    error      // why the newest record could not be written
	crash      string     // says that the last supervisor died
	corrupt    int        // lines of the journal that were set aside at the start, because they are corruptAs
	corruptAs  string
	lost       string            // what the journal lacked at the start
	unsettled  string            // why nothing starts yet: an engine has not named the sessions that it keeps
	ports      map[string]string // why the supervisor cannot listen on an address, by key of [factory]
	unwritten  map[string]string // why a document could not be encoded, by its name
	panics     int
	panic      string          // the newest panic
	violations int             // broken rules; a rule that stays broken counts once
	violation  string          // the newest violation
	breaking   map[string]bool // violations by the newest plan
	repairs    int             // leftover claims that were released
}

// setJournal records why the newest record could not be written, and returns the previous reason; nil means that it was
// written.
func (p *problems) setJournal(why error) (was error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was, p.journal = p.journal, why
	return was
}

// setFirst records that a first start waits for a person; "" means that it does not.
func (p *problems) setFirst(words string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.first = words
}

// journalError returns why the newest record could not be written; nil if it was.
func (p *problems) journalError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.journal
}

func (p *problems) setCorrupt(lines int, words string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.corrupt, p.corruptAs = lines, words
}

// setLost records what the journal lacked at the start; "" means nothing.
func (p *problems) setLost(words string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = words
}

// lostWords returns what the journal lacked at the start; "" means nothing.
func (p *problems) lostWords() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// setUnsettled records why nothing starts until an engine has named the sessions that it keeps; "" means that nothing
// waits.
func (p *problems) setUnsettled(words string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unsettled = words
}

// setPort records why the supervisor cannot listen on an address, and reports whether that is news; "" means that it
// can.
func (p *problems) setPort(key, why string) (isNew bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	isNew = p.ports[key] != why
	if p.ports == nil {
		p.ports = make(map[string]string)
	}
	if p.ports[key] = why; why == "" {
		delete(p.ports, key)
	}
	return isNew
}

// unencodable records a document that could not be encoded, and reports whether that is news.
func (p *problems) unencodable(name, words string) (isNew bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	isNew = p.unwritten[name] != words
	if p.unwritten == nil {
		p.unwritten = make(map[string]string)
	}
	p.unwritten[name] = words
	return isNew
}

// panicked counts a panic, and reports whether its words are news.
func (p *problems) panicked(words string) (isNew bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	isNew = p.panic != words
	p.panics++
	p.panic = words
	return isNew
}

// violated counts the rules that the newest plan broke, and returns those that the plan before it did not break.
func (p *problems) violated(found []threads.Violation) (fresh []threads.Violation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	breaking := make(map[string]bool, len(found))
	for _, v := range found {
		breaking[v.Words] = true
		if !p.breaking[v.Words] {
			p.violations++
			p.violation = v.Words
			fresh = append(fresh, v)
		}
	}
	p.breaking = breaking
	return fresh
}

// repaired counts a chore that repaired a leftover claim or label.
func (p *problems) repaired(a threads.Action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a == threads.ActRelease || a == threads.ActUnlabel {
		p.repairs++
	}
}

// upkeep returns the counts of what was repaired.
func (p *problems) upkeep() control.UpkeepDocument {
	p.mu.Lock()
	defer p.mu.Unlock()
	return control.UpkeepDocument{Violations: p.violations, Repairs: p.repairs}
}

// setCrash records that this supervisor was started because the last one had died.
func (p *problems) setCrash(words string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.crash = words
}

// lines returns the problems as text.
func (p *problems) lines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := []string{}
	if p.first != "" {
		list = append(list, p.first)
	}
	if p.crash != "" {
		list = append(list, p.crash)
	}
	if p.journal != nil {
		list = append(list, text(p.journal)+": nothing starts until the journal can be written")
	}
	if p.unsettled != "" {
		list = append(list, p.unsettled)
	}
	for _, key := range slices.Sorted(maps.Keys(p.ports)) {
		list = append(list, p.ports[key])
	}
	if p.corrupt > 0 {
		list = append(list, fmt.Sprintf("%d lines of the journal were %s: see journal.corrupt", p.corrupt,
			strings.TrimSuffix(p.corruptAs, ",")))
	}
	for _, name := range slices.Sorted(maps.Keys(p.unwritten)) {
		list = append(list, p.unwritten[name])
	}
	if p.panics > 0 {
		list = append(list, fmt.Sprintf("internal error: %d passes or calls panicked, last: %s", p.panics, p.panic))
	}
	if p.violations > 0 {
		list = append(list, fmt.Sprintf("internal error: %d times a rule would have been broken, last: %s",
			p.violations, p.violation))
	}
	return list
}
