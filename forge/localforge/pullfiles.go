package localforge

import (
	"cmp"
	"strconv"
	"strings"
)

type wireChangedFile struct {
	Filename    string `json:"filename"`
	Previous    string `json:"previous_filename,omitempty"`
	Status      string `json:"status"`
	Additions   int    `json:"additions"`
	Deletions   int    `json:"deletions"`
	Changes     int    `json:"changes"`
	HTMLURL     string `json:"html_url,omitempty"`
	ContentsURL string `json:"contents_url,omitempty"`
	RawURL      string `json:"raw_url,omitempty"`
}

// pullSpan returns the commits between which a pull request changes files: its merge base and its head.
func (c *call) pullSpan() (from, to string, err error) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	i, err := c.pathPull()
	if err != nil {
		return "", "", err
	}
	return i.pull.mergeBase, i.pull.headSHA, nil
}

// listPullCommits computes the list for each request, unlike the merge base of the pull request.
func listPullCommits(c *call) (any, error) {
	from, to, err := c.pullSpan()
	if err != nil {
		return nil, err
	}
	c.f.mu.Lock()
	i, err := c.pathPull()
	if err == nil && !i.pull.merged {
		from = cmp.Or(c.repo.branch(i.pull.base), from)
	}
	c.f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	commits, err := c.f.span(c.r.Context(), c.repo, from, to)
	if err != nil {
		return nil, err
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	return paged(c, commits, func(co commit) *wireFullCommit { return c.view.fullCommit(c.repo, co) }), nil
}

func listPullFiles(c *call) (any, error) {
	from, to, err := c.pullSpan()
	if err != nil {
		return nil, err
	}
	out, err := c.f.git(c.r.Context(), c.repo.dir, "diff", "--raw", "--numstat", "-M", "-z", from, to)
	if err != nil {
		return nil, err
	}
	return paged(c, changedFiles(out), func(file wireChangedFile) wireChangedFile {
		page := c.base + "/" + c.repo.fullName()
		file.HTMLURL = page + "/src/commit/" + to + "/" + file.Filename
		file.RawURL = page + "/raw/commit/" + to + "/" + file.Filename
		file.ContentsURL = c.apiURL(c.repo) + "/contents/" + file.Filename + "?ref=" + to
		return file
	}), nil
}

// statusWords maps the letters of git diff --raw to Forgejo's words.
var statusWords = map[byte]string{
	'A': "added", 'D': "deleted", 'M': "changed", 'R': "renamed", 'C': "copied",
	'T': "changed",
}

// changedFiles parses the output of git diff --raw --numstat -M -z: first one entry per file, which begins with a
// colon, then the line counts in the same order. A renamed file has both of its paths in each part.
func changedFiles(out string) []wireChangedFile {
	fields := strings.Split(strings.TrimRight(out, "\x00"), "\x00")
	var files []wireChangedFile
	at := 0
	next := func() (field string) {
		if at < len(fields) {
			field = fields[at]
			at++
		}
		return field
	}
	for at < len(fields) && strings.HasPrefix(fields[at], ":") {
		entry := next()
		letter := entry[strings.LastIndexByte(entry, ' ')+1]
		file := wireChangedFile{Status: statusWords[letter], Filename: next()}
		if letter == 'R' || letter == 'C' {
			file.Previous, file.Filename = file.Filename, next()
		}
		files = append(files, file)
	}
	for n := range files {
		number := strings.SplitN(next(), "\t", 3)
		if len(number) == 3 && number[2] == "" { // renamed: two more fields hold the paths
			next()
			next()
		}
		if len(number) == 3 {
			files[n].Additions, _ = strconv.Atoi(number[0]) // "-" for a binary file becomes 0
			files[n].Deletions, _ = strconv.Atoi(number[1])
			files[n].Changes = files[n].Additions + files[n].Deletions
		}
	}
	return files
}
