package demo

import "time"

// The fields of the forge's API that the demo reads.
type (
	wireUser struct {
		Login string `json:"login"`
	}
	wireIssue struct {
		Number int64     `json:"number"`
		Title  string    `json:"title"`
		Body   string    `json:"body"`
		Closed time.Time `json:"closed_at"`
	}
	wirePull struct {
		Number int64    `json:"number"`
		Title  string   `json:"title"`
		Body   string   `json:"body"`
		User   wireUser `json:"user"`
		Merged bool     `json:"merged"`
		Head   struct {
			Ref string `json:"ref"`
			SHA string `json:"sha"`
		} `json:"head"`
		Base struct {
			Ref string `json:"ref"`
		} `json:"base"`
	}
	wireReview struct {
		User     wireUser `json:"user"`
		State    string   `json:"state"`
		CommitID string   `json:"commit_id"`
	}
)
