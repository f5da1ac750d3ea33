package process

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/gate"
	"codeberg.org/johba/disinto/agents/process/landlock"
)

// isolate decides whether a session gets a network of its own, or sockets that reach this machine only, as its egress
// wants it. Where the machine can hold neither, the log says so, and the error is that of a strict session.
func (r *run) isolate(unfiltered error, strict bool) error {
	if r.job.Sandbox.Egress == nil {
		return nil
	}
	if r.job.Sandbox.OwnNetwork {
		switch err := sandboxNetwork(); {
		case err == nil:
			r.own = true
			r.held += "; it has a network of its own"
			return nil
		case strict:
			return fmt.Errorf("its sandbox is strict, and this machine gives no network of its own: %w", err)
		default:
			r.held += "; it shares this machine's network: " + err.Error()
		}
	}
	switch open := cmp.Or(unfiltered, sandboxGate()); {
	case open == nil:
		r.local = true
		r.held += "; it reaches other machines only through its proxy"
	case strict:
		return fmt.Errorf("its sandbox is strict, and this machine cannot hold its egress: %w", open)
	default:
		r.held += "; its egress is only advised: " + open.Error()
	}
	return nil
}

// proxyPorts are the ports of the operator's proxies.
func proxyPorts(env []string) (ports []int) {
	for _, name := range agents.ProxyVars {
		if port := agents.Port(agents.Getenv(env, name)); port > 0 {
			ports = append(ports, port)
		}
	}
	return ports
}

// hideProxies takes the ports of the operator's proxies on this machine from the rules: they lead anywhere.
func hideProxies(rules *landlock.Rules, env []string) {
	var own []int
	for _, name := range agents.ProxyVars {
		address := agents.Getenv(env, name)
		if port := agents.Port(address); port > 0 && gate.Local(address) {
			own = append(own, port)
		}
	}
	if len(own) > 0 && rules.AnyPort {
		rules.AnyPort, rules.Connect = false, []landlock.Range{{First: 1, Last: 65535}}
	}
	rules.Connect = without(rules.Connect, own)
}

// without returns the ranges without some ports.
func without(ranges []landlock.Range, ports []int) (rest []landlock.Range) {
	for _, r := range ranges {
		for _, port := range slices.Compact(slices.Sorted(slices.Values(ports))) {
			if r.First <= port && port <= r.Last {
				rest = append(rest, landlock.Range{First: r.First, Last: port - 1})
				r.First = port + 1
			}
		}
		rest = append(rest, r)
	}
	return slices.DeleteFunc(rest, func(r landlock.Range) bool { return r.Last < r.First })
}

// gateOrder is what the shim needs for the session's egress; nil if the session may reach all hosts.
func (r *run) gateOrder() *gate.Order {
	if r.job.Sandbox.Egress == nil {
		return nil
	}
	order := &gate.Order{Hosts: r.job.Sandbox.Egress, Setup: r.job.Sandbox.SetupEgress}
	order.Password = agents.Getenv(r.job.Env, agents.ProxyPassword)
	if r.own {
		order.Ports = slices.Compact(slices.Sorted(slices.Values(r.job.Sandbox.Connect)))
	}
	return order
}

// gateThreads are the threads that a shim needs for a session with egress: one answers each question for a socket, and
// one resolves names.
func (o *startOrder) gateThreads() int {
	if o.Egress == nil {
		return 0
	}
	return 2
}

// answer gives the session its sockets, for as long as it has processes.
func answer(listener int) {
	go func() {
		_ = safely("the session's sockets", func() error { gate.Answer(listener); return nil })
	}()
}

// startProxy starts the session's proxy, if it has an egress, and lets the program find it.
func (s *shim) startProxy(o *startOrder) (err error) {
	if o.Egress == nil {
		return nil
	}
	env := unpack(o.Env)
	o.Egress.Environ = env
	s.proxy, err = gate.Listen(o.Egress, func(line string) { _, _ = io.WriteString(os.Stdout, "disinto: "+line+"\n") })
	if err != nil {
		return err
	}
	o.Env = pack(agents.Setenv(env, s.proxy.Environ()))
	if o.Sandbox != nil {
		port := s.proxy.Port()
		o.Sandbox.Rules.Connect = append(o.Sandbox.Rules.Connect, landlock.Range{First: port, Last: port})
	}
	return nil
}

// Chooses reports whether the kernel may choose a port for a server that asks for any.
func Chooses(port int) bool {
	var first, last int
	n, err := fmt.Sscan(readPortRange(), &first, &last)
	return n == 2 && err == nil && first <= port && port <= last
}
