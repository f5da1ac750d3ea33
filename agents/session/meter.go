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
	said      *report
	before    agents.Usage // usage of the conversation before the run
	usagePath string       // the file in which the CLI reports its usage; empty until found
	told      agents.Usage // the usage in the result file
}

// measure checks the run after an event. A run that has reached its limit ends only when the model would answer once
// more: the last answer may complete the work.
func (m *runMeter) measure() {
	m.readUsageFile()
	m.readChanges()
	m.recordResumption(m.said.Running)
	u := m.usage.Add(m.cost(m.said, m.before))
	if u != m.told {
		m.told = u
		if text, err := agents.FormatUsage(u); err == nil {
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

// usageFileMost is how many bytes of the end of a usage file are read. Every few lines contain the usage.
const usageFileMost = 256 << 10

// readUsageFile reads the usage from the file of a CLI that has one.
func (m *runMeter) readUsageFile() {
	d, ok := m.cli.(usageFileReader)
	if !ok || !agents.ValidSessionID(m.said.Session) {
		return
	}
	if m.usagePath == "" {
		found, _ := filepath.Glob(d.usageFile(m.Environ, m.said.Session))
		if len(found) == 0 {
			return
		}
		m.usagePath = found[len(found)-1]
	}
	f, err := plainfile.Open(m.usagePath, os.O_RDONLY)
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > usageFileMost {
		_, _ = f.Seek(-usageFileMost, io.SeekEnd)
	}
	text, err := io.ReadAll(io.LimitReader(f, usageFileMost))
	if err != nil {
		return
	}
	for line := range bytes.Lines(text) {
		if u, ok := d.usageLine(line); ok {
			m.said.Running = m.said.Running.Max(u.Less(m.before))
		}
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
