package fleet

import (
	"cmp"
	"time"

	"codeberg.org/johba/disinto/threads"
)

// Describe returns the hub's facts about each agent of a snapshot's configuration, sorted by name. unread gates all
// of them, because the forge could not be read. progress holds the time of each agent's last successful session.
func (h *Hub) Describe(snap threads.Snapshot, unread bool, progress map[string]time.Time) []Agent {
	config := *snap.Config
	config.Stealing = false // find the idle agents, and move nothing
	snap.Config, snap.Fleet = &config, nil
	h.addIdle(&snap)
	active := make(map[string]string, len(snap.Sessions))
	for i := range snap.Sessions {
		active[snap.Sessions[i].Agent] = snap.Sessions[i].Item.Ref.String()
	}
	balance := threads.Weigh(snap)
	list := make([]Agent, 0, len(balance.Loads))
	for i := range balance.Loads {
		l := &balance.Loads[i]
		a := describe(&config, l)
		if unread {
			a.State, a.StateWhy = threads.LoadGated, "its supervisor has not read the forge"
		}
		a.Active, a.LastProgressAt, a.UpdatedAt = active[l.Agent], progress[l.Agent], snap.Now
		if a.State == threads.LoadIdle && a.Active == "" {
			a.Idle, a.IdleSince = true, l.IdleSince
		}
		list = append(list, a)
	}
	return list
}

func describe(config *threads.Config, l *threads.Load) Agent {
	own := config.Agent(l.Agent)
	a := Agent{
		Agent: own.Name, Login: own.Login, Roles: []Role{}, Thread: own.Thread, Backend: config.Thread(own.Thread).Backend,
		Skills: append([]string{}, own.Skills...), State: l.State, PendingCount: l.Pending,
	}
	for _, name := range own.Roles {
		role := config.Role(name)
		a.Role = cmp.Or(a.Role, name)
		a.Roles = append(a.Roles, Role{role.Name, role.On, role.Label})
	}
	if l.Why != nil {
		a.StateWhy = l.Why.Text()
	}
	return a
}
