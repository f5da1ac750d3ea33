# Tools run at these versions by `go run`, so that go.mod names only what is in the binary.
GOFUMPT     = mvdan.cc/gofumpt@v0.12.0
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Go's runtime sends itself SIGURG to interrupt goroutines. An init that passes signals on would pass these on too (17 of
# 40 runs did), and go.mod cannot turn it off: only the linker can, and so it also stays out of the children's environment.
LDFLAGS = -s -w -X runtime.godebugDefault=asyncpreemptoff=1

# The race detector needs a C compiler. Asked only by the targets that use it.
RACE = $(shell command -v $$(go env CC | cut -d' ' -f1) >/dev/null && echo -race)

.PHONY: help
help: ## show this
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## run a whole factory in one process, for a minute: no network, no account, no model
	go run ./cmd/disinto demo

.PHONY: build
build: ## make bin/disinto, one static binary; the version in it is git's
	CGO_ENABLED=0 go build -trimpath -buildvcs=auto -ldflags '$(LDFLAGS)' -o bin/disinto ./cmd/disinto

.PHONY: test
test: ## run all tests
	@race='$(RACE)'; \
	if [ -z "$$race" ]; then echo 'no C compiler: testing without the race detector'; else export CGO_ENABLED=1; fi; \
	echo "go test $$race ./..."; go test $$race ./...

.PHONY: check
check: ## what CI checks beside the tests: form, vet, static analysis, modules, the rules of the tree
	@echo 'gofumpt -l .'; files=$$(go run $(GOFUMPT) -l .) || exit 1; \
	if [ -n "$$files" ]; then echo "not formatted, run make format:"; echo "$$files"; exit 1; fi
	go vet ./...
	go run $(STATICCHECK) ./...
	go fix -diff -stringsbuilder=false ./...
	go mod tidy -diff
	go test .

.PHONY: format
format: ## format all Go files
	go run $(GOFUMPT) -w .
