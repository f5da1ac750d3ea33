#!/usr/bin/env bash
# Walks through a new user's steps, and prints the time of each: clone, make demo, make test, make build, disinto init
# on an empty forge, an issue, its merge. docker/walk.sh
#
# It walks in an empty Debian with git, make and Go, as a separate user. That needs root, debootstrap, a mirror of
# Debian and the right to mount. If one of them is missing, it names that one, and walks in a new home on this
# machine. It uses the checked-out commit; WALK_TEST=no leaves make test out.
set -euo pipefail

step() { echo "== $*"; }
fail() { echo "docker/walk.sh: FAILED: $*" >&2; exit 1; }

# api TOKEN METHOD PATH [JSON] sends a request to the forge with bash alone, because an empty Debian has no curl.
api() {
  local LC_ALL=C body=${4:-} host=${FORGE_URL#http://} code line
  exec 3<>"/dev/tcp/${host%:*}/${host##*:}"
  printf '%s /api/v1/%s HTTP/1.0\r\nHost: %s\r\nAuthorization: token %s\r\nContent-Type: application/json\r\n' \
    "$2" "$3" "$host" "$1" >&3
  printf 'Content-Length: %d\r\n\r\n%s' ${#body} "$body" >&3
  read -r _ code _ <&3
  while read -r line && [ "$line" != $'\r' ]; do :; done <&3
  cat <&3
  exec 3>&-
  [[ $code == 2* ]] || { echo "$2 $3: $code" >&2; return 1; }
}

# value NAME prints the first string of that name in the JSON on stdin.
value() { grep -o "\"$1\":\"[^\"]*\"" | head -1 | cut -d'"' -f4; }

# agent is the program of both agents. It relies only on docs/agents.md's promises to any program.
agent() {
  case $DISINTO_KIND in
    issue)
      export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=http.extraHeader
      export GIT_CONFIG_VALUE_0="Authorization: token $FORGE_TOKEN"
      git clone -q "$FORGE_URL/$FORGE_REPO.git" "$DISINTO_WORKSPACE/repo"
      cd "$DISINTO_WORKSPACE/repo"
      git checkout -q -b "fix/issue-$DISINTO_NUMBER"
      echo "all rights are yours" >LICENSE
      git add LICENSE
      git commit -q -m "Add a LICENSE"
      git push -q origin HEAD
      api "$FORGE_TOKEN" POST "repos/$FORGE_REPO/pulls" "{\"title\":\"Add a LICENSE\",\"base\":\"main\",
        \"head\":\"fix/issue-$DISINTO_NUMBER\",\"body\":\"Fixes #$DISINTO_NUMBER\"}" >/dev/null
      ;;
    review)
      head=$(api "$FORGE_TOKEN" GET "repos/$FORGE_REPO/pulls/$DISINTO_NUMBER" | sed 's/.*"head"://' | value sha)
      api "$FORGE_TOKEN" POST "repos/$FORGE_REPO/pulls/$DISINTO_NUMBER/reviews" \
        "{\"event\":\"APPROVED\",\"commit_id\":\"$head\",\"body\":\"Looks right.\"}" >/dev/null
      ;;
    *) fail "no work of the kind $DISINTO_KIND was expected" ;;
  esac
}

# timed WHAT COMMAND... runs one step of the walk.
report=''
timed() {
  local what=$1 begin=${EPOCHREALTIME/./} took
  shift
  step "$what"
  "$@"
  took=$(((${EPOCHREALTIME/./} - begin) / 100000))
  report+=$(printf '%-24s %4d.%d s' "$what" $((took / 10)) $((took % 10)))$'\n'
}

