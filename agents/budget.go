package agents

// Budget is what may be used in one day. A zero field is no limit.
type Budget struct {
	Tokens int64 // read and written; what came out of a cache is not counted
	USD    float64
}
