// Package demo is the factory that `disinto demo` shows: the backlog it begins with, the agents that work on it, and
// the checks that say whether the rules were kept.
//
// Nothing in it is pretended but the thinking. The backlog is filed over the forge's API; the agents are programs that
// get what every agent gets, the environment contract, and really clone, commit, push, open pull requests and post
// formal reviews. Whether rules were kept is computed from the supervisor's events and from the forge, not assumed.
package demo
