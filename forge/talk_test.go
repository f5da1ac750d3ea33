package forge

import (
	"fmt"
	"strings"
	"testing"
)

// remarksOf makes one remark of each word: a word with a dash, such as plan-1, is the key of one of our remarks; any
// other is a login.
func remarksOf(words string) (all []Remark) {
	for i, word := range strings.Fields(words) {
		r := Remark{ID: int64(i + 1), Author: word}
		if strings.Contains(word, "-") {
			r.Author, r.Key = "boss", word
		}
		all = append(all, r)
	}
	return all
}

func TestRelevant(t *testing.T) {
	for words, want := range map[string]string{
		"":                                   "",
		"ada bob told-1":                     "",
		"ada question-1 bob told-1 ada":      "[2 3 5]",
		"question-1 ada question-2 bob":      "[3 4]",
		"question-1 ada plan-1 bob":          "[3 4]",
		"plan-1 ada plan-2 bob":              "[3 4]",
		"plan-1 ada question-1 bob told-2 x": "[1 2 3 4 6]",
	} {
		var ids []int64
		for _, r := range Relevant(remarksOf(words)) {
			ids = append(ids, r.ID)
		}
		if got := fmt.Sprint(ids); got != want && len(ids) > 0 || len(ids) == 0 && want != "" {
			t.Errorf("Relevant of %q returned %s, want %s", words, got, want)
		}
	}
}

// Relevant keeps the plan and the question, each with the oldest MaxRemarks remarks after it.
func TestRelevantIsBounded(t *testing.T) {
	flood := strings.Repeat(" bot", 1000)
	got := Relevant(remarksOf("plan-1" + flood + " question-1 ada" + flood))
	if len(got) != 2*(MaxRemarks+1) || got[0].Key != "plan-1" || got[MaxRemarks+1].Key != "question-1" ||
		got[MaxRemarks+2].Author != "ada" {
		t.Errorf("Relevant returned %d remarks, want %d; those around the question are %+v", len(got), 2*(MaxRemarks+1),
			got[MaxRemarks+1:MaxRemarks+3])
	}
}

func TestIsCommand(t *testing.T) {
	for body, want := range map[string]bool{
		"/disinto why": true, "\n /disinto cancel\nplease": true, "/Disinto retry": true, "/DISINTO retry": false,
		"/disintox":                    false,
		"Take sqlite.\n/disinto retry": false, "": false,
	} {
		if IsCommand(body) != want {
			t.Errorf("IsCommand(%q) = %v, want %v", body, !want, want)
		}
	}
}

// Agents do not read comments that the supervisor edits repeatedly.
func TestIsForPeople(t *testing.T) {
	for body, want := range map[string]bool{
		"x\n\n<!-- disinto:receipts-1 -->": true, "x\n\n<!-- disinto:eta-1 -->": true,
		"x\n\n<!-- disinto:question-1 -->": false, "eta- receipts-": false, "": false,
	} {
		if got := IsForPeople(body); got != want {
			t.Errorf("IsForPeople(%q) = %v, want %v", body, got, want)
		}
	}
}
