//go:build linux

package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"codeberg.org/johba/disinto/agents/process"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/supervisor/control"
	"codeberg.org/johba/disinto/supervisor/journal"
)

// attach connects the factory with its init, and gives it what earlier supervisors stored there: the lock of the state
// directory, the listeners, and the shims of sessions that go on. init is nil without one.
func (f *factory) attach(init *process.InitLink) error {
	f.listeners = &listenerSet{}
	f.Listen, f.ListenTCP = f.listeners.unix, f.listeners.tcp
	f.Stop = func() { _ = syscall.Kill(cmp.Or(f.PID, os.Getpid()), syscall.SIGTERM) } // without an init, we are signalled
	if init == nil {
		return nil
	}
	f.init, f.Upgrade, f.Ready = init, f.upgrade, f.sayReady
	f.Started, f.Upgrades, f.Crashes, f.CrashWhy = init.Started, init.Upgrades, init.Crashes, init.Why
	f.PID = os.Getppid()
	f.listeners.store, f.listeners.left = init, make(map[string]int)
	lock := storedLock + f.StateDir
	var shims []process.Kept
	for _, k := range init.Kept {
		switch {
		case k.Name == lock:
			f.Held = os.NewFile(uintptr(k.FD), filepath.Join(f.StateDir, "lock"))
		case strings.HasPrefix(k.Name, storedListener):
			f.listeners.left[k.Name] = k.FD
		default:
			shims = append(shims, k)
		}
	}
	if c := f.config.Load(); c != nil {
		f.listeners.dropUnused(filepath.Join(f.StateDir, control.SocketName), c.Factory.Listen, c.Factory.ListenHooks,
			c.Factory.ListenWeb, c.Factory.ListenMetrics)
	}
	f.local.Store, f.local.InitPID = init, f.PID
	f.local.Adopt(shims)
	if f.Held != nil {
		return nil
	}
	if err := os.MkdirAll(f.StateDir, 0o711); err != nil {
		return fmt.Errorf("cannot create the state directory: %w", err)
	}
	held, err := journal.Lock(f.StateDir, f.PID)
	if err != nil {
		return err
	}
	f.Held = held
	return init.Keep(lock, process.Descriptor(held), 0, 0)
}

// sayReady tells the init that this supervisor takes signals, and how long sessions may take to end.
func (f *factory) sayReady() {
	if f.init == nil {
		return
	}
	grace := supervisor.DefaultGrace
	if c := f.config.Load(); c != nil {
		grace = c.Factory.StopGrace
	}
	f.init.Ready(grace)
}
