package hire

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSecrets(t *testing.T) {
	text := "# mine\nA=1\nexport B = \"two words\"\n\n#C=3\nD='x=y'\nbroken\nA=last\n=none\nE=\n"
	if diff := cmp.Diff(map[string]string{"A": "last", "B": "two words", "D": "x=y", "E": ""}, Secrets(text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSetSecret(t *testing.T) {
	for _, tt := range []struct{ before, after, dropped string }{
		{"", "A=new\n", ""},
		{"B=1", "B=1\nA=new\n", "B=1\n"},
		{"# x\nA=old # y\nB=1\n", "# x\nA=new\nB=1\n", "# x\nB=1\n"},
		{"export A='old'\n#A=1\nA=older\nAA=2", "A=new\n#A=1\nAA=2", "#A=1\nAA=2"},
	} {
		got := SetSecret(tt.before, "A", "new")
		if got != tt.after {
			t.Errorf("SetSecret(%q) = %q, want %q", tt.before, got, tt.after)
		}
		if again := SetSecret(got, "A", "new"); again != got {
			t.Errorf("second SetSecret(%q) = %q, want no change", got, again)
		}
		if dropped := DropSecret(got, "A"); dropped != tt.dropped {
			t.Errorf("DropSecret(%q) = %q, want %q", got, dropped, tt.dropped)
		}
	}
}
