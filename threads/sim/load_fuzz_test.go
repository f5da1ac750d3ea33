package sim

import (
	"math"
	"testing"
)

// FuzzDecodeLoad decodes malformed load files. None may panic, and check must accept a decoded file again.
func FuzzDecodeLoad(f *testing.F) {
	for _, text := range []string{
		"[[issues]]\nper_day = 20\n",
		"[[issues]]\nper_day = 3.5\ntogether = 4\nminutes = 5\nsigma = 0\nsessions = 3\n" +
			"priority = 2\nskills = [\"go\"]\n",
		"[[issues]]\nper_day = 1e300\nsigma = 1e300\n", "[[issues]]\nper_day = nan\n",
		"[[issues]]\nper_day = 1\nminutes = nan\n", "[[issues]]\nper_day = 1\nsessions = nan\n",
		"[[issues]]\nper_day = 1\nsigma = -nan\n", "[[issues]]\nper_day = -1\n", "issues = 3\n",
		"[[issues]]\nagent = \"nobody\"\n", "",
	} {
		f.Add(text)
	}
	cfg := fleet(3, 1, 1)
	f.Fuzz(func(t *testing.T, text string) {
		kinds, err := DecodeLoad("load.toml", text, cfg)
		if err != nil {
			return
		}
		for i := range kinds {
			k := &kinds[i]
			if math.IsNaN(k.PerDay + k.Minutes + k.Review + k.Sigma + k.Sessions) {
				t.Errorf("accepted NaN: %+v", k)
			}
			if again := kinds[i].check(cfg); again != "" {
				t.Errorf("accepted, but check returned %s the second time", again)
			}
		}
	})
}
