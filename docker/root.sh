#!/usr/bin/env bash
# Makes the file system of an image without a container engine: docker/root.sh ARCH OUT.tar
#
# It contains the same as the Dockerfile's runtime stage: a shell with the usual programs, git, ssh and certificates,
# from Debian's packages. The packages are unpacked but not run, so that every machine can make it for every
# architecture; the commands below do the work of their scripts. Needs mmdebstrap, and root or user namespaces.
set -euo pipefail

[ $# -eq 2 ] || { echo "usage: docker/root.sh ARCH OUT.tar" >&2; exit 2; }
command -v mmdebstrap >/dev/null || { echo "docker/root.sh: there is no mmdebstrap: apt-get install mmdebstrap" >&2; exit 1; }

packages=base-files,base-passwd,bash,ca-certificates,coreutils,curl,dash,diffutils,findutils,git,grep,gzip,mawk,openssh-client
packages+=,procps,sed,tar
# shellcheck disable=SC2016 # mmdebstrap's shell expands $1
finish='set -e; cd "$1"
for f in passwd group; do cp usr/share/base-passwd/$f.master etc/$f; done
mkdir -p etc/ssl/certs && cat usr/share/ca-certificates/mozilla/*.crt >etc/ssl/certs/ca-certificates.crt
[ -e bin/sh ] || ln -s dash bin/sh
ln -sf mawk usr/bin/awk
rm -rf usr/share/doc usr/share/man usr/share/locale usr/share/info var/cache/apt var/lib/apt/lists var/log/*'
mmdebstrap --quiet --architectures="$1" --skip=check/qemu --variant=extract --include=$packages \
  --extract-hook="$finish" bookworm "$2"
