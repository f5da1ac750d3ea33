// Package tomltext edits TOML as text, so that comments, order and layout of all that is not touched stay, and tells
// on which line each key stands. The TOML decoder knows values only; the one scanner in this package knows where they
// are written.
//
// Texts must be valid TOML. An edit finds its place by reading keys and never checks values: callers decode the result.
package tomltext
