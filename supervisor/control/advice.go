package control

// AdviceRequest asks what one more slot, agent or dollar would have been worth in the last days, and one less.
type AdviceRequest struct {
	Days int `json:"days,omitempty"` // 1 to 30; 0: 30
}

// Advice is the answer of POST /v1/advise.
type Advice struct {
	Days     int           `json:"days"`
	Sessions int           `json:"sessions"` // of these days, in the journal
	Plays    int           `json:"plays"`    // of each line, each with other luck
	Now      AdviceOutcome `json:"now"`      // played, with the configuration in force
	More     []AdvisedLine `json:"more"`     // the best first
	Less     []AdvisedLine `json:"less"`     // the dearest first
}

// AdvisedLine is one change of the configuration, and the difference that it makes.
type AdvisedLine struct {
	What string `json:"what"` // such as "one more slot on llama"
	Kind string `json:"kind"` // slot, agent, fewer, key or dollar
	AdviceOutcome
}

// AdviceOutcome sums up plays, or the differences of some from others.
type AdviceOutcome struct {
	Issues AdviceFigure `json:"issues"`
	Done   AdviceFigure `json:"done"`  // by the end of these days
	Waits  AdviceFigure `json:"waits"` // seconds from filing to the first session, on average
	Open   AdviceFigure `json:"open"`  // seconds from filing to done, or to the end, on average
	USD    AdviceFigure `json:"usd"`   // as far as sessions told
}

// AdviceFigure is a mean, and the range that the true one is in, which is as sure as 99 of 100.
type AdviceFigure struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Sure reports whether a difference can be told from chance.
func (f AdviceFigure) Sure() bool { return f.Low > 0 || f.High < 0 }
