package threads

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"codeberg.org/johba/disinto/forge"
)

// A frozen history is the same, and shares no list, map or entry with it: the ledger writes into its own while the
// frozen one is read. A field that is added and not copied fails here.
func TestFrozenSharesNothing(t *testing.T) {
	var h History
	fillHistory(t, reflect.ValueOf(&h).Elem(), new(int))
	c := h.Freeze().History()
	if diff := cmp.Diff(h, c); diff != "" {
		t.Fatal(diff)
	}
	apart(t, "History", reflect.ValueOf(h), reflect.ValueOf(c))
}

// fillHistory gives every list, map and pointer below a value something.
func fillHistory(t *testing.T, v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("text-", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillHistory(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 3))
		fillHistory(t, v.Index(0), n)
		fillHistory(t, v.Index(1), n)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillHistory(t, key, n)
		fillHistory(t, value, n)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2030, 1, 2, 3, 4, *n, 0, time.UTC)))
			return
		}
		for _, field := range v.Fields() {
			fillHistory(t, field, n)
		}
	default:
		t.Fatalf("no value for a %s", v.Type())
	}
}

// apart reports what two values share that can be written to.
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

// BenchmarkFreeze copies a decision on 10,000 chains with a history: "changed" after a tick in which one of them has
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
