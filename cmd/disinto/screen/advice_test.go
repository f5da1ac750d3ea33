package screen

import "codeberg.org/johba/disinto/threads/advice"

// sure returns a significant figure if off is less than mean, and unsure one that is not significant.
func sure(mean, off float64) advice.Figure {
	return advice.Figure{Mean: mean, Low: mean - off, High: mean + off}
}

func unsure() advice.Figure { return advice.Figure{Mean: 0.3, Low: -1, High: 1.6} }

// line returns a line of an answer: issues done, seconds waiting, seconds open, dollars.
func line(what, kind string, done, waits, open, usd advice.Figure) advice.Line {
	undone := advice.Figure{Mean: -done.Mean, Low: -done.High, High: -done.Low}
	return advice.Line{
		What: what, Kind: kind,
		Outcome: advice.Outcome{Done: done, Undone: undone, Waits: waits, Open: open, USD: usd},
	}
}

func week(done, waits, open float64) advice.Outcome {
	return advice.Outcome{
		Issues: sure(140, 0), Done: sure(done, 1), Undone: sure(140-done, 1), Waits: sure(waits, 5), Open: sure(open, 60),
	}
}

func brokenDown() *advice.Breakdown {
	worst := line("review-sonnet away for a week, and 40 issues at once on Monday", "", sure(-61.25, 4), sure(90_000, 600),
		sure(300_000, 9000), unsure())
	return &advice.Breakdown{
		Plays: 12, Plain: week(138.6, 84, 1314), Worst: &worst, Week: week(77.4, 90_084, 301_314),
		Harms: []advice.Line{
			line("review-sonnet away for a week", "", sure(-55, 3), sure(80_000, 500), sure(290_000, 9000), unsure()),
			line("the forge down for an hour", "", unsure(), sure(66, 8), sure(65, 9), unsure()),
			line("dev-a away for a week", "", unsure(), unsure(), unsure(), unsure()),
		},
		Helps: []advice.Line{
			line("one more agent on api (review)", advice.Agent, sure(58.5, 2), sure(-88_000, 500), sure(-290_000, 800),
				sure(51.91, 3.86)),
			line("max_unreviewed = 6 in place of 3", advice.Key, sure(3, 1), sure(-18_000, 4000), unsure(), unsure()),
			line("one more slot on llama", advice.Slot, unsure(), unsure(), unsure(), unsure()),
			line(`hold = "2m" on llama`, advice.Key, unsure(), unsure(), unsure(), unsure()),
		},
	}
}

func advised() *advice.Advice {
	return &advice.Advice{
		Plays: 8, Now: week(120.5, 7200, 90_000),
		More: []advice.Line{
			line("one more slot on llama", advice.Slot, sure(14.1, 2), sure(-5000, 300), sure(-40_000, 5000), sure(20, 4)),
			line("a dollar more a day for api", advice.Dollar, sure(6, 1), sure(-900, 300), sure(-9000, 800), sure(30, 0.5)),
			line("one more agent on api (review)", advice.Agent, unsure(), unsure(), unsure(), unsure()),
		},
		Less: []advice.Line{line("without dev-c", advice.Fewer, unsure(), unsure(), unsure(), unsure())},
	}
}
