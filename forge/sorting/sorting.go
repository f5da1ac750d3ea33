// Package sorting sorts slices by a comparison, as the functions of package slices do, with one compiled algorithm for
// all types. slices.SortFunc is compiled again for each type of element, 20 KB each time: that was a quarter of the
// code of threads/sim and two thirds of that of threads/delta. Here 1,000 elements take 1.3 to 2 times as long, which
// does not show in a decision about 10,000 items. slices.Sort remains for texts and numbers, of which there are few
// types.
package sorting

import (
	"iter"
	"slices"
	"sort"
)

// By sorts a slice in place. Equal elements end up in any order, always the same for the same slice.
func By[E any](s []E, compare func(a, b E) int) { sort.Sort(orderOf(s, compare)) }

// Stable sorts a slice in place and keeps the order of equal elements.
func Stable[E any](s []E, compare func(a, b E) int) { sort.Stable(orderOf(s, compare)) }

// Collect returns the values of a sequence, sorted as By sorts; nil if there are none.
func Collect[E any](values iter.Seq[E], compare func(a, b E) int) []E {
	s := slices.Collect(values)
	By(s, compare)
	return s
}

// order is a slice in the order of a comparison. Its type does not depend on that of the elements, so that only two
// short functions are compiled for each.
type order struct {
	length int
	less   func(i, j int) bool
	swap   func(i, j int)
}

func orderOf[E any](s []E, compare func(a, b E) int) *order {
	return &order{
		length: len(s),
		less:   func(i, j int) bool { return compare(s[i], s[j]) < 0 },
		swap:   func(i, j int) { s[i], s[j] = s[j], s[i] },
	}
}

func (o *order) Len() int           { return o.length }
func (o *order) Less(i, j int) bool { return o.less(i, j) }
func (o *order) Swap(i, j int)      { o.swap(i, j) }
