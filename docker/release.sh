#!/usr/bin/env bash
# Makes a release: docker/release.sh [DIR]. It builds the checked-out commit into DIR (default dist): static binaries,
# an image archive for each architecture, accompanying files, checksums, a bill of materials, and the notes from
# CHANGELOG.md. On a tag vX.Y.Z the version is X.Y.Z, otherwise the commit.
#
# TARGETS lists the systems to build for. IMAGES=no leaves out the images, for which docker/root.sh needs mmdebstrap.
set -euo pipefail
cd "$(dirname "$0")/.."

die() { echo "docker/release.sh: $*" >&2; exit 1; }

out=${1:-dist}
targets=${TARGETS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64}
[ -z "$(git status --porcelain)" ] || die "the tree has changes: commit or remove them"
tag=$(git describe --tags --exact-match 2>/dev/null || true)
version=${tag#v}
[ -n "$version" ] || version=$(git rev-parse --short=12 HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH CGO_ENABLED=0
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The notes: the version's section or, between two releases, the section Unreleased.
section=Unreleased
[ -z "$tag" ] || section=$version
awk -v want="$section" '/^## / { on = $2 == want || $2 == "[" want "]"; next } on' CHANGELOG.md |
  sed -e '/./,$!d' >"$out/NOTES.md"
[ -s "$out/NOTES.md" ] || die "CHANGELOG.md has no section \"## $section\" with the notes"

for target in $targets; do
  os=${target%/*} arch=${target#*/}
  name=disinto-$version-$os-$arch
  [ "$os" != windows ] || name=$name.exe
  echo "== $name"
  flags() { GOOS=$os GOARCH=$arch make -s --no-print-directory "$1"; }
  GOOS=$os GOARCH=$arch go build -trimpath -buildvcs=true -tags "$(flags tags)" -ldflags "$(flags ldflags)" -o "$out/$name" ./cmd/disinto
  go version -m "$out/$name" | grep -q 'vcs.modified=false' || die "$name does not know its commit: build in a clone with git"
  if [ "$os" = linux ] && [ "${IMAGES:-}" != no ]; then
    docker/root.sh "$arch" "$work/root.tar"
    docker/image.sh "$out/$name" "$arch" "$version" "$out/$name.image.tar.gz" "$work/root.tar"
    rm "$work/root.tar"
  fi
done

echo "== accompanying files"
self=$out/disinto-$version-linux-$(go env GOHOSTARCH)
said=$("$self" version)
case $said in "disinto $version ("*) ;; *) die "the program says it is $said, not $version" ;; esac
beside=$work/beside
mkdir "$beside"
"$self" man >"$beside/disinto.1"
for shell in bash zsh fish; do "$self" completion $shell >"$beside/disinto.$shell"; done
cp LICENSE CHANGELOG.md factory.toml.example factory.schema.json docs/disinto.service "$beside"
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rw,go=r,a+X \
  -C "$beside" -c . | gzip -n9 >"$out/disinto-$version-files.tar.gz"

# A bill of materials in CycloneDX, from the modules that the binary lists.
go version -m "$self" | awk -v version="$version" -v go="$(go env GOVERSION)" '
  BEGIN {
    printf "{\"bomFormat\":\"CycloneDX\",\"specVersion\":\"1.5\",\"version\":1,\"metadata\":{\"component\":"
    printf "{\"type\":\"application\",\"name\":\"disinto\",\"version\":\"%s\"}},\"components\":[\n", version
    sub(/^go/, "", go)
    printf "{\"type\":\"library\",\"name\":\"stdlib\",\"version\":\"%s\",\"purl\":\"pkg:golang/stdlib@%s\"}", go, go
  }
  $1 == "dep" { printf ",\n{\"type\":\"library\",\"name\":\"%s\",\"version\":\"%s\",\"purl\":\"pkg:golang/%s@%s\"}", $2, $3, $2, $3 }
  END { print "\n]}" }' >"$out/disinto-$version.cdx.json"

(cd "$out" && sha256sum -- "disinto-$version"* >SHA256SUMS)
echo "== done: disinto $version in $out"
