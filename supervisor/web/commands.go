package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"codeberg.org/johba/disinto/supervisor/control"
)

// commands maps the name in the address to the command, for visitors who may steer. Each runs the command of the
// control API with that name and returns its answer. A button in a row belongs to the form "do" of its page, because
// a row is the same for all visitors and the secret in the form is not.
var commands = map[string]func(*Site, context.Context, url.Values) (string, error){
	"approve": onItem,
	"retry":   onItem,
	"release": onItem,
	"cancel":  onItem,
	"drain": func(s *Site, ctx context.Context, form url.Values) (string, error) {
		return s.report(ctx, "drain", control.DrainRequest{
			ThenStop: form.Get("then") == "stop", By: form.Get("by"), Why: strings.TrimSpace(form.Get("why")),
		})
	},
	"pause":  onName,
	"resume": onName,
	"convoy-start": func(s *Site, ctx context.Context, form url.Values) (string, error) {
		return s.report(ctx, "convoy/start", control.ItemRequest{Ref: form.Get("ref")})
	},
	"convoy-cancel": func(s *Site, ctx context.Context, form url.Values) (string, error) {
		return s.report(ctx, "convoy/cancel", control.ConvoyCancelRequest{Ref: form.Get("ref")})
	},
	"new": func(s *Site, ctx context.Context, form url.Values) (string, error) {
		return s.sling(ctx, control.SlingRequest{
			Title: form.Get("title"), Body: form.Get("body"), Repo: form.Get("repo"),
		})
	},
	"tell": func(s *Site, ctx context.Context, form url.Values) (string, error) {
		return s.report(ctx, "tell", control.TellRequest{
			Ref: form.Get("ref"), Text: form.Get("text"), By: form.Get("by"),
		})
	},
	"sling": func(s *Site, ctx context.Context, form url.Values) (string, error) {
		return s.sling(ctx, control.SlingRequest{Ref: form.Get("ref")})
	},
}

func onItem(s *Site, ctx context.Context, form url.Values) (string, error) {
	if refs := strings.Fields(form.Get("refs")); len(refs) > 0 {
		return s.onEach(ctx, form.Get("command"), refs)
	}
	return s.report(ctx, form.Get("command"), control.ItemRequest{Ref: form.Get("ref")})
}

// onEach runs a command on each item. What one of them refuses does not keep the others.
func (s *Site) onEach(ctx context.Context, command string, refs []string) (string, error) {
	done, more := 0, ""
	for _, ref := range refs {
		var r control.Report
		var no *control.Refusal
		switch err := s.API.Post(ctx, "/v1/"+command, control.ItemRequest{Ref: ref}, &r); {
		case errors.As(err, &no):
			more += "; refused: " + err.Error()
		case err != nil:
			return "", fmt.Errorf("%s of %s done, then: %w", command, control.Count(done, "item"), err)
		case r.Pending != "":
			more += "; " + r.Subject + ": " + r.Pending
			done++
		default:
			done++
		}
	}
	said := fmt.Sprintf("%s: %d of %s done%s", command, done, control.Count(len(refs), "item"), more)
	if done < len(refs) {
		return "", errors.New(said)
	}
	return said, nil
}

func onName(s *Site, ctx context.Context, form url.Values) (string, error) {
	return s.report(ctx, form.Get("command"), control.PauseRequest{
		Name: form.Get("name"), By: form.Get("by"), Why: strings.TrimSpace(form.Get("why")),
	})
}

func (s *Site) sling(ctx context.Context, request control.SlingRequest) (string, error) {
	var report control.SlingReport
	err := s.API.Post(ctx, "/v1/sling", request, &report)
	return report.Line(), err
}

// report runs a command and returns a line that says what it did.
func (s *Site) report(ctx context.Context, command string, request any) (string, error) {
	var r control.Report
	if err := s.API.Post(ctx, "/v1/"+command, request, &r); err != nil {
		return "", err
	}
	return r.Line(), nil
}

// mayOnlyLook is the answer to a command of a visitor who may not steer.
var mayOnlyLook = &control.Refusal{
	Status: http.StatusForbidden,
	Words:  "your account may only look: commands need write access to every repository of the factory",
}

// runCommand runs a command and redirects to the page that sent it, which shows the command's answer.
func (s *Site) runCommand(w http.ResponseWriter, r *http.Request, v *visitor) {
	name := r.PathValue("command")
	command := commands[name]
	switch {
	case !checkForm(w, r, v):
		return
	case command == nil:
		http.NotFound(w, r)
		return
	case !v.Steers:
		s.refuse(w, r, v, mayOnlyLook)
		return
	}
	form := r.PostForm
	form.Set("command", name)
	form.Set("by", visitorName(v))
	said, err := command(s, r.Context(), form)
	if err != nil {
		said = err.Error()
	}
	s.visitors.setNotice(v, said, err != nil)
	about := form.Get("ref") + form.Get("refs") + form.Get("name")
	s.Log.Info("the control room: " + visitorName(v) + " said " + name + " " + strings.TrimSpace(about))
	back := local(r.PostFormValue("back"))
	if strings.HasPrefix(back, "/confirm") {
		back = "/"
	}
	http.Redirect(w, r, back, http.StatusSeeOther)
}

// visitorName returns a visitor's name for the log.
func visitorName(v *visitor) string {
	if v.Name == "" {
		return "the holder of the token"
	}
	return v.Name
}

// log sends the output of an issue's or an agent's sessions as text. With "follow" it continues while one runs.
func (s *Site) log(w http.ResponseWriter, r *http.Request, _ *visitor) {
	query := r.URL.Query()
	ask := control.LogQuery{
		Of: query.Get("ref"), Session: query.Get("session"), Lines: 2000, Follow: query.Has("follow"),
		Times: true,
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	out := &control.Clock{W: flusher{w, http.NewResponseController(w)}, Now: func() time.Time { return time.Now().UTC() }}
	defer out.Close()
	if err := s.API.Copy(r.Context(), "/v1/log?"+ask.Values().Encode(), out); err != nil {
		_, _ = io.WriteString(w, err.Error()+"\n")
	}
}

// flusher flushes after each write, so that the browser gets a log as it is written.
type flusher struct {
	io.Writer
	out *http.ResponseController
}

func (f flusher) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	if err == nil {
		err = f.out.Flush()
	}
	return n, err
}
