//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/nomad"
	"codeberg.org/johba/disinto/agents/plainfile"
	"codeberg.org/johba/disinto/supervisor"
	"codeberg.org/johba/disinto/threads"
)

// newNomad returns the executor of threads with executor = "nomad".
func newNomad(f *factory) supervisor.Executor {
	self, err := os.Executable()
	if err != nil {
		self = "" // matches no job's program
	}
	return &nomad.Executor{
		Config: func() nomad.Config { return nomadConfig(f.config.Load()) }, Self: self, Secrets: f.secrets,
		Forget: f.removeFence, Folder: promptsOf,
		Report: func(err error) { f.Log.Warn("session on Nomad: " + err.Error()) },
	}
}

// nomadConfig returns the cluster settings of a configuration; an empty Config for nil.
func nomadConfig(config *threads.Config) nomad.Config {
	if config == nil {
		return nomad.Config{}
	}
	n := &config.Nomad
	return nomad.Config{
		Address: n.Address, Token: n.Token, Namespace: n.Namespace, Region: n.Region, Datacenters: n.Datacenters,
		Volume: n.Volume, Program: n.Program, CACert: n.CACert, ClientCert: n.ClientCert, ClientKey: n.ClientKey,
	}
}

// promptsOf reads the prompts in the directory that a command names, to send them to a node. It returns nil for a
// command without that flag.
func promptsOf(command []string) (*nomad.Folder, error) {
	i := slices.Index(command, agents.PromptsFlag)
	if i < 0 || i+1 == len(command) {
		return nil, nil
	}
	f := &nomad.Folder{Path: command[i+1], Files: map[string]string{}}
	entries, err := os.ReadDir(f.Path)
	for _, e := range entries {
		if err != nil {
			break
		}
		if filepath.Ext(e.Name()) == ".md" {
			var text []byte
			text, err = plainfile.ReadNamed(filepath.Join(f.Path, e.Name()), mostPrompt)
			f.Files[e.Name()] = string(text)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the prompts: %w", err)
	}
	return f, nil
}

// mostPrompt limits a prompt that goes to a node: the whole order must fit into a Nomad variable of 64 KiB.
const mostPrompt = 64 << 10

// forgetter is a forge client that can delete the refs that sessions on other machines leave.
type forgetter interface {
	Forget(ctx context.Context, repo, run string) error
}

// removeFence removes the ref of a session that started without a claim.
func (f *factory) removeFence(ctx context.Context, repo, run string) error {
	config := f.config.Load()
	client, err := f.kind.client(forgeOptions{
		config: config, current: func() *threads.Config { return config }, instance: f.Instance, boot: f.boot,
		since: f.since, observe: f.metrics.Requested,
	})
	if err != nil {
		return err
	}
	if c, ok := client.(forgetter); ok {
		return c.Forget(ctx, repo, run)
	}
	return nil
}
