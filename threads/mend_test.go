package threads

import "testing"

// A wait that only a person can end has a remedy: without one, why said of an issue behind a stranger's pull request
// that it continues by itself.
func TestPeoplesWaitsHaveRemedies(t *testing.T) {
	for _, d := range Codes() {
		if (d.Ends == ByPerson || d.Ends == ByChoice) && d.Mend == "" {
			t.Errorf("%s waits for a person, and has no remedy", d.Code)
		}
	}
}
