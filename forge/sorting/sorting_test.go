package sorting_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"codeberg.org/johba/disinto/forge/sorting"
)

type item struct{ key, place int }

func byKey(a, b item) int { return cmp.Compare(a.key, b.key) }

// items returns items of few keys, so that many are equal, each with its place.
func items(n int) []item {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	list := make([]item, n)
	for i := range list {
		list[i] = item{random.IntN(1 + n/4), i}
	}
	return list
}

// The order is that of package slices, equal elements included.
func TestLikeSlices(t *testing.T) {
	for _, n := range []int{0, 1, 2, 12, 13, 50, 1000} {
		want, got := items(n), items(n)
		slices.SortStableFunc(want, byKey)
		sorting.Stable(got, byKey)
		if !slices.Equal(got, want) {
			t.Errorf("Stable of %d items: %v, want %v", n, got, want)
		}
		want, got = items(n), items(n)
		slices.SortFunc(want, byKey)
		sorting.By(got, byKey)
		if !slices.Equal(got, want) {
			t.Errorf("By of %d items: %v, want %v", n, got, want)
		}
		if got := sorting.Collect(slices.Values(items(n)), byKey); !slices.Equal(got, want) || (got == nil) != (n == 0) {
			t.Errorf("Collect of %d items: %#v, want %v", n, got, want)
		}
	}
}
