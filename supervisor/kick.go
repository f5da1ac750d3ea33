package supervisor

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// kicks wake the loops, one kick for each thread that has a loop. The zero value has no kicks.
type kicks struct {
	mu      sync.Mutex // guards the fields below
	threads map[string]*kick
}

// kick wakes the loop of one thread.
type kick struct {
	wake chan struct{} // 1-buffered: a kick during a tick is kept, and ten of them cause one tick
	need time.Time     // the next tick needs facts requested at this time or later
}

// add creates the kick of a thread's loop, which ticks at once; nil if the thread has a loop already.
func (k *kicks) add(name string) *kick {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.threads[name] != nil {
		return nil
	}
	if k.threads == nil {
		k.threads = make(map[string]*kick)
	}
	one := &kick{wake: make(chan struct{}, 1)}
	one.wake <- struct{}{}
	k.threads[name] = one
	return one
}

// remove deletes the kick of a thread whose loop has ended.
func (k *kicks) remove(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.threads, name)
}

// need returns how new the facts of a thread's next tick must be: requested at this time or later. Zero means that any
// facts will do.
func (k *kicks) need(name string) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if one := k.threads[name]; one != nil {
		return one.need
	}
	return time.Time{}
}

// thread wakes a thread's loop, which then decides on facts requested at need or later.
func (k *kicks) thread(name string, need time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kickLocked(name, need)
}

// all wakes every loop.
func (k *kicks) all(need time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(k.threads)) {
		k.kickLocked(name, need)
	}
}

func (k *kicks) kickLocked(name string, need time.Time) {
	one := k.threads[name]
	if one == nil {
		return
	}
	if need.After(one.need) {
		one.need = need
	}
	select {
	case one.wake <- struct{}{}:
	default:
	}
}

// touchStatus marks the status as changed.
func (c *core) touchStatus() {
	c.touches.Add(1)
	select {
	case c.changed <- struct{}{}:
	default:
	}
}
