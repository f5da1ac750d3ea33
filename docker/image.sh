#!/usr/bin/env bash
# Makes an image archive without a container engine: docker/image.sh PROGRAM ARCH VERSION OUT.tar.gz ROOT.tar
#
# The archive is an OCI layout that `docker load` and `podman load` also read. It contains the file system of
# ROOT.tar, the program, and the Dockerfile's additions. The same input gives the same bytes; all times are
# $SOURCE_DATE_EPOCH.
set -euo pipefail

[ $# -eq 5 ] || { echo "usage: docker/image.sh PROGRAM ARCH VERSION OUT.tar.gz ROOT.tar" >&2; exit 2; }
program=$1 arch=$2 version=$3 out=$4 root=$5
epoch=${SOURCE_DATE_EPOCH:-0}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
layout=$work/layout
mkdir -p "$layout/blobs/sha256"

# blob FILE puts a file among the blobs and prints its digest.
blob() {
  local digest
  digest=$(sha256sum "$1" | cut -d' ' -f1)
  mv "$1" "$layout/blobs/sha256/$digest"
  echo "$digest"
}
size() { stat -c %s "$layout/blobs/sha256/$1"; }
pack() { tar --sort=name --mtime="@$epoch" --numeric-owner --format=gnu "$@"; }

# The top layer: the program, its directories and, as in the Dockerfile, the agents' account.
top=$work/top
install -D -m 0755 "$program" "$top/usr/local/bin/disinto"
install -d -m 0711 "$top/var/lib/disinto" "$top/etc/disinto"
install -d -m 0755 "$top/home/agent"
install -d -m 1777 "$top/tmp"
account() { # FILE LINE adds a line to the root's file
  tar -xOf "$root" "./etc/$1" >"$top/etc/$1"
  echo "$2" >>"$top/etc/$1"
}
account group "agent:x:10001:"
account passwd "agent:x:10001:10001::/home/agent:/bin/bash"
pack -C "$top" --owner=0 --group=0 --exclude=./home/agent -cf "$work/top.tar" .
pack -C "$top" --owner=10001 --group=10001 -rf "$work/top.tar" ./home/agent

cp "$root" "$work/root.tar"
layers=("$(blob "$work/root.tar")" "$(blob "$work/top.tar")")

# list BEFORE prints the layers' digests as JSON strings, each after the text BEFORE, with commas between.
list() { printf '%s\n' "${layers[@]}" | sed "s|.*|\"$1&\"|" | paste -sd, -; }

cat >"$work/config" <<JSON
{"architecture":"$arch","os":"linux","created":"$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)",
"config":{"Entrypoint":["disinto"],"Cmd":["run"],"WorkingDir":"/var/lib/disinto","StopSignal":"SIGTERM",
"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],"Volumes":{"/var/lib/disinto":{}},
"Healthcheck":{"Test":["CMD","disinto","status"],"Interval":30000000000,"Timeout":5000000000,"StartPeriod":10000000000},
"Labels":{"org.opencontainers.image.title":"disinto","org.opencontainers.image.version":"$version",
"org.opencontainers.image.source":"https://codeberg.org/johba/disinto","org.opencontainers.image.licenses":"MIT"}},
"rootfs":{"type":"layers","diff_ids":[$(list sha256:)]}}
JSON
config=$(blob "$work/config")

descriptors=()
for layer in "${layers[@]}"; do
  descriptors+=("{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar\",\"digest\":\"sha256:$layer\",\"size\":$(size "$layer")}")
done
cat >"$work/manifest" <<JSON
{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",
"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:$config","size":$(size "$config")},
"layers":[$(printf '%s\n' "${descriptors[@]}" | paste -sd, -)]}
JSON
manifest=$(blob "$work/manifest")

echo '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
cat >"$layout/index.json" <<JSON
{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:$manifest",
"size":$(size "$manifest"),"platform":{"architecture":"$arch","os":"linux"},
"annotations":{"io.containerd.image.name":"docker.io/library/disinto:$version","org.opencontainers.image.ref.name":"$version"}}]}
JSON
# For engines that cannot read an OCI layout.
cat >"$layout/manifest.json" <<JSON
[{"Config":"blobs/sha256/$config","RepoTags":["disinto:$version"],"Layers":[$(list blobs/sha256/)]}]
JSON
find "$layout" -type f -exec chmod 644 {} +
pack -C "$layout" --owner=0 --group=0 -c . | gzip -n9 >"$out"
