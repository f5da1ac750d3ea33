package supervisor

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// kicks wake the loops, one for each thread that has one. The zero value has none.
type kicks struct {
	mu      sync.Mutex // guards what follows
	threads map[string]*kick
}

// kick wakes the loop of one thread.
type kick struct {
	wake chan struct{} // 1-buffered: a kick during a tick is not lost, and ten are one
	need time.Time     // the tick wants facts requested at this time or later
}

// add makes the kick of a thread's loop, which is to tick at once; nil when the thread has a loop already.
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

// remove ends the kicks of a thread whose loop is over.
func (k *kicks) remove(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.threads, name)
}

// need says how new the facts of a thread's next tick have to be; zero when that does not matter.
func (k *kicks) need(name string) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if one := k.threads[name]; one != nil {
		return one.need
	}
	return time.Time{}
}

// thread wakes a thread's loop, which then decides on facts requested no earlier than need.
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

// touchStatus says that the status is another now.
func (s *Supervisor) touchStatus() {
	s.touches.Add(1)
	select {
	case s.changed <- struct{}{}:
	default:
	}
}