# within SECONDS WHAT COMMAND... polls until the command succeeds.
within() {
  local left=$(($1 * 5)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    left=$((left - 1))
    [ $left -gt 0 ] || { tail -20 run.log 2>/dev/null; fail "$what did not happen"; }
    sleep 0.2
  done
}

# A forge for the user: an administrator and an empty repository.
start_forge() {
  mkfifo open
  bin/disinto localforge --dir "$PWD/forge" <open >forge.json &
  exec 9>open # the forge ends when its input does
  within 10 "the start of the forge" test -s forge.json
  FORGE_URL=$(value url <forge.json)
  FORGE_ADMIN_TOKEN=$(value token <forge.json)
  export FORGE_URL FORGE_ADMIN_TOKEN
  api "$FORGE_ADMIN_TOKEN" POST user/repos '{"name":"hello","auto_init":true}' >/dev/null
}

# init ends with the missing item, the agent CLI: this user has a program of their own.
first_factory() {
  bin/disinto init --repo root/hello --api sonnet && fail "check misses that there is no agent CLI"
  sed -i "s|^cli = .*|command = [\"bash\", \"$PWD/docker/walk.sh\", \"agent\"]|" factory.toml
  bin/disinto check
}

start_factory() {
  env -u FORGE_ADMIN_TOKEN bin/disinto run >run.log 2>&1 &
  factory=$!
  within 10 "an answer of the supervisor" bin/disinto status
}

issue() { api "$FORGE_ADMIN_TOKEN" GET repos/root/hello/issues/1; }
closed() { issue | grep -q '"state":"closed"'; }
label() {
  api "$FORGE_ADMIN_TOKEN" GET repos/root/hello/labels | grep -o '"id":[0-9]*,"name":"backlog"' | grep -o '[0-9]*'
}
first_issue() {
  within 10 "the label backlog" label
  api "$FORGE_ADMIN_TOKEN" POST repos/root/hello/issues "{\"title\":\"Add a LICENSE\",\"labels\":[$(label)]}" >/dev/null
  within 120 "the merge of the first issue" closed
  bin/disinto show 1
  GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=http.extraHeader GIT_CONFIG_VALUE_0="Authorization: token $FORGE_ADMIN_TOKEN" \
    git clone -q "$FORGE_URL/root/hello.git" merged
  [ "$(cat merged/LICENSE)" = "all rights are yours" ] || fail "the file is not on main"
}

stop_factory() {
  kill "$factory"
  wait "$factory" || fail "disinto run ended with $?"
  exec 9>&-
  wait
}

# steps SOURCE is the walk itself, in an empty folder.
steps() {
  timed "git clone" git clone -q "$1" disinto
  cd disinto
  timed "make demo" make demo
  [ "${WALK_TEST:-}" = no ] || timed "make test" make test
  timed "make build" make build
  start_forge
  timed "disinto init" first_factory
  timed "disinto run" start_factory
  timed "the first issue's merge" first_issue
  timed "its end" stop_factory
  step "the walk took"
  printf '%s' "$report"
}

# here SOURCE walks in a new home on this machine.
here() {
  mkdir "$work/home"
  cd "$work/home"
  env -i HOME="$work/home" PATH="$(go env GOROOT)/bin:/usr/local/bin:/usr/bin:/bin" LANG=C.UTF-8 \
    WALK_TEST="${WALK_TEST:-}" GOPROXY="file://$modules" GOTOOLCHAIN=local GOFLAGS=-modcacherw bash "$self" steps "$1"
}

# away SOURCE walks in an empty Debian. All mounts are in a namespace that ends with the walk, so nothing of this
# machine is below the folder when it is deleted.
away() {
  chroot "$root" useradd --create-home --shell /bin/bash new
  mkdir -p "$root/usr/local/go" "$root/go-modules" "$root/source"
  cp "$self" "$root/walk.sh"
  cp -R "$1/." "$root/source"
  chown -R --reference="$root/home/new" "$root/source"
  # shellcheck disable=SC2016
  unshare --mount --pid --fork bash -euc '
    mount --bind -o ro "$2" "$1/usr/local/go"
    mount --bind -o ro "$3" "$1/go-modules"
    mount -t proc proc "$1/proc"
    mount --rbind /sys "$1/sys"
    mount --rbind /dev "$1/dev"
    mount -t tmpfs -o mode=1777 shm "$1/dev/shm" 2>/dev/null || true
    exec chroot --userspec=new:new "$1" env -i HOME=/home/new PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin \
      LANG=C.UTF-8 WALK_TEST="$4" GOPROXY=file:///go-modules GOTOOLCHAIN=local \
      bash -c "cd && exec bash /walk.sh steps /source"' \
    - "$root" "$(go env GOROOT)" "$modules" "${WALK_TEST:-}"
}

walk() {
  self=$(realpath "$0")
  cd "$(dirname "$self")/.."
  command -v go >/dev/null || fail "Go is missing: https://go.dev/dl/"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  step "source and modules"
  go mod download
  modules=$(go env GOMODCACHE)/cache/download
  git clone -q --bare . "$work/source.git"
  root=$work/debian
  mkdir "$root"
  missing=''
  [ "$(id -u)" -eq 0 ] || missing='root'
  command -v debootstrap >/dev/null || missing+="${missing:+, }debootstrap"
  [ -n "$missing" ] || unshare --mount --pid --fork true 2>/dev/null || missing='the right to mount'
  step "an empty Debian"
  [ -n "$missing" ] ||
    timeout 300 debootstrap --variant=minbase --include=git,make bookworm "$root" >"$work/debootstrap.log" 2>&1 ||
    missing="packages: $(tail -1 "$work/debootstrap.log")"
  if [ -z "$missing" ]; then
    away "$work/source.git"
    return
  fi
  echo "no empty Debian (missing: $missing); using a new home on this machine"
  here "$work/source.git"
}

case ${1:-walk} in
  walk | agent) "${1:-walk}" ;;
  steps) steps "$2" ;;
  *) fail "usage: docker/walk.sh" ;;
esac
