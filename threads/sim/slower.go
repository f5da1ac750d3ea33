package sim

import (
	"maps"
	"time"
)

// Slower returns a model in which a delay is so many times as long. It is nil where the model has learnt of no such
// delay, or that it takes no time.
func (m *Model) Slower(of Delay, times int) *Model {
	if m == nil {
		return nil
	}
	list := m.delays[of]
	if len(list) == 0 || list[len(list)-1] == 0 {
		return nil
	}
	other := *m
	other.delays = maps.Clone(m.delays)
	longer := make([]time.Duration, len(list))
	for i, d := range list {
		longer[i] = d * time.Duration(times)
	}
	other.delays[of] = longer
	return &other
}
