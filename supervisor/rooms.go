package supervisor

import (
	"context"
	"maps"
	"math"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// roomRest is the time between two measurements of the room elsewhere.
const roomRest = 30 * time.Second

// keepRooms measures the room of machines elsewhere, until ctx is done.
func (p *planner) keepRooms(ctx context.Context) {
	for {
		rooms := make(map[string]threads.Room)
		if config := p.state.config(); config != nil {
			for i := range config.Threads {
				p.measure(ctx, &config.Threads[i], rooms)
			}
		}
		p.state.setRooms(rooms)
		select {
		case <-ctx.Done():
			return
		case <-time.After(roomRest):
		}
	}
}

// measure adds the room of a thread that runs elsewhere. An unknown room holds back nothing.
func (p *planner) measure(ctx context.Context, t *threads.Thread, rooms map[string]threads.Room) {
	unknown := threads.Room{Memory: math.MaxInt64, Disk: math.MaxInt64}
	room := unknown
	if far, ok := p.elsewhere[t.Executor].(roomer); ok {
		if memory, disk, err := far.Room(ctx, t.Name); err == nil {
			room.Memory, room.Disk = memory, disk
		}
	}
	if far, ok := p.elsewhere[t.Executor].(placer); ok {
		if why, err := far.Unfit(ctx, t.Nodes); err == nil {
			room.None = why
		}
	}
	if room != unknown {
		rooms[t.Name] = room
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
