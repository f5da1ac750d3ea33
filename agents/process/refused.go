package process

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"codeberg.org/johba/disinto/agents"
	"codeberg.org/johba/disinto/agents/process/landlock"
)

// refusedWords matches how programs report EACCES and EPERM, and EXDEV for a refused move of a file.
var refusedWords = regexp.MustCompile(
	`(?i)permission denied|operation not permitted|\bEACCES\b|\bEPERM\b|cross-device link`)

var (
	absolutePath = regexp.MustCompile(`(?:^|[\s'"` + "`" + `:=(\[])(/[^\s'"` + "`" + `:,()\[\]]+)`)
	connecting   = regexp.MustCompile(`(?i)\bconnect|\bdial tcp|\bport \d`)
	speaker      = regexp.MustCompile(`^[^\s:]+: (?:(?:line )?\d+: )?`) // "/usr/a.sh: line 12: "
	listening    = regexp.MustCompile(`(?i)\blisten|\bbind`)
)

// explainRefusal adds to a failure's reason what the sandbox probably refused, judged by the newest output line that
// complains of a refusal. The kernel reports a refusal only to the program and to the audit log.
func (r *run) explainRefusal(o agents.Outcome) agents.Outcome {
	if r.held == "" || !o.Result.BurnsAttempt() {
		return o
	}
	lines := append(strings.Split(o.Tail, "\n"), o.Reason)
	for i := len(lines) - 1; i >= 0; i-- {
		if !refusedWords.MatchString(lines[i]) {
			continue
		}
		if why := r.refused(lines[i]); why != "" {
			o.Reason = strings.TrimPrefix(o.Reason+"; ", "; ") + why
			return o
		}
	}
	return o
}

// refused says what the sandbox refused according to a line. It is empty when the sandbox allows it.
func (r *run) refused(line string) string {
	// Who complains was not refused itself.
	if rest := line[len(speaker.FindString(line)):]; refusedWords.MatchString(rest) &&
		refusedWords.FindStringIndex(rest)[0] > 0 {
		line = rest
	}
	readable := ""
	for _, m := range slices.Backward(absolutePath.FindAllStringSubmatch(line, -1)) { // the first may be copied
		switch path := filepath.Clean(m[1]); r.allows(path) {
		case "":
			return fmt.Sprintf("the sandbox denies access to %s (sandbox_read, sandbox_write)", path)
		case landlock.Read, landlock.List:
			info, err := os.Stat(path)
			if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 == 0 && strings.HasPrefix(line, m[1]+":") {
				continue // a shell was to run what is no program
			}
			readable = cmp.Or(readable, path)
		}
	}
	if readable != "" {
		return fmt.Sprintf("perhaps because the sandbox makes %s read-only (sandbox_write)", readable)
	}
	switch {
	case listening.MatchString(line) && len(r.rules.Listen) > 0:
		return fmt.Sprintf("the sandbox allows servers only on TCP ports that the kernel chooses%s (listen)",
			strings.TrimSuffix(" and on "+portList(r.rules.Listen), " and on "))
	case connecting.MatchString(line) && !r.rules.AnyPort:
		return fmt.Sprintf("the sandbox allows connections only to the TCP ports %s (sandbox_connect%s)",
			portList(r.rules.Connect), hint(r.job.Sandbox))
	}
	return ""
}

// allows returns the most that the sandbox allows for a path, which need not exist. It is empty when the sandbox
// allows nothing.
func (r *run) allows(path string) (most landlock.Access) {
	real, rest := path, ""
	for {
		if found, err := filepath.EvalSymlinks(real); err == nil {
			real = filepath.Join(found, rest)
			break
		}
		if real == "/" {
			break
		}
		real, rest = filepath.Dir(real), filepath.Join(filepath.Base(real), rest)
	}
	rank := []landlock.Access{"", landlock.List, landlock.Read, landlock.Write, landlock.Device}
	for _, rule := range r.rules.Paths {
		if name := string(rule.Name); real != name && !below(real, name) {
			continue
		}
		if slices.Index(rank, rule.Access) > slices.Index(rank, most) {
			most = rule.Access
		}
	}
	return most
}

// hint is the value of the key that tests most often need.
func hint(s agents.Sandbox) string {
	if s.Ephemeral {
		return ""
	}
	return `; tests with their own servers need "ephemeral"`
}

// portList formats ports for people. It omits 0, which stands for a port that the kernel chooses.
func portList(ranges []landlock.Range) string {
	sorted := slices.SortedFunc(slices.Values(ranges), func(a, b landlock.Range) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last))
	})
	var words []string
	for _, r := range slices.Compact(sorted) {
		switch {
		case r.Last < max(r.First, 1):
		case r.First == r.Last:
			words = append(words, strconv.Itoa(r.First))
		default:
			words = append(words, fmt.Sprintf("%d-%d", r.First, r.Last))
		}
	}
	return strings.Join(words, " ")
}
