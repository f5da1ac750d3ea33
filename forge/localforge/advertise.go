package localforge

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// This file lists refs for git's clients without a process: every clone and fetch begins with two such requests, and
// every push with one.

// flush is the packet that ends a message of git's protocol.
const flush = "0000"

// packet returns a packet of git's protocol.
func packet(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }

// packets returns the packets of a message, without line ends and delimiters.
func packets(message []byte) (texts []string) {
	for len(message) >= 4 {
		size, err := strconv.ParseUint(string(message[:4]), 16, 16)
		size = max(size, 4) // a delimiter has no text
		if err != nil || int(size) > len(message) {
			return nil
		}
		if text := strings.TrimSuffix(string(message[4:size]), "\n"); text != "" {
			texts = append(texts, text)
		}
		message = message[size:]
	}
	return texts
}

// second reports whether the client speaks version 2 of git's protocol, which it does by default, except to push.
func (g *gitRequest) second() bool { return g.r.Header.Get("Git-Protocol") == "version=2" }

// capabilities lists, in version 2, what every git can do that has the merge-tree which we need.
var capabilities = packet("version 2\n") + packet("agent=git/localforge\n") + packet("ls-refs=unborn\n") +
	packet("fetch=shallow wait-for-done\n") + packet("object-format=sha1\n") + flush

// advertisement returns the answer to the first request of a clone, fetch or push; "" if git has to write it.
func (g *gitRequest) advertisement() string {
	switch {
	case g.service == "upload-pack" && g.second():
		return capabilities
	case g.service == "upload-pack" || g.r.Header.Get("Git-Protocol") == "version=1":
		return ""
	}
	refs, _ := g.refs()
	maps.DeleteFunc(refs, func(ref, _ string) bool { return strings.HasPrefix(ref, "refs/pull/") })
	able := "\x00report-status report-status-v2 delete-refs side-band-64k quiet atomic ofs-delta object-format=sha1 " +
		"agent=git/localforge"
	if len(refs) == 0 {
		return packet(noCommit+" capabilities^{}"+able) + flush
	}
	var out strings.Builder
	for _, ref := range slices.Sorted(maps.Keys(refs)) {
		out.WriteString(packet(refs[ref] + " " + ref + able + "\n"))
		able = ""
	}
	return out.String() + flush
}

// refs returns a copy of the repository's refs, and the full name of the default branch.
func (g *gitRequest) refs() (refs map[string]string, head string) {
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	return maps.Clone(g.repo.refs), "refs/heads/" + g.repo.defaultBranch
}

// listRefs answers a request for a list of refs; "" if it is another request, or git has to answer it.
func (g *gitRequest) listRefs(request []byte) string {
	args := packets(request)
	if !g.second() || !slices.Contains(args, "command=ls-refs") {
		return ""
	}
	shown := func(ref string) bool {
		all := true
		for _, arg := range args {
			if prefix, ok := strings.CutPrefix(arg, "ref-prefix "); ok {
				if strings.HasPrefix(ref, prefix) {
					return true
				}
				all = false
			}
		}
		return all
	}
	refs, head := g.refs()
	target := ""
	if slices.Contains(args, "symrefs") {
		target = " symref-target:" + head
	}
	var out strings.Builder
	if sha := refs[head]; shown("HEAD") && (sha != "" || slices.Contains(args, "unborn")) {
		if sha == "" {
			sha = "unborn"
		}
		out.WriteString(packet(sha + " HEAD" + target + "\n"))
	}
	for _, ref := range slices.Sorted(maps.Keys(refs)) {
		if strings.HasPrefix(ref, "refs/tags/") {
			return "" // git also shows the commit of a tag
		}
		if shown(ref) {
			out.WriteString(packet(refs[ref] + " " + ref + "\n"))
		}
	}
	return out.String() + flush
}

// advertise answers the first request of a clone, fetch or push.
func (g *gitRequest) advertise() {
	list := g.advertisement()
	if list == "" {
		var out strings.Builder
		if err := g.f.gitIO(g.r.Context(), g.command(nil, &out), "-c", hidden, g.service, "--stateless-rpc",
			"--advertise-refs", "."); err != nil {
			http.Error(g.w, err.Error(), http.StatusInternalServerError)
			return
		}
		list = out.String()
	}
	g.noCache("advertisement")
	_, _ = io.WriteString(g.w, packet("# service=git-"+g.service+"\n")+flush+list)
}
