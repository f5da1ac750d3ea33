package control

import "testing"

func TestServerLine(t *testing.T) {
	tests := []struct {
		name   string
		server ServerDocument
		want   string
	}{
		{"nothing known", ServerDocument{}, "reads - (in an hour -); writes - (in an hour -)"},
		{
			"busy",
			ServerDocument{
				Model: "tiny", Now: SpeedDocument{Read: new(412.4), Written: new(4.12)}, Hour: SpeedDocument{Written: new(9.8)},
				Deferred: new(1), Problems: []string{"it is slow"},
				At: []ServerSlotDocument{{Index: 1, SpeedDocument: SpeedDocument{Written: new(4.)}}, {Index: 2}},
			},
			"tiny; reads 412/s (in an hour -); writes 4.1/s (in an hour 9.8/s); slot 1 reads - and writes 4.0/s; 1 request " +
				"waiting; it is slow",
		},
		{"asleep", ServerDocument{Asleep: true}, "reads - (in an hour -); writes - (in an hour -); asleep"},
	}
	for _, tt := range tests {
		if got := tt.server.Line(); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
