package llama

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"

	"codeberg.org/johba/disinto/agents/plainfile"
)

// Bounds on a model's metadata. The keys that matter precede the vocabulary, which takes megabytes.
const (
	maxHead  = 1 << 20
	maxKeys  = 1000
	maxItems = 10_000
)

// readMemory returns how many bytes of the server's memory a token of a conversation occupies, and whether the model
// has state that is not stored per token. It reads the metadata of the model's file, if path names a file on this
// machine. 0 means unknown.
func readMemory(path string) (perToken int64, forgets bool) {
	if !strings.HasSuffix(path, ".gguf") { // the server chose the path, so only models are opened
		return 0, false
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	f, err := plainfile.OpenNamed(path)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	m, err := readMetadata(f)
	if err != nil {
		return 0, false
	}
	return m.perToken(), m.forgets()
}

// metadata holds the numbers of a model's file, by their names without the architecture. For an array it holds the sum
// under the name, and the length under the name with "#".
type metadata map[string]int64

// perToken is the size in bytes of a token's keys and values, at two bytes per number.
func (m metadata) perToken() int64 {
	layers, heads := m["block_count"], m["attention.head_count_kv"]
	if heads == 0 {
		heads = m["attention.head_count"]
	}
	key, value := m["attention.key_length"], m["attention.value_length"]
	if n := m["attention.head_count"]; key == 0 && n > 0 {
		key = m["embedding_length"] / n
	}
	if value == 0 {
		value = key
	}
	if m["attention.head_count_kv#"] > 0 { // one number per layer, already summed
		layers = 1
	}
	for _, n := range []int64{layers, heads, key, value} {
		if n <= 0 || n > 1<<20 {
			return 0
		}
	}
	return layers * heads * min(key+value, 1<<12) * 2
}

// forgets reports whether some layers have a sliding window or a recurrent state instead of keys and values per token.
func (m metadata) forgets() bool {
	for _, name := range []string{"attention.sliding_window", "ssm.state_size", "ssm.inner_size", "wkv.head_size"} {
		if m[name] > 0 {
			return true
		}
	}
	return false
}

var errMetadata = errors.New("not the metadata of a model")

// readMetadata reads the numbers at the beginning of a GGUF file, up to its vocabulary.
func readMetadata(file io.Reader) (metadata, error) {
	r := &ggufReader{r: bufio.NewReader(io.LimitReader(file, maxHead))}
	magic, version := r.number(4), r.number(4)
	_, keys := r.number(8), r.number(8)
	if r.err != nil || magic != 0x46554747 || version < 2 || version > 3 {
		return nil, errMetadata
	}
	m := make(metadata)
	for range min(keys, maxKeys) {
		key := r.text()
		if strings.HasPrefix(key, "tokenizer.") {
			break
		}
		sum, length := r.value(r.number(4))
		if r.err != nil {
			break // the file ends early; the keys before it count
		}
		if _, name, ok := strings.Cut(key, "."); ok && !strings.HasPrefix(key, "general.") {
			m[name] = sum
			if length > 0 {
				m[name+"#"] = length
			}
		}
	}
	if len(m) == 0 {
		return nil, errMetadata
	}
	return m, nil
}

// ggufReader reads the parts of a GGUF file. After an error it returns zero values.
type ggufReader struct {
	r   *bufio.Reader
	err error
}

// number reads an integer of 1 to 8 bytes.
func (g *ggufReader) number(size int) int64 {
	var b [8]byte
	if g.err == nil {
		_, g.err = io.ReadFull(g.r, b[:size])
	}
	if g.err != nil {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(b[:]))
}

// text reads a string. A long string is skipped and returned as "".
func (g *ggufReader) text() string {
	n := g.number(8)
	if n < 0 || n > maxHead {
		g.err = errMetadata
	}
	if g.err != nil {
		return ""
	}
	if n > maxItems {
		_, g.err = g.r.Discard(int(n))
		return ""
	}
	b := make([]byte, n)
	_, g.err = io.ReadFull(g.r, b)
	return string(b)
}

// Types of values in a GGUF file.
const (
	ggufText  = 8
	ggufArray = 9
)

// ggufSizes holds the sizes in bytes of all types except text and array.
var ggufSizes = map[int64]int{0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

// value reads a value of a type: a number, or the sum and length of an array of numbers. Other values are 0.
func (g *ggufReader) value(kind int64) (sum, length int64) {
	if kind == ggufArray {
		kind, length = g.number(4), g.number(8)
		if length < 0 || length > maxItems || kind == ggufArray {
			g.err = errMetadata
		}
		for range length {
			if g.err != nil {
				break
			}
			n, _ := g.value(kind)
			sum += min(max(n, 0), 1<<20)
		}
		return sum, length
	}
	size, ok := ggufSizes[kind]
	switch {
	case kind == ggufText:
		g.text()
		return 0, 0
	case !ok:
		g.err = errMetadata
		return 0, 0
	}
	n := g.number(size)
	if kind == 6 || kind == 12 { // fractions
		n = 0
	}
	return n, 0
}
