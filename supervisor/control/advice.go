package control

// AdviceRequest asks what one more or one less slot, agent or dollar would have been worth in the last days.
type AdviceRequest struct {
	Days int `json:"days,omitempty"` // 1 to 30; 0: 30
}

// Advice is the answer of POST /v1/advise.
type Advice struct {
	Days     int           `json:"days"`
	Sessions int           `json:"sessions"` // sessions of these days in the journal
	Plays    int           `json:"plays"`    // simulated runs per line, each with other random numbers
	Now      AdviceOutcome `json:"now"`      // simulated with the configuration in force
	More     []AdvisedLine `json:"more"`     // best first
	Less     []AdvisedLine `json:"less"`     // most costly first
}

// AdvisedLine is one change of the configuration, and its effect.
type AdvisedLine struct {
	What string `json:"what"` // such as "one more slot on llama"
	Kind string `json:"kind"` // slot, agent, fewer, key or dollar
	AdviceOutcome
}

// AdviceOutcome sums up simulated runs, or the differences between two sets of them.
type AdviceOutcome struct {
	Issues AdviceFigure `json:"issues"`
	Done   AdviceFigure `json:"done"`  // issues done by the end of these days
	Waits  AdviceFigure `json:"waits"` // seconds from filing to the first session, on average
	Open   AdviceFigure `json:"open"`  // seconds from filing to done, or to the end, on average
	USD    AdviceFigure `json:"usd"`   // as far as sessions reported costs
}

// AdviceFigure is a mean, and the range that contains the true one with 99 % confidence.
type AdviceFigure struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Sure reports whether a difference is distinguishable from chance.
func (f AdviceFigure) Sure() bool { return f.Low > 0 || f.High < 0 }
