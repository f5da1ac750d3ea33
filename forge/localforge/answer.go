package localforge

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	defaultPage = 30 // entries in a page if the request has no "limit"
	maxPage     = 50 // most entries in a page, whatever "limit" is
	maxBody     = 32 << 20
)

// refusal is an answer other than success.
type refusal struct {
	status  int
	message string
	empty   bool // answer without a body, as Forgejo does for some 403
	// location is where a redirect leads.
	location string
	conflict *wireConflict // in place of a message
}

func (e *refusal) Error() string { return e.message }

func fail(status int, format string, args ...any) error {
	return &refusal{status: status, message: fmt.Sprintf(format, args...)}
}

func notFound() error { return fail(http.StatusNotFound, "The target couldn't be found.") }

// forbidden returns a 403 without a body, for handlers that check rights themselves.
func forbidden() error { return &refusal{status: http.StatusForbidden, empty: true} }

// raw is an answer that is not JSON.
type raw struct {
	contentType string
	body        []byte
}

// listing is one page of a list.
type listing struct {
	items any
	total int
}

// paging reads page and limit as Forgejo does.
func (c *call) paging() (page, limit int) {
	query := c.r.URL.Query()
	page, _ = strconv.Atoi(query.Get("page"))
	limit, _ = strconv.Atoi(query.Get("limit"))
	if limit <= 0 {
		limit = defaultPage
	}
	return max(page, 1), min(limit, maxPage)
}

// paged returns the requested page of all.
func paged[T, W any](c *call, all []T, wire func(T) W) listing {
	page, limit := c.paging()
	start := min((page-1)*limit, len(all))
	stop := min(start+limit, len(all))
	items := make([]W, 0, stop-start)
	for _, item := range all[start:stop] {
		items = append(items, wire(item))
	}
	return listing{items: items, total: len(all)}
}

// bind decodes the request's JSON.
func (c *call) bind(form any) error {
	if len(bytes.TrimSpace(c.body)) == 0 {
		return nil
	}
	if err := json.Unmarshal(c.body, form); err != nil {
		return fail(http.StatusUnprocessableEntity, "[]: %v", err)
	}
	return nil
}

// missing returns Forgejo's error for an empty field.
func missing(field string) error {
	return fail(http.StatusUnprocessableEntity, "[%s]: Required", field)
}

// since reads the parameter of that name; a missing one is zero.
func (c *call) since() (since time.Time, err error) {
	if text := c.r.URL.Query().Get("since"); text != "" {
		if since, err = time.Parse(time.RFC3339, text); err != nil {
			return since, fail(http.StatusUnprocessableEntity, "%v", err)
		}
	}
	return since.Truncate(time.Second), nil
}

// number reads a numeric path parameter; 0, which no item has, if it is not a number.
func (c *call) number(name string) int64 {
	n, _ := strconv.ParseInt(c.r.PathValue(name), 10, 64)
	return n
}

// write sends the result of a handler. It does not hold the lock, so body must not share memory with state that is
// changed in place.
func (c *call) write(status int, body any, err error) {
	header := c.w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	if err != nil {
		var no *refusal
		if !errors.As(err, &no) {
			no = &refusal{status: http.StatusInternalServerError, message: err.Error()}
		}
		if no.location != "" {
			header.Set("Location", no.location)
			no.empty = true
		}
		if no.empty {
			c.w.WriteHeader(no.status)
			return
		}
		if no.conflict != nil {
			writeJSON(c.w, no.status, no.conflict)
			return
		}
		if no.status == http.StatusInternalServerError && (c.doer == nil || !c.doer.admin) {
			no = &refusal{status: no.status} // only admins see internal errors
		}
		refused := map[string]any{"message": no.message, "url": c.base + "/api/swagger"}
		if no.status == http.StatusNotFound {
			refused["errors"] = []string{}
		}
		writeJSON(c.w, no.status, refused)
		return
	}
	switch b := body.(type) {
	case nil:
		c.w.WriteHeader(status)
	case raw:
		header.Set("Content-Type", b.contentType)
		c.w.WriteHeader(status)
		_, _ = c.w.Write(b.body)
	case listing:
		header.Set("X-Total-Count", strconv.Itoa(b.total))
		writeJSON(c.w, status, b.items)
	default:
		writeJSON(c.w, status, body)
	}
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json;charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
