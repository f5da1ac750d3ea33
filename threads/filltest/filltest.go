// Package filltest sets every field of a value, for tests that must fail when a field is added and forgotten.
package filltest

import (
	"fmt"
	"reflect"
	"time"
)

// Filler sets values and everything below them.
type Filler struct {
	Next func() int64 // a number for the next text, number or time
	Len  func() int   // the length of the next list or map
	// Leave reports whether a field keeps its zero value. Without it, no field does.
	Leave func(of reflect.Type, field *reflect.StructField) bool
}

// Fill sets a value. It panics if it has no value for the type.
func (f *Filler) Fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("text-", f.Next()))
	case reflect.Bool:
		v.SetBool(f.Next() != 0)
	case reflect.Int, reflect.Int64:
		v.SetInt(f.Next())
	case reflect.Float64:
		v.SetFloat(float64(f.Next()%1000) + 0.1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.Fill(v.Elem())
	case reflect.Slice:
		n := f.Len()
		v.Set(reflect.MakeSlice(v.Type(), n, n+1))
		for i := range n {
			f.Fill(v.Index(i))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range f.Len() {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.Fill(key)
			f.Fill(value)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		f.fields(v)
	default:
		panic(fmt.Sprintf("no value for a %s", v.Type()))
	}
}

func (f *Filler) fields(v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Date(2030, 1, 2, 3, 4, int(f.Next()%60), 5678, time.UTC)))
		return
	}
	for i := range v.NumField() {
		if field := v.Type().Field(i); f.Leave == nil || !f.Leave(v.Type(), &field) {
			f.Fill(v.Field(i))
		}
	}
}
