package sim

import (
	"maps"
	"time"
)

// Slower returns a model in which a delay takes the given multiple of its time. It returns nil if the model has not
// learnt the delay, or if the delay is zero.
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
