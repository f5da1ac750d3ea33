package agents

import (
	"slices"
	"testing"
)

// A service gets all variables of the operator except the configuration's secrets, under any name, and the forge's
// credentials. Its own variables win.
func TestServiceEnviron(t *testing.T) {
	base := []string{
		"PATH=/bin", "HF_TOKEN=hf_of-the-model", "CUDA_VISIBLE_DEVICES=0", "FORGE_TOKEN=x", "FORGE_ADMIN_PASSWORD=x",
		"FORGE_TOKEN_DEV_QWEN=x", "MY_WEBHOOK_SECRET=x", "MINE=the-token-of-qwen",
		"URL=http://u:the-token-of-qwen@h/", "NAMED=",
		"HOME=/root", "OLDPWD=/root", "DISINTO_RUN_ID=another",
	}
	secrets := []SecretVar{
		{Name: "NAMED", Agent: "dev-qwen"},
		{Value: "the-token-of-qwen", Agent: "dev-qwen"},
		{Value: "the-token-of-disinto"},
	}
	base = append(base, "OURS=the-token-of-disinto")
	j := &Job{RunID: "i-1", Service: "llama", Home: "/s/home", Dir: "/s/home", User: "llama"}
	own := []string{"FORGE_TOKEN=its-own", "LANG=C=x", "LOGNAME=other"}
	want := []string{
		"CUDA_VISIBLE_DEVICES=0", "DISINTO_RUN_ID=i-1", "DISINTO_SERVICE=llama", "FORGE_TOKEN=its-own",
		"HF_TOKEN=hf_of-the-model", "HOME=/s/home", "LANG=C=x", "LOGNAME=other", "PATH=/bin", "PWD=/s/home", "USER=llama",
	}
	if got := ServiceEnviron(base, j, secrets, own); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
