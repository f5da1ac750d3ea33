package supervisor_test

import (
	"os"
	"testing"

	"codeberg.org/johba/disinto/supervisor/simtest"
)

func TestMain(m *testing.M) { os.Exit(simtest.Main(m)) }
