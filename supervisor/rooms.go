package supervisor

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/threads"
)

const (
	roomRest  = 30 * time.Second        // between two measurements of the room elsewhere
	reachRest = 2500 * time.Millisecond // between two questions whether an engine answers
)

// keepRooms measures the room of machines elsewhere, and watches whether their engines answer, until ctx is done. After
// an outage the room is measured at once.
func (p *planner) keepRooms(ctx context.Context) {
	measured, rooms := time.Time{}, map[string]threads.Room{}
	for {
		config, down := p.state.config(), map[string]threads.Room{}
		if config != nil {
			p.findDown(ctx, config, down)
		}
		if len(down) > 0 {
			measured, rooms = time.Time{}, down
		} else if config != nil && time.Since(measured) >= roomRest {
			measured, rooms = time.Now(), map[string]threads.Room{}
			for i := range config.Agents {
				p.measure(ctx, config, &config.Agents[i], rooms)
			}
		}
		p.state.setRooms(rooms)
		select {
		case <-ctx.Done():
			return
		case <-time.After(reachRest):
		}
	}
}

// findDown adds the agents whose engine does not answer, with the reason.
func (p *planner) findDown(ctx context.Context, config *threads.Config, down map[string]threads.Room) {
	asked := map[string]error{}
	for i := range config.Agents {
		a := &config.Agents[i]
		t := config.Thread(a.Thread)
		far, ok := p.elsewhere[t.Executor].(reacher)
		if !ok {
			continue
		}
		err, known := asked[t.Executor]
		if !known {
			err = far.Reach(ctx)
			asked[t.Executor] = err
		}
		if err != nil {
			down[a.Name] = threads.Room{Memory: math.MaxInt64, Disk: math.MaxInt64, Down: text(err)}
		}
	}
}

// measure adds the room of an agent that runs elsewhere. An unknown room holds back nothing.
func (p *planner) measure(
	ctx context.Context, config *threads.Config, a *agents.Agent, rooms map[string]threads.Room,
) {
	t := config.Thread(a.Thread)
	unknown := threads.Room{Memory: math.MaxInt64, Disk: math.MaxInt64}
	room := unknown
	if far, ok := p.elsewhere[t.Executor].(roomer); ok {
		if memory, disk, err := far.Room(ctx, t.Name); err == nil {
			room.Memory, room.Disk = memory, disk
		}
	}
	if far, ok := p.elsewhere[t.Executor].(placer); ok {
		if why, err := far.Unfit(ctx, config.Placed(a)); err == nil {
			room.None = why
		}
	}
	if room != unknown {
		rooms[a.Name] = room
	}
}

func (st *state) setRooms(rooms map[string]threads.Room) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.cfg == nil || !maps.Equal(st.cfg.Factory.LackIn(st.rooms), st.cfg.Factory.LackIn(rooms)) {
		st.changedLocked()
	}
	st.rooms = rooms
}

// nomadDown returns a line for the status about Nomad's outage; none while it answers.
func (st *state) nomadDown() (lines []string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, r := range st.rooms {
		if line := control.NomadProblem + r.Down; r.Down != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}
