package threads

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/forge"
	"codeberg.org/johba/disinto/threads/filltest"
)

// TestFrozenSharesNothing checks that a frozen history equals its original, and shares no list, map or entry with it:
// the ledger writes to the original while the frozen one is read. A new field that is not copied fails here.
func TestFrozenSharesNothing(t *testing.T) {
	var h History
	n := int64(0)
	f := filltest.Filler{Next: func() int64 { n++; return n }, Len: func() int { return 2 }}
	f.Fill(reflect.ValueOf(&h).Elem())
	c := h.Freeze().History()
	if diff := cmp.Diff(h, c); diff != "" {
		t.Fatal(diff)
	}
	apart(t, "History", reflect.ValueOf(h), reflect.ValueOf(c))
}

// apart reports every part that two values share and that could be written to.
func apart(t *testing.T, at string, a, b reflect.Value) {
	if a.Type() == reflect.TypeFor[time.Time]() {
		return
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if a.Pointer() == b.Pointer() {
			t.Errorf("%s is shared", at)
		}
	}
	switch a.Kind() {
	case reflect.Pointer:
		apart(t, at, a.Elem(), b.Elem())
	case reflect.Slice:
		for i := range a.Len() {
			apart(t, at+"[]", a.Index(i), b.Index(i))
		}
	case reflect.Map:
		for _, k := range a.MapKeys() {
			apart(t, at+"[]", a.MapIndex(k), b.MapIndex(k))
		}
	case reflect.Struct:
		for i := range a.NumField() {
			apart(t, at+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i))
		}
	}
}

// BenchmarkFreeze copies a decision with a history of 10,000 chains: "changed" after a tick in which a chain has
// changed, "known" after one in which none has.
func BenchmarkFreeze(b *testing.B) {
	s := Snapshot{History: NewHistory()}
	for i := range int64(10_000) {
		ref := forge.Ref{Repo: "o/r", Number: i}
		s.History.Chains[ref] = &ChainHistory{Writers: []string{"dev"}, Attempts: make([]Attempt, 1)}
	}
	for name, known := range map[string]*Frozen{"changed": nil, "known": s.History.Freeze()} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Freeze(&Plan{}, known)
			}
		})
	}
}
