package file

import (
	"path"
	"strings"
)

// readDecide reads the path of the other build for comparing decisions. It does not check whether the program exists:
// the factory runs without it too.
func (d *decoder) readDecide(t *table) {
	const shadow = "shadow:"
	t.note("decide").Pattern = "^(" + shadow + "/.*)?$"
	s, ok := get[string](t, "decide", `"shadow:/path/of/another/disinto"`)
	program, is := strings.CutPrefix(s, shadow)
	switch {
	case !ok || s == "":
		return
	case !is || !path.IsAbs(program):
		t.wrong("decide", `is %q, want "shadow:" and the absolute path of another build of disinto`, s)
		return
	}
	d.config.Factory.Shadow, d.config.Factory.ShadowLine = path.Clean(program), t.lineOf("decide")
}
