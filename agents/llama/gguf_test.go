package llama

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// gguf returns a model's file with metadata: an int, a []int with one number per layer, or a string.
func gguf(version uint32, pairs ...any) []byte {
	var b bytes.Buffer
	put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	text := func(s string) { put(uint64(len(s))); b.WriteString(s) }
	b.WriteString("GGUF")
	put(version)
	put(uint64(0))
	put(uint64(len(pairs) / 2))
	for i := 0; i < len(pairs); i += 2 {
		text(pairs[i].(string))
		switch v := pairs[i+1].(type) {
		case int:
			put(uint32(4))
			put(uint32(v))
		case []int:
			put(uint32(9))
			put(uint32(5))
			put(uint64(len(v)))
			for _, n := range v {
				put(int32(n))
			}
		case string:
			put(uint32(8))
			text(v)
		}
	}
	return b.Bytes()
}

func TestKept(t *testing.T) {
	tests := []struct {
		name    string
		file    []byte
		want    int64
		forgets bool
	}{
		{"measured model", gguf(3, "general.architecture", "llama", "llama.block_count", 8, "llama.attention.head_count", 8,
			"llama.attention.head_count_kv", 4, "llama.attention.key_length", 64, "llama.attention.value_length", 64,
			"tokenizer.ggml.model", "llama"), 8 << 10, false},
		{
			"48 layers", gguf(3, "qwen3.block_count", 48, "qwen3.attention.head_count_kv", 4, "qwen3.attention.key_length", 128),
			96 << 10, false,
		},
		{
			"by the embedding", gguf(2, "llama.block_count", 2, "llama.embedding_length", 512, "llama.attention.head_count", 8),
			2 * 8 * 128 * 2, false,
		},
		{"one number per layer", gguf(3, "x.block_count", 3, "x.attention.head_count_kv", []int{0, 4, 4},
			"x.attention.key_length", 64), 8 * 128 * 2, false},
		{"a window", gguf(3, "gemma.block_count", 2, "gemma.attention.head_count_kv", 1, "gemma.attention.key_length", 64,
			"gemma.attention.sliding_window", 512), 512, true},
		{"recurrent", gguf(3, "qwen3next.block_count", 2, "qwen3next.ssm.state_size", 128), 0, true},
		{"too large", gguf(3, "x.block_count", 1<<30, "x.attention.head_count_kv", 4, "x.attention.key_length",
			64), 0, false},
		{"another version", gguf(9, "x.block_count", 3), 0, false},
		{"nothing", nil, 0, false},
		{"not a model", []byte("root:x:0:0:root:/root:/bin/bash\n"), 0, false},
		{"cut off", gguf(3, "x.block_count", 8, "x.attention.head_count_kv", 4, "x.attention.key_length", 64, "x.y",
			"long")[:100], 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "model.gguf")
			if err := os.WriteFile(path, tt.file, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, forgets := readMemory(path); got != tt.want || forgets != tt.forgets {
				t.Errorf("got %d bytes, forgets %v; want %d, %v", got, forgets, tt.want, tt.forgets)
			}
		})
	}
	pipe := filepath.Join(t.TempDir(), "pipe.gguf")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, t.TempDir(), "/dev/zero", "/no/such.gguf", ""} {
		if n, _ := readMemory(path); n != 0 {
			t.Errorf("kept(%q) = %d bytes, want 0", path, n)
		}
	}
}

func FuzzReadMetadata(f *testing.F) {
	f.Add(gguf(3, "general.architecture", "llama", "llama.block_count", 8, "llama.attention.head_count_kv", []int{1, 2}))
	f.Add([]byte("GGUF"))
	f.Fuzz(func(t *testing.T, file []byte) {
		if m, err := readMetadata(bytes.NewReader(file)); err == nil && m.perToken() < 0 {
			t.Errorf("perToken() = %d, want at least 0", m.perToken())
		}
	})
}
