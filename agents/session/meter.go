package session

import (
	"bytes"
	"io"
	"os"
	"path/filepath"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/plainfile"
)

// runMeter tracks the usage of a run of the CLI, and whether the CLI repeats itself.
type runMeter struct {
	*run
	said   *report
	before agents.Usage // usage of the conversation before the run
	diary  string       // the CLI's own record of the conversation; empty until found
	told   agents.Usage // the usage in the result file
}

// measure checks the run after an event. A run that has reached its limit ends only when the model would answer once
// more: the last answer may complete the work.
func (m *runMeter) measure() {
	m.readDiary()
	m.readChanges()
	m.recordResumption(m.said.Running)
	u := m.usage.Add(m.cost(m.said, m.before))
	if u != m.told {
		m.told = u
		if text, err := agents.FormatProgress(u, agents.Doing{Heard: m.run.told.heard}); err == nil {
			_ = writeFile(m.ResultPath, text)
		}
	}
	if words := m.said.repeats.words; words != "" {
		m.said.fail(failure{What: looped, Words: words})
	}
	if words := m.Left.Reached(u.Tokens(), u.CostUSD); words != "" && m.said.calling {
		m.said.fail(failure{What: spent, Words: "it has used " + words})
	}
}

// diaryMost is how many bytes of the end of a CLI's own record are read. Every few lines contain the usage.
const diaryMost = 256 << 10

// readDiary reads the CLI's own record of the conversation, if it says more than the events.
func (m *runMeter) readDiary() {
	d, ok := m.cli.(diarist)
	if !ok || !agents.ValidSessionID(m.said.Session) {
		return
	}
	pattern := d.diary(m.Environ, m.said)
	if m.diary == "" && pattern != "" {
		if found, _ := filepath.Glob(pattern); len(found) > 0 {
			m.diary = found[len(found)-1]
		}
	}
	if m.diary == "" {
		return
	}
	f, err := plainfile.Open(m.diary, os.O_RDONLY)
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > diaryMost {
		_, _ = f.Seek(-diaryMost, io.SeekEnd)
	}
	text, err := io.ReadAll(io.LimitReader(f, diaryMost))
	if err != nil {
		return
	}
	for line := range bytes.Lines(text) {
		d.readDiary(line, m.said, m.before)
	}
}

// readChanges reads the files that an event reports as written.
func (m *runMeter) readChanges() {
	for _, path := range m.said.changed {
		if !filepath.IsAbs(path) {
			path = filepath.Join(m.folder(), path)
		}
		if text, err := plainfile.Read(path, maxLine); err == nil {
			m.said.repeats.wrote(path, hashOf(text))
		}
	}
}
