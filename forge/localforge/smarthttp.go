package localforge

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// maxPush bounds a push in bytes. A push is read completely before the repository is locked, so that a slow client
// delays no other.
const maxPush = 512 << 20

// gitRequest is a request of git's smart HTTP protocol.
type gitRequest struct {
	f       *Forge
	w       http.ResponseWriter
	r       *http.Request
	service string // upload-pack or receive-pack
	view    view
	repo    *repo
	access  access
	// location is where the repository is now, if it was renamed.
	location string
}

// serveGit answers OWNER/NAME(.git)/info/refs and requests to the two services.
func (f *Forge) serveGit(w http.ResponseWriter, r *http.Request) {
	path := strings.Trim(r.URL.Path, "/")
	g := &gitRequest{f: f, w: w, r: r}
	var name string
	advertise := false
	switch {
	case r.Method == http.MethodGet && strings.HasSuffix(path, "/info/refs"):
		name, advertise = strings.TrimSuffix(path, "/info/refs"), true
		g.service = strings.TrimPrefix(r.URL.Query().Get("service"), "git-")
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/git-upload-pack"):
		name, g.service = strings.TrimSuffix(path, "/git-upload-pack"), "upload-pack"
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/git-receive-pack"):
		name, g.service = strings.TrimSuffix(path, "/git-receive-pack"), "receive-pack"
	}
	owner, repo, ok := strings.Cut(strings.TrimSuffix(name, ".git"), "/")
	if !ok || (g.service != "upload-pack" && g.service != "receive-pack") {
		http.NotFound(w, r)
		return
	}
	if status := g.admit(owner, repo, advertise); status != http.StatusOK {
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Basic realm="Gitea"`)
		}
		if g.location != "" {
			w.Header().Set("Location", g.location)
		}
		http.Error(w, http.StatusText(status), status)
		return
	}
	switch {
	case advertise:
		g.advertise()
	case g.service == "upload-pack":
		g.uploadPack()
	default:
		g.receivePack()
	}
}

// admit finds the repository and checks the caller's access. It admits a reader's push and leaves the rejection to
// the hook, because git shows the reason of a hook only.
func (g *gitRequest) admit(owner, name string, advertise bool) int {
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	if !advertise {
		g.f.requests["GIT "+g.service]++
	}
	who, err := g.f.identifyLocked(g.r)
	if err != nil {
		return http.StatusUnauthorized
	}
	if g.f.opt.URL == "" {
		g.f.lastURL = "http://" + g.r.Host
	}
	g.view = view{f: g.f, base: g.f.lastURL, doer: who.user}
	g.repo = g.f.repoLocked(owner, name)
	public := g.repo != nil && !g.repo.private && g.service == "upload-pack"
	if public && who.user == nil {
		return http.StatusOK
	}
	method := http.MethodGet
	if g.service == "receive-pack" {
		method = http.MethodPost
	}
	switch {
	case who.user == nil:
		return http.StatusUnauthorized
	case !who.user.active, who.user.prohibitLogin,
		who.scopes != nil && missingScope(who.scopes, scopeRepository, method) != "":
		return http.StatusForbidden
	case g.repo == nil:
		if g.location = g.f.redirectLocked(owner, name, g.r.URL); g.location != "" {
			return http.StatusTemporaryRedirect
		}
		return http.StatusNotFound
	case g.repo.archived && g.service == "receive-pack":
		return http.StatusForbidden
	}
	if g.access = g.repo.accessOf(who.user); g.access < accessRead {
		return http.StatusNotFound
	}
	return http.StatusOK
}

// command returns the git command of this request, in the client's protocol version.
func (g *gitRequest) command(stdin io.Reader, stdout io.Writer) Cmd {
	cmd := Cmd{Dir: g.repo.dir, Stdin: stdin, Stdout: stdout}
	if protocol := g.r.Header.Get("Git-Protocol"); protocol != "" && !strings.ContainsAny(protocol, "\x00\n") {
		cmd.Env = append(cmd.Env, "GIT_PROTOCOL="+protocol)
	}
	return cmd
}

func (g *gitRequest) noCache(kind string) {
	g.w.Header().Set("Content-Type", "application/x-git-"+g.service+"-"+kind)
	g.w.Header().Set("Cache-Control", "no-cache, max-age=0, must-revalidate")
}

// hidden makes git reject pushes to the refs of pull requests.
const hidden = "receive.hideRefs=refs/pull/"

func (g *gitRequest) advertise() {
	var refs bytes.Buffer
	err := g.f.gitIO(g.r.Context(), g.command(nil, &refs), "-c", hidden, g.service, "--stateless-rpc", "--advertise-refs",
		".")
	if err != nil {
		http.Error(g.w, err.Error(), http.StatusInternalServerError)
		return
	}
	g.noCache("advertisement")
	// The advertisement: a packet with the service, a flush packet, and git's own output.
	line := "# service=git-" + g.service + "\n"
	fmt.Fprintf(g.w, "%04x%s0000", len(line)+4, line)
	_, _ = g.w.Write(refs.Bytes())
}

// body returns the decompressed request body: git compresses bodies of more than a kilobyte.
func (g *gitRequest) body() (io.Reader, error) {
	body := http.MaxBytesReader(g.w, g.r.Body, maxPush)
	if g.r.Header.Get("Content-Encoding") != "gzip" {
		return body, nil
	}
	return gzip.NewReader(body)
}

func (g *gitRequest) uploadPack() {
	body, err := g.body()
	if err != nil {
		http.Error(g.w, err.Error(), http.StatusBadRequest)
		return
	}
	g.noCache("result")
	// When git fails, the answer has already begun, and contains git's reason.
	_ = g.f.gitIO(g.r.Context(), g.command(body, g.w), "upload-pack", "--stateless-rpc", ".")
}

func (g *gitRequest) receivePack() {
	body, err := g.body()
	if err != nil {
		http.Error(g.w, err.Error(), http.StatusBadRequest)
		return
	}
	push, err := io.ReadAll(body)
	if err != nil {
		http.Error(g.w, err.Error(), http.StatusBadRequest)
		return
	}
	var answer bytes.Buffer
	err = g.f.move(context.WithoutCancel(g.r.Context()), g.view, g.repo, func() error {
		cmd := g.command(bytes.NewReader(push), &answer)
		why, protected := g.decline(pushCommands(push))
		cmd.Env = append(cmd.Env, "LOCALFORGE_DECLINE="+why)
		hooks := os.DevNull // the hook would cost two processes and reject nothing
		if why != "" {
			hooks = "hooks"
			if err := g.repo.writeHook(); err != nil {
				return err
			}
		}
		// A protected branch must not be rewritten. autogc would start a process that looks for garbage.
		return g.f.gitIO(g.f.ctx, cmd, "-c", hidden, "-c", "receive.denyNonFastForwards="+strconv.FormatBool(protected),
			"-c", "core.hooksPath="+hooks, "-c", "receive.autogc=false", "receive-pack", "--stateless-rpc", ".")
	}, nil)
	if err != nil && answer.Len() == 0 {
		http.Error(g.w, err.Error(), http.StatusInternalServerError)
		return
	}
	g.noCache("result")
	_, _ = g.w.Write(answer.Bytes())
}

// pushCommands reads the moves of a push from the packets before the first flush, "OLD NEW REF" each. The first packet
// ends with the capabilities.
func pushCommands(push []byte) []moved {
	var commands []moved
	for len(push) >= 4 {
		size, err := strconv.ParseUint(string(push[:4]), 16, 16)
		if err != nil || size < 4 || int(size) > len(push) {
			break // the flush, or not a push, which git rejects
		}
		line, _, _ := strings.Cut(string(push[4:size]), "\x00")
		if field := strings.Fields(line); len(field) == 3 {
			commands = append(commands, moved{ref: field[2], before: field[0], after: field[1]})
		}
		push = push[size:]
	}
	return commands
}

// decline returns why the whole push is rejected ("" if it is not), and whether one of its refs is a protected branch.
func (g *gitRequest) decline(commands []moved) (why string, protected bool) {
	g.f.mu.Lock()
	defer g.f.mu.Unlock()
	if g.access < accessWrite {
		return "User permission denied for writing.", false
	}
	for _, m := range commands {
		if g.f.hook != nil {
			if why := g.f.hook(g.repo.fullName(), m.ref); why != "" {
				return why, false
			}
		}
		branch := branchName(m.ref)
		rule := g.repo.protectionOf(branch)
		if branch == "" || rule == nil {
			continue
		}
		protected = true
		if m.after == noCommit {
			return "branch " + branch + " is protected from deletion", true
		}
		if !rule.mayPush(g.view.doer, g.access) {
			return "Not allowed to push to protected branch " + branch, true
		}
	}
	return "", protected
}
