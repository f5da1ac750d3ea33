// Package hire gives a factory a new agent: an account on the forge with a token and write access, a profile repository
// for its memory, and its entry in factory.toml. Retiring an agent removes all of these but the account, the profile
// and the agent's work.
//
// Hiring and retiring are lists of steps. Each step first checks whether anything is left to do, so that repeating an
// interrupted run completes it. Nothing is removed before its replacement is written and tested: old tokens are revoked
// last.
//
// Edits of factory.toml and of the secrets file are pure: text in, text out, and everything that a person wrote stays.
// The package treats factory.toml as plain TOML; Factory.Validate decides whether the edited text is valid.
package hire
