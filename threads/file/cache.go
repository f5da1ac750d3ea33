package file

import (
	"path"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/threads"
)

// leastSaved refuses a typing error such as "10M", with which every saved conversation would be deleted at once: on a
// large model a conversation of 1,000 tokens takes about 100 MiB.
const leastSaved = 256 << 20

// cache reads where a local thread's conversations stay warm, and whether they are saved while they wait.
func (t *table) cache(th *threads.Thread) (threads.Cache, threads.Saved) {
	const without = `works without overlap on a "local" backend only: elsewhere no slot keeps a conversation`
	sticky := th.Backend.Server() && !th.Overlap
	kept := t.oneOf("cache", string(threads.CacheSlot), string(threads.CacheSlot), string(threads.CacheServer))
	if !t.has("cache") {
		kept = ""
	} else if !sticky {
		t.wrong("cache", without)
	}
	saved := threads.Saved{Limit: t.size("kv_save", 0), Folder: t.text("kv_folder")}
	switch {
	case saved.Limit == 0:
		if saved.Folder != "" {
			t.wrong("kv_folder", `is set without kv_save: add kv_save = "10G", or remove it`)
		}
	case !sticky:
		t.wrong("kv_save", without)
	case saved.Limit < leastSaved:
		t.wrong("kv_save", "is %s, want at least %s", agents.Size(saved.Limit), agents.Size(leastSaved))
	case th.BaseURL == "":
		t.wrong("kv_save", "is set without base_url: the server at that address saves conversations")
	case saved.Folder == "":
		t.wrong("kv_folder", "is not set, want the server's --slot-save-path as this machine sees it: files are deleted "+
			"there to stay within kv_save")
	}
	if saved.Folder != "" {
		if !path.IsAbs(saved.Folder) {
			t.wrong("kv_folder", "is %q, want an absolute path", saved.Folder)
		}
		saved.Folder = path.Clean(saved.Folder)
	}
	return threads.Cache(kept), saved
}
