package threads

// Removable is a rule of some list. Without removes it and returns how to undo that.
type Removable struct {
	Name    string
	Without func() (undo func())
}

// EveryRule are the rules of all lists, for the worlds of package sim to miss.
func EveryRule() (all []Removable) {
	for _, r := range everyRule() {
		all = append(all, Removable{r.name, r.without})
	}
	return all
}

// Decode is that of threads/file, which imports this package, so that only the external tests may import it.
var Decode func(name, text string, lookupEnv func(string) (string, bool)) (*Config, error)
