package control

import (
	"fmt"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// Forecast is the answer of GET /v1/forecast: probable times, from many simulated runs of the factory in its present
// state.
type Forecast struct {
	At time.Time `json:"at"` // the moment at which the runs started
	// Until is the time that all runs reached in which an item was not merged; left out if there was no such run.
	Until    time.Time  `json:"until,omitzero"`
	Runs     int        `json:"runs"`     // behind Items; 0 if no run was needed
	Sessions int        `json:"sessions"` // sessions of the journal that the runs take their times from
	Items    []Expected `json:"items"`    // the running items, and the waiting ones in queue order
	// Why explains the requested item; left out of the forecast of the queue.
	Why *threads.Explanation `json:"why,omitempty"`
}

// Expected holds the probable times of an item's start and merge.
type Expected struct {
	Repo   string       `json:"repo"`
	Number int64        `json:"number"`
	Code   threads.Code `json:"code"`            // why it waits now; empty when it does not
	Start  Band         `json:"start,omitzero"`  // of its next session, or of the running one
	Merged Band         `json:"merged,omitzero"` // or closed
}

// Find returns the expectation for an item; nil when the forecast has none.
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

// StartOf returns the expected start of an item as it stands now; zero if nothing starts it without a person, who takes
// unknown time. The forecast may be older than what holds the item: a pause, a label, its pull request.
func (f *Forecast) StartOf(q *QueueDocument) Band {
	e, status := f.Find(q.Repo, q.Number), q.Status()
	if e == nil || q.NeedsPerson || q.Code != "" && q.Code.Ends() != threads.ByItself ||
		q.Code == threads.HasPull || status == Running || status == Merging {
		return Band{}
	}
	return e.Start
}

// Band is the time of an event: before Low in one run of ten, before Middle in five, before High in nine. A time is
// left out if it lies beyond the simulated span.
type Band struct {
	Low    time.Time `json:"low,omitzero"`
	Middle time.Time `json:"middle,omitzero"`
	High   time.Time `json:"high,omitzero"`
}

// Words formats a band relative to now, such as "in 20m to 1h10m"; "-" when it lies beyond the simulated span.
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

// About formats a duration as Age does, in whole minutes: a forecast is not more precise.
func About(d time.Duration) string {
	if d = d.Round(time.Minute); d < time.Hour {
		return fmt.Sprintf("%dm", int(max(d, time.Minute).Minutes()))
	}
	return Age(d)
}
