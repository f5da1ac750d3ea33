package pid1

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// The command lines of tini 0.19.0 and dumb-init 1.2.5. Unlike tini, we take no options after the command.
const (
	tiniVersion     = "tini version 0.19.0"
	dumbInitVersion = "dumb-init v1.2.5\n"
)

// options reads options as getopt does, up to the first word that is none, where the command starts. long maps each
// long option to its short form; valued lists the short options with a value. take receives each option with its
// value.
func options(args []string, short, valued string, long map[string]byte, take func(o byte, value string) bool,
) (rest []string, wrong string) {
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		word := args[0]
		args = args[1:]
		if word == "--" {
			break
		}
		letters := word[1:]
		value, joined := "", false
		if strings.HasPrefix(word, "--") {
			name, text, equals := strings.Cut(word[2:], "=")
			o, ok := long[name]
			if !ok || equals && !strings.Contains(valued, string(o)) {
				return nil, "unrecognized option '" + word + "'"
			}
			letters, value, joined = string(o), text, equals
		}
		for i := 0; i < len(letters); i++ {
			o := letters[i]
			switch {
			case strings.IndexByte(valued, o) >= 0:
				if !joined {
					value = letters[i+1:]
				}
				if value == "" && !joined {
					if len(args) == 0 {
						return nil, "option requires an argument -- '" + string(o) + "'"
					}
					value, args = args[0], args[1:]
				}
				i = len(letters)
			case strings.IndexByte(short, o) < 0:
				return nil, "invalid option -- '" + string(o) + "'"
			}
			if !take(o, value) {
				return nil, ""
			}
		}
	}
	return args, ""
}

// parseDumbInit reads dumb-init's arguments and environment. done reports that there is nothing to run.
func (o *Options) parseDumbInit(argv0 string, args []string) (code int, done bool) {
	say := func(text string) { _, _ = os.Stderr.WriteString(text) }
	long := map[string]byte{"help": 'h', "version": 'V', "verbose": 'v', "single-child": 'c', "rewrite": 'r'}
	rest, wrong := options(args, "hVvc", "r", long, func(letter byte, value string) bool {
		switch letter {
		case 'h':
			say(dumbInitVersion + "Usage: " + argv0 + dumbInitUsage)
			done = true
		case 'V':
			say(dumbInitVersion)
			done = true
		case 'v':
			o.role.verbose = 1
		case 'c':
			o.Single = true
		case 'r':
			rewrite, err := ParseRewrite(value)
			if err != nil || rewrite.From > syscall.SIGSYS || rewrite.To > syscall.SIGSYS {
				say(dumbInitRewrite)
				code, done = 1, true
			}
			o.Rewrites = append([]Rewrite{rewrite}, o.Rewrites...) // the last one counts
		}
		return !done
	})
	switch {
	case done:
		return code, true
	case wrong != "":
		say(argv0 + ": " + wrong + "\n")
		return 1, true
	case len(rest) == 0:
		say("Usage: " + argv0 + " [option] program [args]\nTry " + argv0 + " --help for full usage.\n")
		return 1, true
	}
	if os.Getenv("DUMB_INIT_DEBUG") == "1" {
		o.role.verbose = 1
		o.role.debug(0, "Running in debug mode.", "")
	}
	if os.Getenv("DUMB_INIT_SETSID") == "0" {
		o.Single = true
		o.role.debug(0, "Not running in setsid mode.", "")
	}
	o.Command = rest
	return 0, false
}

