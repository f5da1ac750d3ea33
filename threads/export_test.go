package threads

// Removable is a rule of a list. Without removes it and returns the undo function.
type Removable struct {
	Name    string
	Without func() (undo func())
}

// EveryRule returns the rules of all lists. Worlds must notice the removal of most.
func EveryRule() (all []Removable) {
	for _, r := range everyRule() {
		all = append(all, Removable{r.name, r.without})
	}
	return all
}

// Decode is Decode of threads/file. That package imports this one, so only the external tests may import it.
var Decode func(name, text string, lookupEnv func(string) (string, bool)) (*Config, error)
