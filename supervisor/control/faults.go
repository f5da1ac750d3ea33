package control

import "strings"

// Faults returns what is wrong with the factory itself, one line each: mistakes in factory.toml, with which file is in
// force; a forge that cannot be read; then Alarms and Problems. Each line needs a person, or will if it lasts.
func (d *Document) Faults() []string {
	lines := d.Config.Mistakes()
	if d.Forge.Error != "" && !d.Forge.OK {
		lines = append(lines, d.Forge.Error)
	}
	for i := range d.Alarms {
		lines = append(lines, d.Alarms[i].Words)
	}
	return append(lines, d.Problems...)
}

// Mistakes returns one line for each mistake in the files of the configuration, and one for what is in force instead.
func (c *ConfigDocument) Mistakes() (lines []string) {
	if c.Error == "" {
		return nil
	}
	for line := range strings.Lines(strings.ReplaceAll(c.Error, "; "+c.Path, "\n"+c.Path)) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	if c.Generation == 0 {
		return append(lines, "nothing starts until that is corrected")
	}
	return append(lines, "until that is corrected, the configuration before it stays in force")
}