// parseTini reads tini's arguments and environment. done reports that there is nothing to run.
func (o *Options) parseTini(argv0 string, args []string) (code int, done bool) {
	say := func(text string) { _, _ = os.Stdout.WriteString(text) }
	if len(args) == 1 && args[0] == "--version" {
		say(tiniVersion + "\n")
		return 0, true
	}
	o.Single = true
	usage := strings.ReplaceAll(tiniUsage, "NAME", argv0[strings.LastIndexByte(argv0, '/')+1:])
	rest, wrong := options(args, "hvwgls", "pe", nil, func(letter byte, value string) bool {
		ok := true
		switch letter {
		case 'h':
			say(usage)
			done = true
		case 'l':
			say("This is disinto, under the MIT license: https://codeberg.org/johba/disinto\n")
			done = true
		case 's':
			o.role.subreaper = true
		case 'v':
			o.role.verbose++
		case 'w':
			o.role.warn = true
		case 'g':
			o.Single = false
		case 'p':
			o.role.death, ok = parseSignal(value)
			ok = ok && o.role.death > 0
		case 'e':
			ok = o.role.remap(value)
		}
		if !ok {
			o.role.print(0, "Not a valid option for -"+string(letter)+": "+value)
			code, done = 1, true
		}
		return !done
	})
	if done {
		return code, true
	}
	if wrong != "" || len(rest) == 0 {
		if wrong != "" {
			_, _ = os.Stderr.WriteString(argv0 + ": " + wrong + "\n")
		}
		_, _ = os.Stderr.WriteString(usage)
		return 1, true
	}
	_, subreaper := os.LookupEnv("TINI_SUBREAPER")
	_, group := os.LookupEnv("TINI_KILL_PROCESS_GROUP")
	o.role.subreaper, o.Single = o.role.subreaper || subreaper, o.Single && !group
	if level, ok := os.LookupEnv("TINI_VERBOSITY"); ok {
		o.role.verbose, _ = strconv.Atoi(level)
	}
	o.role.verbose = min(max(o.role.verbose, 0), 4)
	o.Command = rest
	return 0, false
}

// remap adds an exit code that becomes 0.
func (r *role) remap(text string) bool {
	code, err := strconv.Atoi(text)
	if err != nil || code < 0 || code > 255 {
		return false
	}
	if r.zero == nil {
		r.zero = make(map[int]bool)
	}
	r.zero[code] = true
	return true
}

const dumbInitUsage = ` [option] command [[arg] ...]

dumb-init is a simple process supervisor that forwards signals to children.
It is designed to run as PID1 in minimal container environments.

Optional arguments:
   -c, --single-child   Run in single-child mode.
                        In this mode, signals are only proxied to the
                        direct child and not any of its descendants.
   -r, --rewrite s:r    Rewrite received signal s to new signal r before proxying.
                        To ignore (not proxy) a signal, rewrite it to 0.
                        This option can be specified multiple times.
   -v, --verbose        Print debugging information to stderr.
   -h, --help           Print this help message and exit.
   -V, --version        Print the current version and exit.

Full help is available online at https://github.com/Yelp/dumb-init
`

const dumbInitRewrite = `Usage: -r option takes <signum>:<signum>, where <signum> is between 1 and 31.
This option can be specified multiple times.
Use --help for full usage.
`

const tiniUsage = `NAME (` + tiniVersion + `)
Usage: NAME [OPTIONS] PROGRAM -- [ARGS] | --version

Execute a program under the supervision of a valid init process (NAME)

Command line options:

  --version: Show version and exit.
  -h: Show this help message and exit.
  -s: Register as a process subreaper (requires Linux >= 3.4).
  -p SIGNAL: Trigger SIGNAL when parent dies, e.g. "-p SIGKILL".
  -v: Generate more verbose output. Repeat up to 3 times.
  -w: Print a warning when processes are getting reaped.
  -g: Send signals to the child's process group.
  -e EXIT_CODE: Remap EXIT_CODE (from 0 to 255) to 0 (can be repeated).
  -l: Show license and exit.

Environment variables:

  TINI_SUBREAPER: Register as a process subreaper (requires Linux >= 3.4).
  TINI_VERBOSITY: Set the verbosity level (default: 1).
  TINI_KILL_PROCESS_GROUP: Send signals to the child's process group.

`
