package forgejo

import (
	"context"
	"slices"

	"code.gitea.io/sdk/gitea"
)

// SetApplication registers an OAuth2 application of our account and returns its client id. After signing in, the forge
// sends people back to the address redirect. The application is a public client, without a secret. An existing
// application with the same name and address is used again. forge.ErrForbidden unless our token has the scope
// write:user.
func (c *Client) SetApplication(ctx context.Context, name, redirect string) (clientID string, err error) {
	defer wrap(&err, "register the application %s", name)
	all, _, err := newList(c.connection, nil, func(
		g *gitea.Client, page gitea.ListOptions,
	) ([]*gitea.Oauth2, *gitea.Response, error) {
		return g.ListOauth2(gitea.ListOauth2Option{ListOptions: page})
	}).all(ctx)
	if err != nil {
		return "", err
	}
	for _, a := range all {
		if a != nil && a.Name == name && !a.ConfidentialClient && slices.Contains(a.RedirectURIs, redirect) {
			return a.ClientID, nil
		}
	}
	g, x := c.sdk(ctx)
	made, _, err := g.CreateOauth2(gitea.CreateOauth2Option{Name: name, RedirectURIs: []string{redirect}})
	if err = x.end(err); err != nil {
		return "", err
	}
	return made.ClientID, nil
}
