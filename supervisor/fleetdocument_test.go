package supervisor

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// Every field of every document keeps its name, its place and its form. A field that is added is filled in here, and stands
// in the golden file from then on.
func TestFleetDocuments(t *testing.T) {
	at := time.Date(2026, 11, 3, 12, 0, 0, 123456789, time.UTC)
	agent := FleetAgent{
		Agent: "dev-iris", Login: "iris", Role: "dev", Roles: []FleetRole{{"dev", agents.OnIssue, "backlog"}, {"review", agents.OnReview, ""}},
		Thread: "llama", Backend: threads.Local, Skills: []string{"go", "sql"}, State: threads.LoadSick, StateWhy: "<why> & \"how\"",
		Idle: true, IdleSince: at, PendingCount: 7, Active: "o/r#12", LastProgressAt: at, UpdatedAt: at,
	}
	move := MoveDocument{
		Repo: "o/r", Number: 9, Title: "nine", Priority: 8, From: "iris/dev-iris", To: "dev-hub", Why: "idle", State: MovePending,
		StateWhy: "no answer", run: "i-1",
	}
	cycle := CycleDocument{
		At: at, TookMS: 1200, DryRun: true, Calls: 3, Idle: []string{"dev-hub"}, Busy: []string{"iris/dev-iris"}, Moves: []MoveDocument{move},
		Stays:   []StayDocument{{Repo: "o/r", Number: 2, Title: "two", Agent: "iris/dev-iris", Code: "begun", Why: "iris worked on it"}},
		Unknown: []string{"spark: no answer within 10s"},
	}
	host := HostDocument{Name: "iris", SSH: "u@iris", Known: true, Why: "why", ReadAt: at, Agents: []FleetAgent{agent}}
	for name, d := range map[string]any{
		"document": FleetDocument{Format: FleetFormat, Version: "v1", Instance: "i", UpdatedAt: at, Agents: []FleetAgent{agent, {}}, Begun: []string{"o/r#1"}},
		"export":   FleetExport{ExportedAt: at},
		"status":   FleetStatus{Hub: true, NextAt: at, Hosts: []HostDocument{host, {}}, Cycles: []CycleDocument{cycle, {}}},
		"request":  RebalanceRequest{DryRun: true},
	} {
		whole(t, name, reflect.ValueOf(d))
		got, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", "fleet", name+".json")
		if *update {
			err = os.WriteFile(path, append(got, '\n'), 0o644)
		}
		want, readErr := os.ReadFile(path)
		if err != nil || readErr != nil {
			t.Fatal(err, readErr)
		}
		if !bytes.Equal(append(got, '\n'), want) {
			t.Errorf("%s: got %s\nwant %s", name, got, want)
		}
	}
}

// whole reports fields of a document that are not filled in. Of a list the first element has to be whole.
func whole(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	switch {
	case v.IsZero():
		t.Errorf("%s is not filled in", name)
	case v.Kind() == reflect.Slice:
		whole(t, name, v.Index(0))
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]():
		for i := range v.NumField() {
			whole(t, name+"."+v.Type().Field(i).Name, v.Field(i))
		}
	}
}
