package localforge

import (
	"fmt"
	"testing"
)

// TestWhoMayAsk checks the status of each request for each account.
func TestWhoMayAsk(t *testing.T) {
	w := newWorld(t)
	w.file("one")
	w.want(201, "johba", "POST", "/user/repos", object{"name": "secret", "private": true, "auto_init": true})
	label := w.want(201, "johba", "POST", harb+"/labels", object{"name": "backlog", "color": "#fff"}).object
	labels := object{"labels": []any{label["id"]}}
	const wrong = "0000000000000000000000000000000000000000"
	for _, row := range []struct {
		who, method, path string
		body              any
		want              int
	}{
		{"", "GET", "/version", nil, 200},
		{"", "GET", "/user", nil, 401},
		{wrong, "GET", "/version", nil, 401},
		{"dev:wrong", "GET", "/user", nil, 401},
		{"dev:dev-password", "GET", "/user", nil, 200},
		{"", "GET", harb, nil, 200},
		{"", "GET", "/repos/johba/none", nil, 404},
		{"", "GET", "/repos/johba/secret", nil, 404},
		{"stranger", "GET", "/repos/johba/secret", nil, 404},
		{"root", "GET", "/repos/johba/secret", nil, 200},
		{"", "POST", harb + "/issues", object{"title": "x"}, 401},
		{"stranger", "POST", harb + "/issues", object{"title": "x"}, 201},
		{"stranger", "POST", harb + "/issues", object{"title": ""}, 422},
		{"stranger", "POST", harb + "/issues", "{no json", 422},
		{"stranger", "POST", harb + "/issues/1/comments", object{"body": "x"}, 201},
		{"stranger", "PATCH", harb + "/issues/1", object{"assignees": []string{"stranger"}}, 403},
		{"reader", "PATCH", harb + "/issues/1", object{"assignees": []string{"reader"}}, 403},
		{"dev", "PATCH", harb + "/issues/1", object{"assignees": []string{"stranger"}}, 201},
		{"dev", "PATCH", harb + "/issues/1", object{"assignees": []string{"nobody"}}, 500},
		{"dev", "PATCH", harb + "/issues/9", object{}, 404},
		{"reader", "POST", harb + "/issues/1/labels", labels, 403},
		{"dev", "POST", harb + "/issues/1/labels", labels, 200},
		{"reader", "POST", harb + "/labels", object{"name": "x", "color": "#fff"}, 403},
		{"dev", "POST", harb + "/labels", object{"name": "x", "color": "nonsense"}, 422},
		{"reader", "POST", harb + "/branches", object{"new_branch_name": "x"}, 403},
		{"dev", "GET", harb + "/branch_protections", nil, 403},
		{"dev", "GET", harb + "/hooks", nil, 403},
		{"dev", "PUT", harb + "/collaborators/stranger", object{}, 403},
		{"johba", "PUT", harb + "/collaborators/nobody", object{}, 422},
		{"dev", "GET", harb + "/collaborators/review", nil, 204},
		{"dev", "GET", harb + "/collaborators/stranger", nil, 404},
		{"dev", "DELETE", harb, nil, 403},
		{"dev", "DELETE", harb + "/issues/1", nil, 403},
		{"dev", "GET", "/admin/users", nil, 403},
		{"dev", "HEAD", harb, nil, 405},
		{"dev", "PUT", "/version", nil, 405},
		{"dev", "GET", "/no/such/thing", nil, 404},
	} {
		t.Run(fmt.Sprintf("%s %s %s", row.who, row.method, row.path), func(t *testing.T) {
			if got := w.ask(row.who, row.method, row.path, row.body); got.status != row.want {
				t.Errorf("got %d, want %d: %s", got.status, row.want, got.text)
			}
		})
	}
}

// Only admins see the reason for an internal error.
func TestInternalErrorsAreForAdmins(t *testing.T) {
	w := newWorld(t)
	w.file("one")
	body := object{"assignees": []string{"nobody"}}
	if got := w.want(500, "dev", "PATCH", harb+"/issues/1", body).object["message"]; got != "" {
		t.Errorf("a writer sees the reason %q, want none", got)
	}
	if got := w.want(500, "root", "PATCH", harb+"/issues/1", body).object["message"]; got == "" {
		t.Error("an admin sees no reason")
	}
}

func TestTokens(t *testing.T) {
	w := newWorld(t)
	const tokens = "/users/dev/tokens"
	form := object{"name": "ci", "scopes": []string{"read:issue", "write:repository"}}
	w.want(401, "dev", "POST", tokens, form)
	w.want(403, "review:review-password", "POST", tokens, form)
	w.want(201, "root:root-password", "POST", tokens, object{"name": "by-root", "scopes": []string{"all"}})
	w.want(400, "dev:dev-password", "POST", tokens, object{"name": "none"})
	w.want(400, "dev:dev-password", "POST", tokens, object{"name": "odd", "scopes": []string{"read:everything"}})
	made := w.want(201, "dev:dev-password", "POST", tokens, form).object
	w.want(400, "dev:dev-password", "POST", tokens, form)

	secret := made["sha1"].(string)
	w.want(200, secret, "GET", harb+"/issues", nil)
	w.want(403, secret, "POST", harb+"/issues", object{"title": "x"}) // the token has only read:issue
	w.want(201, secret, "POST", harb+"/branches", object{"new_branch_name": "b"})
	w.want(403, secret, "GET", "/user", nil)
	w.want(403, secret, "POST", "/user/repos", object{"name": "mine"}) // needs the scopes user and repository
	w.want(200, "anything:"+secret, "GET", harb, nil)
	w.want(200, secret+":", "GET", harb, nil)

	for _, listed := range w.want(200, "dev:dev-password", "GET", tokens, nil).list {
		if listed["sha1"] != "" {
			t.Errorf("the list shows the secret of %s", listed["name"])
		}
	}
	w.want(204, "dev:dev-password", "DELETE", tokens+"/ci", nil)
	w.want(401, secret, "GET", harb+"/issues", nil)
	w.want(404, "dev:dev-password", "DELETE", tokens+"/ci", nil)
}

func TestAdminUsers(t *testing.T) {
	w := newWorld(t)
	form := object{"username": "qwen", "email": "qwen@x.invalid", "password": "qwen-password"}
	w.want(201, "root", "POST", "/admin/users", form)
	w.want(422, "root", "POST", "/admin/users", form)
	w.want(422, "root", "POST", "/admin/users", object{
		"username": "no way", "email": "n@x.invalid",
		"password": "qwen-password",
	})
	w.want(400, "root", "POST", "/admin/users", object{"username": "short", "email": "s@x.invalid", "password": "x"})

	// A new account cannot be used before its password is changed, unless the request says otherwise. hire-an-agent
	// relies on this.
	w.want(403, "qwen:qwen-password", "GET", "/user", nil)
	w.want(200, "root", "PATCH", "/admin/users/qwen", object{"password": "other-password", "must_change_password": false})
	w.want(401, "qwen:qwen-password", "GET", "/user", nil)
	w.want(200, "qwen:other-password", "GET", "/user", nil)

	w.want(201, "root", "POST", "/admin/users/qwen/repos", object{"name": ".profile", "private": true, "auto_init": true})
	w.want(404, "johba", "GET", "/repos/qwen/.profile", nil)
	w.want(200, "root", "PATCH", "/admin/users/qwen", object{"prohibit_login": true})
	w.want(403, "qwen:other-password", "GET", "/user", nil)
}
