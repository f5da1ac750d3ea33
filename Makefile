# `go run` runs the tools at these versions, so that go.mod lists only the modules in the binary.
GOFUMPT     = mvdan.cc/gofumpt@v0.12.0
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Go's runtime interrupts goroutines by sending itself SIGURG. An init that passes signals on would pass these on too
# (17 of 40 runs did). go.mod cannot turn that off, only the linker can, and the linker's setting also stays out of
# the children's environment. The second setting tells our init that every SIGURG it sees is a real one.
LDFLAGS = -s -w -X runtime.godebugDefault=asyncpreemptoff=1 -X codeberg.org/johba/disinto/agents/process/pid1.passSIGURG=yes

# The program starts with its own instructions, before Go's runtime. They hold every signal until it is read: see
# agents/process/pid1/entry.go. They change a table of the runtime, which the linker allows only with this flag.
ENTRY = -checklinkname=0 -E codeberg.org/johba/disinto/agents/process/pid1.entry
ifneq ($(filter linux/amd64 linux/arm64,$(shell go env GOOS)/$(shell go env GOARCH)),)
TAGS = entry
LINK = $(LDFLAGS) $(ENTRY)
else
LINK = $(LDFLAGS)
endif

# The race detector needs a C compiler. Only the targets that use it look for one.
RACE = $(shell command -v $$(go env CC | cut -d' ' -f1) >/dev/null && echo -race)

.PHONY: help
help: ## show this
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Not with go run, which prints "exit status 130" after Ctrl-C and does not do make build's work.
.PHONY: demo
demo: ## run a whole factory in one process, for half a minute: no network, no account, no model
	@echo 'compiling disinto, which takes a minute or two the first time; then a whole factory runs for half a minute'
	@$(MAKE) -s build
	@trap : INT; bin/disinto demo; code=$$?; [ $$code -ne 130 ] || exit 0; [ $$code -eq 0 ] || exit $$code; \
	echo 'next: $(CURDIR)/docker/setup.sh makes a factory in Docker;'; \
	echo '      $(CURDIR)/bin/disinto init makes one on a forge of your own'

.PHONY: build
build: ## make bin/disinto, one static binary; the version in it is git's
	CGO_ENABLED=0 go build -trimpath -buildvcs=auto -tags '$(TAGS)' -ldflags '$(LINK)' -o bin/disinto ./cmd/disinto

.PHONY: ldflags tags
ldflags:
	@echo '$(LINK)'
tags:
	@echo '$(TAGS)'

.PHONY: release
release: ## build a release of this commit into dist/: binaries, images, checksums, notes; on a tag it has its version
	docker/release.sh dist

.PHONY: man
man: ## write the manual page, bin/disinto.1: man -l bin/disinto.1
	@mkdir -p bin
	go run ./cmd/disinto man >bin/disinto.1

.PHONY: test
test: ## run all tests: a few of each storm, three minutes with cold caches on two cores
	@[ -n '$(RACE)' ] || echo 'no C compiler: testing without the race detector'
	go test $(RACE) ./...

# The number of sessions, and the seconds that each takes.
SOAK       = 1000
SOAK_TAKES = 1
# The time for which evil agents work among honest ones.
SOAK_EVIL  = 10m

.PHONY: soak
soak: build ## 1,000 sessions through 20 threads, kill -9 at every write, 100 upgrades, 65 deaths of the supervisor, 1,000 stops meanwhile, evil agents, a month of virtual time
	DISINTO_SOAK='$(SOAK)' DISINTO_SOAK_TAKES='$(SOAK_TAKES)' DISINTO_SOAK_EVIL='$(SOAK_EVIL)' DISINTO_BINARY='$(CURDIR)/bin/disinto' \
	go test -v -count=1 -timeout 40m -run 'TestSoak|TestKilledAtRequest' ./cmd/disinto
	DISINTO_UPGRADES=100 go test -v -count=1 -timeout 40m -run 'TestUpgrades$$' ./cmd/disinto
	DISINTO_KILLS=65 DISINTO_BINARY='$(CURDIR)/bin/disinto' \
	go test -v -count=1 -timeout 3h -run 'TestSupervisorKilled$$' ./cmd/disinto
	DISINTO_TERMS=1000 DISINTO_BINARY='$(CURDIR)/bin/disinto' \
	go test -v -count=1 -timeout 90m -run 'TestTermsWhileReplaced$$' ./cmd/disinto
	DISINTO_STORMS=1 DISINTO_SOAK_DAYS=30 go test -v -count=1 -timeout 40m -run 'TestSoak' ./supervisor/simtest

.PHONY: live
live: build ## compare a real supervisor with the simulator: three loads, five minutes on an otherwise idle machine
	for seed in 1 2 3; do DISINTO_LIVE=$$seed DISINTO_BINARY='$(CURDIR)/bin/disinto' \
	go test -v -count=1 -timeout 10m -run 'TestLive$$' ./cmd/disinto || exit 1; done

.PHONY: bench-init
bench-init: build ## measure the init beside tini, dumb-init, catatonit and s6 where installed, as root, and an idle disinto run
	DISINTO_BENCH='$(CURDIR)/bin/disinto' go test -v -count=1 -timeout 30m -run TestPeers ./agents/process
	DISINTO_BINARY='$(CURDIR)/bin/disinto' go test -v -count=1 -run TestIdle ./cmd/disinto

