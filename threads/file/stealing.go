package file

import "codeberg.org/johba/disinto/threads"

// readStealing reads [stealing], which had seven numbers in older versions.
func (d *decoder) readStealing(t *table) {
	d.config.Stealing = t.truth("enabled", true)
	t.stealRule("every", t.oldTime("every") > threads.StealEvery, "issues move every 5m")
	t.stealRule("idle", t.oldTime("idle") > threads.StealIdle, "an agent is idle after 2m without a session")
	t.stealRule("busy", t.oldNumber("busy", threads.StealBusy) > threads.StealBusy,
		"an agent is busy with more than 5 issues that could start")
	t.stealRule("priority", t.oldNumber("priority", threads.StealPriority) > threads.StealPriority,
		"issues of priority 5 and less urgent ones move")
	t.stealRule("any_priority", t.oldNumber("any_priority", threads.StealAnyPriority) > threads.StealAnyPriority,
		"issues without a skill label move from priority 8 on")
	t.stealRule("per_agent", t.oldNumber("per_agent", threads.StealPerAgent) < threads.StealPerAgent,
		"up to 3 issues at a time move to an agent")
	t.stealRule("per_cycle", t.oldNumber("per_cycle", threads.StealPerCycle) < threads.StealPerCycle,
		"up to 10 issues move at a time")
	t.done()
}

// stealRule accepts a key of an older version; rule says what holds now whatever its value. more reports whether that
// moves more issues than the file allows, which is a mistake unless stealing is off.
func (t *table) stealRule(key string, more bool, rule string) {
	switch {
	case !t.d.config.Stealing:
		t.removed(key, "no issue moves, because stealing is off; remove it")
	case !more:
		t.removed(key, rule+"; remove it")
	default:
		t.known = append(t.known, key)
		t.wrong(key, "no longer used: %s, more than this key allows; remove it, or turn stealing off with "+
			"enabled = false", rule)
	}
}
