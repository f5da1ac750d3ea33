// Package hire gives a factory a new agent: an account on the forge with a token and write access, a profile repository
// to remember in, and its lines in factory.toml. Retiring takes them away again and leaves what the agent did.
//
// Both are a list of steps. Each step first looks whether there is anything left to do, so that a run that broke off
// anywhere is mended by running it again. Nothing is taken away before what replaces it is written down and proven: an old
// token is revoked last.
//
// Editing factory.toml and the secrets file is pure: text in, text out, with everything that a person wrote kept in place.
// What the package needs of the forge it says in its interfaces; it knows factory.toml as TOML, and whoever wires it
// decides whether an edited one is valid.
package hire
