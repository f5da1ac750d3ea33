package agents

import "encoding/json"

// Tried is an earlier session on a chain that did not finish the work, as the next agent on the escalation list sees
// it.
type Tried struct {
	Agent   string `json:"agent"`
	Kind    Kind   `json:"kind"`
	Outcome Result `json:"outcome"` // done for a review that rejected the work
	Reason  string `json:"reason"`  // the program's reason; for a rejection, that changes were requested
}

// $DISINTO_TRIED holds the newest mostTried sessions, with at most triedWords bytes of each reason.
const (
	mostTried  = 8
	triedWords = 500
)

// formatTried returns the value of $DISINTO_TRIED: the newest sessions of a list, oldest first, as JSON.
func formatTried(list []Tried) string {
	list = list[max(0, len(list)-mostTried):]
	bounded := make([]Tried, len(list))
	for i, t := range list {
		t.Reason = oneLine(t.Reason[:min(len(t.Reason), triedWords)])
		bounded[i] = t
	}
	text, err := json.Marshal(bounded)
	if err != nil {
		return ""
	}
	return string(text)
}

// ParseTried decodes $DISINTO_TRIED. A text that is not a list, or too long, counts as an empty list.
func ParseTried(text string) (list []Tried) {
	if len(text) > MaxResult || json.Unmarshal([]byte(text), &list) != nil {
		return nil
	}
	return list[max(0, len(list)-mostTried):]
}
