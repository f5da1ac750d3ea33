package rules

import (
	"bytes"
	"crypto/sha1"
	"fmt"
	"net/http"
	"strings"
)

// noObject stands for a missing ref in a push.
const noObject = "0000000000000000000000000000000000000000"

// move moves a ref through receive-pack, in one request and without git, and reports whether that succeeded. The
// forge must already have the objects.
func (r *repo) move(by *account, ref, before, after string) bool {
	r.w.Helper()
	var body bytes.Buffer
	command := before + " " + after + " " + ref + "\x00report-status"
	fmt.Fprintf(&body, "%04x%s0000", len(command)+4, command)
	if after != noObject { // a pack without objects
		pack := []byte("PACK\x00\x00\x00\x02\x00\x00\x00\x00")
		sum := sha1.Sum(pack)
		body.Write(pack)
		body.Write(sum[:])
	}
	req, err := http.NewRequestWithContext(r.w.ctx, http.MethodPost,
		r.w.server.URL+"/"+r.fullName()+".git/git-receive-pack", &body)
	if err != nil {
		r.w.Fatal(err)
	}
	req.SetBasicAuth(by.name, by.token)
	req.Header.Set("Content-Type", "application/x-git-receive-pack-request")
	return strings.Contains(string(r.w.send(req).body), "ok "+ref+"\n")
}

func claimPosted(w *world) {
	r := w.repo()
	c := r.claimant(r.writer("dev"))
	one, two := c.commit(), c.commit()
	c.push(1, one)
	c.push(2, two)
	for _, step := range []struct {
		what          string
		before, after string
		done          bool
		holder        string
	}{
		{"created", noObject, one, true, one},
		{"created again", noObject, one, false, one},
		{"created with another commit", noObject, two, false, one},
		{"moved from a wrong commit", two, two, false, one},
		{"taken over", one, two, true, two},
		{"released by the former holder", one, noObject, false, two},
		{"released", two, noObject, true, ""},
		{"released again", two, noObject, false, ""},
	} {
		same(w, step.what, r.move(c.by, claimRef(7), step.before, step.after), step.done)
		same(w, step.what+": holder", r.holder(7), step.holder)
	}
}

func claimAsked(w *world) {
	r := w.repo()
	const unknown = "1111111111111111111111111111111111111111"
	dev := r.writer("dev")
	for _, tc := range []struct {
		by  *account
		may bool
	}{
		{r.owner, true},
		{dev, true},
		{r.collaborator("reader", "read"), false},
		{w.account("stranger"), false},
		{dev.as(dev.newToken("read", "read:repository", "write:issue")), false},
	} {
		same(w, tc.by.name+" can delete a claim", r.move(tc.by, claimRef(0), unknown, noObject), tc.may)
	}
	same(w, "holder", r.holder(0), "")
}

func claimRead(w *world) {
	r := w.repo()
	c := r.claimant(r.writer("dev"))
	commit := c.commit()
	c.push(7, commit)
	got := read[struct {
		SHA    string `json:"sha"`
		Commit struct {
			Message string `json:"message"`
		} `json:"commit"`
	}](r.collaborator("reader", "read"), r.at("/git/commits/%s", commit))
	same(w, "name", got.SHA, commit)
	same(w, "message", got.Commit.Message, c.by.git(c.dir, "log", "-1", "--format=%B", commit)+"\n")
	r.owner.get(r.at("/git/commits/%s", strings.Repeat("1", 40))).want(http.StatusNotFound)
}
