// Package hire gives a factory a new agent: an account on the forge with a token and write access, a profile repository
// for its memory, and its lines in factory.toml. Retiring removes them and keeps the work of the agent.
//
// Both are a list of steps. Each step first looks whether there is anything left to do, so that a run that broke off
// is completed by running it again. Nothing is removed before its replacement is written and proven: an old token is
// revoked last.
//
// Editing factory.toml and the secrets file is pure: text in, text out, and everything that a person wrote stays in
// place. The package knows factory.toml as TOML; Factory.Validate decides whether an edited one is valid.
package hire