# The agent CLIs that the built-in agent is tested with: a gigabyte, kept between runs.
CLIS    = @anthropic-ai/claude-code@2.1.332 @qwen-code/qwen-code@0.24.4 @openai/codex@0.171.0 opencode-ai@1.18.33 node@22
CLI_DIR = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/disinto-clis

# Every recording is one of these versions, and docs/agents.md names them. A test compares the three.
.PHONY: agents-newest
agents-newest: ## move the agent CLIs to their newest versions, record what they print, and try the built-in agent
	@for cli in $(filter-out node@%,$(CLIS)); do \
	  name=$${cli%@*} && new=$$(npm view "$$name" version) && [ -n "$$new" ] && \
	  sed -i "s|$$name@[0-9][0-9.]*|$$name@$$new|g" Makefile docker/Dockerfile docker/compose.yaml docker/setup.sh && \
	  echo "$$name $$new" || exit 1; \
	done
	@mkdir -p '$(CLI_DIR)' && $(MAKE) --no-print-directory agents-record agents-e2e

.PHONY: agents-record
agents-record: # of the pinned versions; the second test reads the recordings again
	cd '$(CLI_DIR)' && npm install --no-audit --no-fund --loglevel=error $(CLIS)
	DISINTO_CLIS='$(CLI_DIR)/node_modules/.bin' go test -count=1 -timeout 30m -run '^TestRealCLIs$$' ./agents/session -update
	go test -count=1 -run '^(TestRecordings|TestVersions)$$' ./agents/session -update

.PHONY: agents-e2e
agents-e2e: ## try the built-in agent with real agent CLIs from npm, against a stand-in for the model
	@command -v npm >/dev/null || { echo 'skipped: there is no npm to install the agent CLIs with'; exit 0; }; \
	mkdir -p '$(CLI_DIR)' && cd '$(CLI_DIR)' && \
	{ npm install --no-audit --no-fund --loglevel=error $(CLIS) || \
	{ echo 'skipped: npm cannot install the agent CLIs (no network?)'; exit 0; }; } && \
	cd '$(CURDIR)' && DISINTO_CLIS='$(CLI_DIR)/node_modules/.bin' \
	go test -v -count=1 -timeout 30m -run '^TestReal' ./agents/session ./cmd/disinto

# Debian's chromium, and axe-core from npm, which finds barriers in pages. DISINTO_SHOTS is the folder for
# screenshots.
BROWSER = $(shell command -v chromium || command -v chromium-browser)
AXE     = axe-core@4.14.1
AXE_DIR = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/disinto-axe

.PHONY: web-test
web-test: build ## look at the control room of a demo with a real browser; skipped without chromium
	@[ -n '$(BROWSER)' ] || { echo 'skipped: there is no chromium (apt install chromium)'; exit 0; }; \
	mkdir -p '$(AXE_DIR)' bin/pages && axe='$(AXE_DIR)/node_modules/axe-core/axe.min.js' && \
	{ [ -e "$$axe" ] || (cd '$(AXE_DIR)' && npm install --no-audit --no-fund --loglevel=error $(AXE)) || \
	{ echo 'without axe-core: npm is missing or cannot install it'; axe=; }; } && \
	DISINTO_AXE="$$axe" DISINTO_BROWSER='$(BROWSER)' DISINTO_BINARY='$(CURDIR)/bin/disinto' \
	DISINTO_SHOTS="$${DISINTO_SHOTS:-$(CURDIR)/bin/pages}" \
	go test -tags browser -v -count=1 -timeout 30m ./supervisor/web/browser

.PHONY: docker-test
docker-test: ## try the image: init, accounts, stop, kill, reload; skipped without root or a Docker engine
	@docker/test.sh

.PHONY: walk
walk: ## walk a new user's steps to the first merged issue, in an empty Debian if possible; WALK_TEST=no skips make test
	@docker/walk.sh

.PHONY: check
check: ## what CI checks beside make test: form, vet, static analysis, modules, and every storm of the tests
	@echo 'gofumpt -l .'; files=$$(go run $(GOFUMPT) -l .) || exit 1; \
	if [ -n "$$files" ]; then echo "not formatted, run make format:"; echo "$$files"; exit 1; fi
	go vet -tags browser,storms,mutants ./...
	go run $(STATICCHECK) -tags browser,storms,mutants ./...
	go fix -tags browser,storms,mutants -diff -stringsbuilder=false ./...
	go mod tidy -diff
	GOOS=darwin go build -o /dev/null ./cmd/disinto # the commands of a client
	GOOS=windows go build -o /dev/null ./cmd/disinto
	DISINTO_STORMS=1 go test -tags storms -timeout 40m ./... # every storm, long world and repeated kill: make test plays a few of each

.PHONY: mutants
mutants: ## change 200 conditions, one at a time, and see whether a test notices: hours; MUTANTS=20 MUTANTS_IN=threads/ledger
	nice -n 10 go test -tags mutants -v -count=1 -timeout 24h -run TestMutants .

.PHONY: format
format: ## format all Go files
	go run $(GOFUMPT) -w .
