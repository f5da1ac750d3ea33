package localforge

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// lfsType is the type of every request and answer of Git LFS that is not an object.
const lfsType = "application/vnd.git-lfs+json"

func isLFS(id string) bool { return len(id) == 64 && strings.Trim(id, "0123456789abcdef") == "" }

type lfsAction struct {
	Href   string            `json:"href"`
	Header map[string]string `json:"header,omitempty"`
}

type lfsError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

type lfsObject struct {
	OID     string               `json:"oid"`
	Size    int64                `json:"size"`
	Actions map[string]lfsAction `json:"actions,omitempty"`
	Error   *lfsError            `json:"error,omitempty"`
}

// lfsRequest is a request to OWNER/NAME.git/info/lfs.
type lfsRequest struct {
	*gitRequest
	root string // the address of the repository's objects
}

// serveLFS answers Git LFS with basic transfers, as Forgejo does, and without locks.
func (f *Forge) serveLFS(w http.ResponseWriter, r *http.Request) {
	name, action, _ := strings.Cut(strings.Trim(r.URL.Path, "/"), "/info/lfs/")
	owner, repo, _ := strings.Cut(strings.TrimSuffix(name, ".git"), "/")
	g := &gitRequest{f: f, w: w, r: r, service: "upload-pack"}
	if r.Method == http.MethodPut {
		g.service = "receive-pack"
	}
	if status := g.admit(owner, repo, true); status != http.StatusOK {
		if status == http.StatusUnauthorized {
			w.Header().Set("LFS-Authenticate", `Basic realm="Gitea"`)
		}
		http.Error(w, http.StatusText(status), status)
		return
	}
	q := &lfsRequest{g, fmt.Sprintf("%s/%s.git/info/lfs/objects", g.view.base, strings.TrimSuffix(name, ".git"))}
	id, size, _ := strings.Cut(strings.TrimPrefix(action, "objects/"), "/")
	switch {
	case r.Method == http.MethodPost && action == "objects/batch":
		q.batch()
	case r.Method == http.MethodPost && action == "verify":
		q.verify()
	case r.Method == http.MethodGet && isLFS(id):
		http.ServeFile(w, r, g.repo.lfsPath(id))
	case r.Method == http.MethodPut && isLFS(id) && g.access >= accessWrite:
		q.upload(id, size)
	default:
		http.NotFound(w, r)
	}
}

func (r *repo) lfsPath(id string) string { return filepath.Join(r.dir, "lfs", id) }

// stored reports whether the repository has an object of this size.
func (r *repo) stored(o lfsObject) bool {
	info, err := os.Stat(r.lfsPath(o.OID))
	return err == nil && info.Size() == o.Size
}

func (q *lfsRequest) batch() {
	var form struct {
		Operation string      `json:"operation"`
		Objects   []lfsObject `json:"objects"`
	}
	if !q.read(&form) {
		return
	}
	upload := form.Operation == "upload"
	if upload && q.access < accessWrite {
		q.w.Header().Set("LFS-Authenticate", `Basic realm="Gitea"`)
		http.Error(q.w, "write access is required", http.StatusUnauthorized)
		return
	}
	if scheme, _, _ := strings.Cut(q.r.Header.Get("Authorization"), " "); upload && strings.EqualFold(scheme, "token") {
		// Forgejo takes it for a token of its own Git LFS, then knows no account, and panics.
		http.Error(q.w, "", http.StatusInternalServerError)
		return
	}
	header := map[string]string{}
	if authorization := q.r.Header.Get("Authorization"); authorization != "" {
		header["Authorization"] = authorization
	}
	for i := range form.Objects {
		o := &form.Objects[i]
		switch has := isLFS(o.OID) && q.repo.stored(*o); {
		case upload && !has:
			o.Actions = map[string]lfsAction{
				"upload": {fmt.Sprintf("%s/%s/%d", q.root, o.OID, o.Size), header},
				"verify": {strings.TrimSuffix(q.root, "objects") + "verify", header},
			}
		case !upload && has:
			o.Actions = map[string]lfsAction{"download": {q.root + "/" + o.OID, header}}
		case !upload:
			o.Error = &lfsError{http.StatusNotFound, "Not found"}
		}
	}
	q.answer(http.StatusOK, map[string]any{"transfer": "basic", "objects": form.Objects})
}

func (q *lfsRequest) verify() {
	var o lfsObject
	if !q.read(&o) {
		return
	}
	status := http.StatusOK
	if !isLFS(o.OID) || !q.repo.stored(o) {
		status = http.StatusUnprocessableEntity
	}
	q.answer(status, o)
}

func (q *lfsRequest) upload(id, size string) {
	body, err := io.ReadAll(http.MaxBytesReader(q.w, q.r.Body, maxPush))
	sum := sha256.Sum256(body)
	if err != nil || hex.EncodeToString(sum[:]) != id || strconv.Itoa(len(body)) != size {
		http.Error(q.w, "the content does not match its id or size", http.StatusUnprocessableEntity)
		return
	}
	path := q.repo.lfsPath(id)
	err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, body, 0o600))
	if err != nil {
		http.Error(q.w, err.Error(), http.StatusInternalServerError)
	}
}

// read decodes a request, and answers one of the wrong type as Forgejo does.
func (q *lfsRequest) read(form any) bool {
	if accept, _, _ := strings.Cut(q.r.Header.Get("Accept"), ";"); strings.TrimSpace(accept) != lfsType {
		http.Error(q.w, http.StatusText(http.StatusUnsupportedMediaType), http.StatusUnsupportedMediaType)
		return false
	}
	if err := json.NewDecoder(http.MaxBytesReader(q.w, q.r.Body, maxPush)).Decode(form); err != nil {
		http.Error(q.w, err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

func (q *lfsRequest) answer(status int, v any) {
	q.w.Header().Set("Content-Type", lfsType)
	q.w.WriteHeader(status)
	_ = json.NewEncoder(q.w).Encode(v)
}
