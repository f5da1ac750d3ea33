package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/pflag"
)

var versionCommand = command{
	name:  "version",
	short: "which build this is",
	setup: func(*pflag.FlagSet) action {
		return func(_ context.Context, c *cli, _ []string) error {
			fmt.Fprintf(c.stdout, "disinto %s (%s %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return nil
		}
	},
}

// version is the one that the Go tool stamped into the program: a tag, or a pseudo-version with the commit in it, and
// "+dirty" for a changed tree. Without version control, as in a test, it is "devel".
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}
