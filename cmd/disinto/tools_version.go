package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func versionCommand(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Args: cobra.NoArgs,
		Short: "print the version of this build",
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		fmt.Fprintf(c.stdout, "disinto %s (%s %s/%s)\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return nil
	}
	return cmd
}
