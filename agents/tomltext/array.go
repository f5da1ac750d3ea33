package tomltext

import "strings"

// Add adds a string to the array at a path unless the array contains it. It creates a missing array.
func Add(text string, path []string, element string) string {
	e := scan(text).find(path)
	if e == nil {
		return Set(text, path[:len(path)-1], path[len(path)-1], QuoteList([]string{element}))
	}
	a := arrayAt(text, e.value)
	if a.index(element) >= 0 {
		return text
	}
	return a.add(element)
}

// Drop removes every copy of a string from the array at a path.
func Drop(text string, path []string, element string) string {
	for e := scan(text).find(path); e != nil; e = scan(text).find(path) {
		a := arrayAt(text, e.value)
		i := a.index(element)
		if i < 0 {
			break
		}
		text = a.drop(i)
	}
	return text
}

// array is an array of strings in a text, with the positions of its elements.
type array struct {
	text     string
	whole    span // with its brackets
	elements []span
}

// arrayAt finds the elements of the array at a position.
func arrayAt(text string, whole span) array {
	a := array{text: text, whole: whole}
	s := &scanner{document: document{text: text}, at: whole.from}
	s.list("]", func() {
		from := s.at
		s.value(nil, false)
		a.elements = append(a.elements, span{from, s.at})
	})
	return a
}

// index returns the index of a string among the elements, or -1.
func (a array) index(element string) int {
	for i, e := range a.elements {
		if unquote(a.text[e.from:e.to]) == element {
			return i
		}
	}
	return -1
}

// add returns the text with a string appended to the array. The string is laid out like the last element: on a line of
// its own, or on that element's line.
func (a array) add(element string) string {
	element = Quote(element)
	if len(a.elements) == 0 {
		return a.addFirst(element)
	}
	last := a.elements[len(a.elements)-1]
	indent, alone := a.alone(last)
	comma := a.commaBehind(last)
	switch {
	case !alone && comma > 0:
		return a.text[:comma] + " " + element + "," + a.text[comma:]
	case !alone:
		return a.text[:last.to] + ", " + element + a.text[last.to:]
	case comma > 0:
		return insertLine(a.text, endOfLine(a.text, comma), indent+element+",")
	}
	// The closing bracket can be on the line of the last element.
	line := breakOf(a.text) + indent + element
	if endOfLine(a.text, last.to) >= a.whole.to {
		return a.text[:last.to] + "," + line + a.text[last.to:]
	}
	end := endOfLine(a.text, last.to)
	return a.text[:last.to] + "," + insertLine(a.text[last.to:], end-last.to, indent+element)
}

// addFirst adds the first element to an empty array, whose comments stay.
func (a array) addFirst(element string) string {
	inside := a.text[a.whole.from+1 : a.whole.to-1]
	if !strings.Contains(inside, "\n") {
		return a.text[:a.whole.from] + "[" + element + "]" + a.text[a.whole.to:]
	}
	closing := startOfLine(a.text, a.whole.to-1)
	indent := a.text[closing : a.whole.to-1]
	return insertLine(a.text, closing, indent+"    "+element+",")
}

// alone reports whether an element is the first on its line, and returns the white space before it.
func (a array) alone(e span) (indent string, alone bool) {
	before := a.text[startOfLine(a.text, e.from):e.from]
	return before, strings.Trim(before, " \t") == ""
}

// commaBehind returns the position after the comma that follows an element, or 0 without one. Comments can precede the
// comma.
func (a array) commaBehind(e span) int {
	s := &scanner{document: document{text: a.text}, at: e.to}
	if s.skipBlank(" \t\r\n"); s.starts(",") {
		return s.at + 1
	}
	return 0
}

// drop returns the text without an element.
func (a array) drop(i int) string {
	e, comma := a.elements[i], a.commaBehind(a.elements[i])
	end := max(e.to, comma)
	text, from, to := a.text, e.from, end
	_, alone := a.alone(e)
	rest := strings.TrimLeft(text[end:endOfLine(text, end)], " \t\r\n")
	sameLine := i+1 < len(a.elements) && !strings.Contains(text[e.to:a.elements[i+1].from], "\n")
	switch {
	case alone && (rest == "" || strings.HasPrefix(rest, "#")): // remove its comment too
		from, to = startOfLine(text, e.from), endOfLine(text, end)
	case sameLine:
		to = a.elements[i+1].from
	case i > 0 && !strings.Contains(text[a.elements[i-1].to:e.from], "#") && (!alone || end+1 >= a.whole.to):
		from, to = a.elements[i-1].to, e.to
		comma = 1 // the comma before the element is removed, the one after it stays
	}
	text = text[:from] + text[to:]
	if i == len(a.elements)-1 && i > 0 && comma == 0 {
		before := array{text: text}
		if at := before.commaBehind(a.elements[i-1]); at > 0 {
			text = text[:at-1] + text[at:]
		}
	}
	return text
}
