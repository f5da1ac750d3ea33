package control

import (
	"fmt"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// Forecast is the answer of GET /v1/forecast: what is likely to happen, from many simulated runs of the factory as it
// stands.
type Forecast struct {
	At time.Time `json:"at"` // the moment that the runs went on from
	// Until is how far all runs went in which an item was not merged; left out when there was no such run.
	Until    time.Time  `json:"until,omitzero"`
	Runs     int        `json:"runs"`     // that Items are from; 0 when nothing had to be played
	Sessions int        `json:"sessions"` // of the journal, from which the runs have their times
	Items    []Expected `json:"items"`    // what runs, and what waits in the order of the queue
	// Why explains the item that was asked about; left out of the forecast of the queue.
	Why *threads.Explanation `json:"why,omitempty"`
}

// Expected is when an item is likely to start and to be merged.
type Expected struct {
	Repo   string       `json:"repo"`
	Number int64        `json:"number"`
	Code   threads.Code `json:"code"`            // why it waits at this moment; empty when it does not
	Start  Band         `json:"start,omitzero"`  // of its first session from now on, or of the one that runs
	Merged Band         `json:"merged,omitzero"` // or closed
}

// Find returns what is expected of an item; nil when the forecast does not tell.
func (f *Forecast) Find(repo string, number int64) *Expected {
	if f == nil {
		return nil
	}
	for i := range f.Items {
		if e := &f.Items[i]; e.Repo == repo && e.Number == number {
			return e
		}
	}
	return nil
}

// Band is when something happens: before Low in one run of ten, before Middle in five, before High in nine. A time is
// left out where that is not so within the time that was played.
type Band struct {
	Low    time.Time `json:"low,omitzero"`
	Middle time.Time `json:"middle,omitzero"`
	High   time.Time `json:"high,omitzero"`
}

// Words tells a band from now on, such as "in 20m to 1h10m"; "-" when it is beyond what was played.
func (b Band) Words(now time.Time) string {
	low, high := b.Low.Sub(now), b.High.Sub(now)
	switch {
	case b.Low.IsZero():
		return "-"
	case b.High.IsZero():
		return "in " + About(low) + " or later"
	case high < time.Minute:
		return "now"
	case low < time.Minute, About(low) == About(high):
		return "in " + About(high)
	}
	return "in " + About(low) + " to " + About(high)
}

// About is Age without what no forecast knows.
func About(d time.Duration) string {
	if d = d.Round(time.Minute); d < time.Hour {
		return fmt.Sprintf("%dm", int(max(d, time.Minute).Minutes()))
	}
	return Age(d)
}
