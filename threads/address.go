package threads

import (
	"slices"
	"strconv"

	"codeberg.org/johba/disinto/agents"
)

// Address is the address of a server in the configuration.
type Address struct {
	Key string // dotted, such as forge.url
	URL string // may hold a secret
}

// Addresses returns the addresses of all servers that the configuration names, ours included, in the order of the
// file's sections. Clients send their credentials there, or what agents read and write.
func (c *Config) Addresses() (list []Address) {
	add := func(key, url string) {
		if url != "" && url != "tcp://" {
			list = append(list, Address{key, url})
		}
	}
	f := &c.Factory
	add("forge.url", c.Forge.URL)
	add("factory.listen", "tcp://"+f.Listen)
	add("factory.listen_hooks", "tcp://"+f.ListenHooks)
	add("factory.hooks_url", f.HooksURL)
	add("factory.listen_web", "tcp://"+f.ListenWeb)
	add("factory.web_url", f.WebURL)
	add("factory.listen_metrics", "tcp://"+f.ListenMetrics)
	for i := range c.Threads {
		add("threads."+c.Threads[i].Name+".base_url", c.Threads[i].BaseURL)
	}
	for i := range c.Agents {
		add("agents."+c.Agents[i].Name+".base_url", c.Agents[i].BaseURL)
	}
	for i := range c.Services {
		if port := c.Services[i].Port(); port > 0 {
			add("services."+c.Services[i].Name, "tcp://127.0.0.1:"+strconv.Itoa(port))
		}
	}
	if slices.ContainsFunc(c.Threads, func(t Thread) bool { return t.Executor == ExecutorNomad }) {
		add("nomad.address", c.Nomad.Address)
	}
	for i := range c.Notify.To {
		to := &c.Notify.To[i]
		url := to.Endpoint.Reveal()
		if to.Kind == Mail {
			url = "tcp://" + url
		}
		add("notify.urls", url)
	}
	return list
}

// TakenPorts returns the TCP ports of Addresses, sorted.
func (c *Config) TakenPorts() []int {
	var ports []int
	for _, a := range c.Addresses() {
		if port := agents.Port(a.URL); port > 0 {
			ports = append(ports, port)
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}
