package agents

import "encoding/json"

// Tried is an earlier session on a chain that did not bring it to an end, as the agent of the next rung is told.
type Tried struct {
	Agent   string `json:"agent"`
	Kind    Kind   `json:"kind"`
	Outcome Result `json:"outcome"` // of a review that rejected the work: done
	Reason  string `json:"reason"`  // the program's words, or for a rejection that changes were requested
}

// The newest mostTried sessions are told, with triedWords bytes of each reason at most.
const (
	mostTried  = 8
	triedWords = 500
)

// formatTried is $DISINTO_TRIED: the newest sessions of a list, oldest first, as JSON.
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

// ParseTried reads $DISINTO_TRIED. A text that is no list, or too long, counts as an empty list.
func ParseTried(text string) (list []Tried) {
	if len(text) > MaxResult || json.Unmarshal([]byte(text), &list) != nil {
		return nil
	}
	return list[max(0, len(list)-mostTried):]
}
