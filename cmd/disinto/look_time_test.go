package main

import (
	"strings"
	"testing"
	"time"
)

func TestMoment(t *testing.T) {
	zone := time.FixedZone("east", 2*3600)
	now := time.Date(2026, 3, 1, 9, 30, 15, 7, zone)
	for said, want := range map[string]string{
		"2026-02-28T15:04:05Z":      "2026-02-28T15:04:05Z",
		"2026-02-28T15:04:05.25Z":   "2026-02-28T15:04:05.25Z",
		"2026-02-28T15:04:05+01:00": "2026-02-28T14:04:05Z",
		"2026-02-28T15:04:05":       "2026-02-28T13:04:05Z",
		"2026-02-28 15:04:05":       "2026-02-28T13:04:05Z",
		"2026-02-28 15:04":          "2026-02-28T13:04:00Z",
		"9:05":                      "2026-03-01T07:05:00Z",
		"09:05:06":                  "2026-03-01T07:05:06Z",
		"today 09:05":               "2026-03-01T07:05:00Z",
		"yesterday 15:04":           "2026-02-28T13:04:00Z",
		"yesterday 23:59:59":        "2026-02-28T21:59:59Z",
		"-2h":                       "2026-03-01T05:30:15.000000007Z",
		"-7d":                       "2026-02-22T07:30:15.000000007Z",
	} {
		got, err := parseTime(said, now)
		if err != nil || got.UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("%s: got %s, %v, want %s", said, got.UTC().Format(time.RFC3339Nano), err, want)
		}
	}
	for said, want := range map[string]string{
		"10:00":                "10:00 is in the future",
		"2026-03-01T09:00:00Z": "2026-03-01T09:00:00Z is in the future",
	} {
		if _, err := parseTime(said, now); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", said, err, want)
		}
	}
	if _, err := parseTime(strings.Repeat("x", 1<<20), now); err == nil || len(err.Error()) > 200 {
		t.Errorf("a long text: got %d bytes", len(err.Error()))
	}
	for _, said := range []string{
		"", "-", "--2h", "-2x", "25:00", "yesterday", "tomorrow 10:00",
		"2026-02-30 10:00", "noon",
	} {
		if at, err := parseTime(said, now); err == nil {
			t.Errorf("moment(%q) = %s, want an error", said, at)
		}
	}
}
