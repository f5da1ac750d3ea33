// Package demo has the backlog of `disinto demo`, its scripted agents, and the audit of the scheduler's rules.
//
// Only the agents' thinking is simulated. Build files the backlog over the forge's API. The agents run under the normal
// environment contract, and clone, commit, push, open pull requests and post formal reviews. Audit finds violations in
// the supervisor's events and in the forge's data.
package demo
