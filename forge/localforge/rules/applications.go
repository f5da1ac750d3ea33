package rules

import "net/http"

var applicationRules = []rule{
	{
		"an account registers a public application",
		"forge/forgejo SetApplication: the control room is such an application, and uses the client id of an earlier run",
		registerApplication,
	},
	{
		"registering requires write:user",
		"disinto check --fix, which says what to do by hand, because the supervisor's token has only read:user",
		applicationScope,
	},
}

// application is an OAuth2 application as the API shows it.
type application struct {
	Name         string   `json:"name"`
	ClientID     string   `json:"client_id"`
	Confidential bool     `json:"confidential_client"`
	RedirectURIs []string `json:"redirect_uris"`
}

const applicationsPath = "/user/applications/oauth2"

func newApplication() fields {
	return fields{
		"name": "room", "redirect_uris": []string{"http://127.0.0.1:7080/signin/callback"}, "confidential_client": false,
	}
}

func registerApplication(w *world) {
	dev, other := w.account("dev"), w.account("other")
	dev.post(applicationsPath, newApplication()).want(http.StatusCreated)
	all := read[[]application](dev, applicationsPath)
	if len(all) != 1 || all[0].Name != "room" || all[0].ClientID == "" || all[0].Confidential ||
		len(all[0].RedirectURIs) != 1 || all[0].RedirectURIs[0] != "http://127.0.0.1:7080/signin/callback" {
		w.Errorf("the account has the applications %+v, want the registered one", all)
	}
	same(w, "applications of another account", len(read[[]application](other, applicationsPath)), 0)
}

func applicationScope(w *world) {
	dev := w.account("dev")
	narrow := dev.as(dev.newToken("narrow", "read:user", "write:repository", "write:issue"))
	narrow.post(applicationsPath, newApplication()).want(http.StatusForbidden)
	same(w, "applications", len(read[[]application](narrow, applicationsPath)), 0)
}
