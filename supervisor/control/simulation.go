package control

// SimulateRequest asks how a factory with these changes would have done the work of the last days. Without changes it
// asks how well the simulator reproduces what happened.
type SimulateRequest struct {
	Days int `json:"days,omitempty"` // 1 to 30; 0: 7
	// Slots has, by thread, the number of slots or, for a thread with overlap, of concurrent sessions.
	Slots   map[string]int    `json:"slots,omitempty"`
	Hold    map[string]string `json:"hold,omitempty"`    // by sticky thread, such as "4m"
	Without []string          `json:"without,omitempty"` // agents that do not take part
}

// Simulation is the answer of POST /v1/simulate.
type Simulation struct {
	Days     int      `json:"days"`
	Sessions int      `json:"sessions"` // sessions of these days in the journal
	Changes  []string `json:"changes"`  // in words; unchanged values are left out
	Happened Played   `json:"happened"` // according to the journal
	Now      Played   `json:"now"`      // simulated, with the configuration in force
	Changed  *Played  `json:"changed,omitempty"`
}

// Played sums up how the work of some days went.
type Played struct {
	Issues   int     `json:"issues"`
	Done     int     `json:"done"`              // a simulation continues for as many days again
	LastDone float64 `json:"last_done_seconds"` // from the start
	MeanTurn float64 `json:"mean_turn_seconds"` // from when an issue was workable until it was done
	MeanWait float64 `json:"mean_wait_seconds"` // from when it was workable to its first session
	MaxWait  float64 `json:"max_wait_seconds"`
	Idle     float64 `json:"idle_seconds"` // idle time of all slots together, while there was work for them
	Busy     float64 `json:"busy"`         // share of all agents' time in sessions until the last issue was done
	Switches int     `json:"switches"`     // sessions in a sticky slot that held another context
}
