package rules

import (
	"slices"
	"strings"
	"time"
)

// These types hold the parts of Forgejo's JSON that the rules check.

type user struct {
	Login string `json:"login"`
}

type label struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
}

type issue struct {
	Number      int64      `json:"number"`
	Title       string     `json:"title"`
	Body        string     `json:"body"`
	State       string     `json:"state"`
	User        *user      `json:"user"`
	Labels      []label    `json:"labels"`
	Assignee    *user      `json:"assignee"`
	Assignees   []user     `json:"assignees"`
	Created     time.Time  `json:"created_at"`
	Updated     time.Time  `json:"updated_at"`
	Closed      *time.Time `json:"closed_at"`
	PullRequest *struct {
		Merged bool `json:"merged"`
	} `json:"pull_request"`
	Repository *struct {
		FullName string `json:"full_name"`
	} `json:"repository"`
}

func (i issue) labels() string { return labelNames(i.Labels) }

// assignees returns the logins in the forge's order.
func (i issue) assignees() string { return logins(i.Assignees) }

func labelNames(labels []label) string {
	var names []string
	for _, l := range labels {
		names = append(names, l.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func logins(users []user) string {
	var names []string
	for _, u := range users {
		names = append(names, u.Login)
	}
	return strings.Join(names, " ")
}

// numbers returns the numbers of a list of issues, in the order of the list.
func numbers(issues []issue) []int64 {
	list := make([]int64, 0, len(issues))
	for _, i := range issues {
		list = append(list, i.Number)
	}
	return list
}
