#!/usr/bin/env bash
# Tests the image: PID 1, environment, accounts, stop, kill, reload. It pulls nothing: debootstrap makes the base,
# containers use the host network, and the forge is the embedded one on loopback.
#
# Needs root, a Docker engine (if none runs, it starts dockerd) and debootstrap; if one is missing, it prints a notice
# and exits with 0. TEST_BASE names an image to use instead of a fresh debootstrap.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() { echo "docker/test.sh: skipped: $*"; exit 0; }
fail() { echo "docker/test.sh: FAILED: $*" >&2; exit 1; }
step() { echo "== $*"; }

[ "$(id -u)" -eq 0 ] || skip "needs root"
command -v docker >/dev/null || skip "no docker here"

work=$(mktemp -d)
name=disinto-test-$$
image=disinto-test:$$
nap="sleep 1000.$$" # the work of a session; the number distinguishes it from other tests'
engine='' forge_pid=''
cleanup() {
  docker rm -f "$name" >/dev/null 2>&1 || true
  docker image rm -f "$image" >/dev/null 2>&1 || true
  [ -z "$forge_pid" ] || kill "$forge_pid" 2>/dev/null || true
  [ -z "$engine" ] || { kill "$engine" 2>/dev/null || true; wait "$engine" 2>/dev/null || true; }
  umount "$work"/exec/netns/* 2>/dev/null || true # the engine leaves these mounted
  rm -rf "$work" || true
}
trap cleanup EXIT

# wait_for SECONDS WHAT COMMAND... polls until the command succeeds.
wait_for() {
  local left=$(($1 * 10)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    left=$((left - 1))
    [ $left -gt 0 ] || { docker logs "$name" 2>&1 | tail -20 >&2; fail "$what did not happen"; }
    sleep 0.1
  done
}

step "an engine"
# A running engine is used even if the environment points elsewhere: a second one beside it would take its bridge
# away.
docker info >/dev/null 2>&1 || unset DOCKER_HOST DOCKER_CONTEXT
if ! docker info >/dev/null 2>&1; then
  command -v dockerd >/dev/null || skip "no Docker engine answers, and no dockerd is installed"
  # On its own socket and without a bridge, which needs iptables: the containers use the host's network.
  export DOCKER_HOST=unix://$work/docker.sock
  dockerd -H "$DOCKER_HOST" --data-root "$work/engine" --exec-root "$work/exec" --pidfile "$work/engine.pid" \
    --bridge none --iptables=false >"$work/dockerd.log" 2>&1 &
  engine=$!
  for _ in $(seq 100); do docker info >/dev/null 2>&1 && break; sleep 0.2; done
  docker info >/dev/null 2>&1 || skip "dockerd does not start here: $(tail -1 "$work/dockerd.log")"
fi

step "a base without a registry"
base=${TEST_BASE:-disinto-test-base}
if ! docker image inspect "$base" >/dev/null 2>&1; then
  command -v debootstrap >/dev/null || skip "no image $base, and no debootstrap to make one"
  timeout 300 debootstrap --variant=minbase --include=git,ca-certificates,openssh-client bookworm "$work/root" \
    >"$work/debootstrap.log" 2>&1 ||
    skip "debootstrap finds no packages: $(tail -1 "$work/debootstrap.log")"
  tar -C "$work/root" -c . | docker import - "$base" >/dev/null
  rm -rf "$work/root"
fi
docker run --rm --network host "$base" true 2>"$work/probe.log" ||
  skip "the engine starts no containers here: $(tail -1 "$work/probe.log")"

if docker compose version >/dev/null 2>&1; then
  step "compose.yaml"
  docker compose -f docker/compose.yaml --profile llama --profile cuda config -q || fail "compose.yaml is not valid"
fi

step "the image"
make build >/dev/null
mkdir "$work/context" && mkdir "$work/context/dist"
cp bin/disinto "$work/context/dist/"
cp factory.toml.example "$work/context/"
# The compiling stage is removed: it needs a Go image, and Docker's old builder runs every stage.
sed '/ AS source$/,/^$/d' docker/Dockerfile >"$work/context/Dockerfile"
DOCKER_BUILDKIT=0 docker build -q --network none --target runtime --build-arg BUILD=prebuilt --build-arg RUNTIME="$base" \
  -t "$image" "$work/context" >"$work/build.log" 2>&1 || fail "the image does not build: $(tail -3 "$work/build.log")"

step "a forge"
mkfifo "$work/open"
bin/disinto localforge --dir "$work/forge" <"$work/open" >"$work/forge.json" 2>"$work/forge.log" &
forge_pid=$!
exec 9>"$work/open" # the forge ends when its input does
for _ in $(seq 100); do [ -s "$work/forge.json" ] && break; sleep 0.1; done
url=$(sed -n 's/.*"url":"\([^"]*\)".*/\1/p' "$work/forge.json")
admin=$(sed -n 's/.*"token":"\([^"]*\)".*/\1/p' "$work/forge.json")

# api METHOD PATH [JSON] sends a request to the forge as its administrator.
api() {
  curl -fsS -X "$1" -H "Authorization: token $admin" -H 'Content-Type: application/json' ${3:+-d "$3"} "$url/api/v1/$2"
}
new_user() {
  api POST admin/users "{\"username\":\"$1\",\"email\":\"$1@example.org\",\"password\":\"secret-$1\",
    \"must_change_password\":false}" >/dev/null
}
new_token() {
  curl -fsS -u "$1:secret-$1" -H 'Content-Type: application/json' -d '{"name":"t","scopes":["all"]}' \
    "$url/api/v1/users/$1/tokens" |
    sed -n 's/.*"sha1":"\([^"]*\)".*/\1/p'
}
for u in johba disinto dev-one dev-two; do new_user $u; done
johba=$(new_token johba) disinto=$(new_token disinto) one=$(new_token dev-one) two=$(new_token dev-two)
curl -fsS -H "Authorization: token $johba" -H 'Content-Type: application/json' -d '{"name":"shop","auto_init":true}' \
  "$url/api/v1/user/repos" >/dev/null
for u in disinto dev-one dev-two; do api PUT repos/johba/shop/collaborators/$u '{"permission":"write"}' >/dev/null; done

# The program prints its account and what it can read, then works until it is ended. It leaves a process behind that
# has its own session and ignores TERM.
cat >"$work/factory.toml" <<TOML
[forge]
repos = ["johba/shop"]

[factory]
user = "agent"

[threads.api]
backend = "anthropic"
interval = "1s"
idle_interval = "1s"
agents = ["dev-one", "dev-two"]

[roles.dev]
on = "issue"
command = ["sh", "-c", """
  for f in /proc/1/environ /etc/disinto/secrets.env; do cat \$f >/dev/null 2>&1 && spied=\$f; done
  for f in /etc/disinto/*; do [ -w \$f ] && spied=\$f; done
  echo uid=\$(id -u) word=\$WORD token=\${FORGE_TOKEN_DEV_TWO:-none}\${FORGE_TOKEN_DEV_ONE:-none} own=\${FORGE_TOKEN:+yes} spied=\${spied:-no}
  (trap '' TERM; setsid $nap &)
  $nap"""]
TOML
cat >"$work/env" <<ENV
FORGE_URL=$url
FORGE_TOKEN=$disinto
FORGE_TOKEN_DEV_ONE=$one
WORD=inherited
ENV
echo "FORGE_TOKEN_DEV_TWO=$two" >"$work/secrets.env"
# They belong to an account of the host, as where people write them.
chmod 600 "$work/secrets.env"
chown 1000 "$work/secrets.env" "$work/factory.toml"

status() { docker exec "$name" disinto status --json; }
issue() { api GET "repos/johba/shop/issues/$1"; }
claimed() { issue "$1" | grep -q '"login":"dev-' && issue "$1" | grep -q in-progress; }
unclaimed() { ! issue "$1" | grep -q '"login":"dev-' && ! issue "$1" | grep -q in-progress; }
# sleepers counts the processes of sessions: each session leaves one behind and waits for another.
sleepers() {
  docker exec "$name" sh -c 'for f in /proc/[0-9]*/cmdline; do tr "\0" " " <$f; echo; done 2>/dev/null' |
    grep -cx "$nap " || true
}
sleep_exactly() { [ "$(sleepers)" -eq "$1" ]; }

step "run: PID 1, environment, accounts"
docker run -d --name "$name" --network host --health-interval 1s --env-file "$work/env" \
  -v "$work/factory.toml:/etc/disinto/factory.toml" \
  -v "$work/secrets.env:/etc/disinto/secrets.env" "$image" >/dev/null
wait_for 10 "an answer of the supervisor" status
docker exec "$name" cat /proc/1/cmdline | tr '\0' ' ' | grep -q '^disinto run' || fail "PID 1 is not disinto"
label() { api GET repos/johba/shop/labels | sed 's/},{/}\n{/g' | sed -n "s/.*\"id\":\([0-9]*\),\"name\":\"$1\".*/\1/p"; }
wait_for 10 "the label backlog" sh -c "curl -fsS '$url/api/v1/repos/johba/shop/labels' | grep -q '\"backlog\"'"
backlog=$(label backlog)
for n in 1 2; do api POST repos/johba/shop/issues "{\"title\":\"work $n\",\"labels\":[$backlog]}" >/dev/null; done
wait_for 10 "the claim of both issues" claimed 1
wait_for 10 "the claim of both issues" claimed 2
wait_for 10 "two sessions with their strays" sleep_exactly 4
logs=$(docker exec "$name" sh -c 'cat /var/lib/disinto/logs/*/*.log')
# both TEXT WHAT: both agents have printed it.
both() { [ "$(grep -cF "$1" <<<"$logs")" -eq 2 ] || fail "$2: $logs"; }
both 'uid=10001 ' "agents do not run as the account agent"
both ' word=inherited ' "agents do not inherit the environment"
both ' token=nonenone own=yes ' "an agent has not its own token and no other"
both ' spied=no' "agents can read the supervisor's secrets, or write its files"
if docker logs "$name" 2>&1 | grep -qF -e "$one" -e "$two" -e "$disinto"; then fail "a token stands in the log"; fi

health() { [ "$(docker inspect -f '{{.State.Health.Status}}' "$name")" = healthy ]; }
wait_for 20 "the health check" health

step "reload: one bind-mounted file, written in place"
sed 's/, "dev-two"//' "$work/factory.toml" >"$work/new.toml" && cat "$work/new.toml" >"$work/factory.toml"
wait_for 10 "the new configuration" sh -c "docker exec $name disinto status --json | tr -d ' \n' | grep -q '\"generation\":2'"
echo '[threads' >>"$work/factory.toml"
wait_for 10 "the mistake in status" sh -c "docker exec $name disinto status --json | grep -q 'factory.toml:'"
sleep_exactly 4 || fail "a broken file stopped what ran"
sed 's/\["dev-one"\]/["dev-one", "dev-two"]/' "$work/new.toml" >"$work/factory.toml"
wait_for 10 "the third configuration" sh -c "docker exec $name disinto status --json | tr -d ' \n' | grep -q '\"generation\":3'"

step "kill -9 of the supervisor: both sessions go on below the same PID 1, and a request waits"
runs() { docker exec "$name" sh -c 'ls /var/lib/disinto/logs/*/*.log | wc -l'; }
# supervisor prints the supervisor's process number: it is the child of PID 1 with our arguments.
supervisor() {
  docker exec "$name" sh -c 'for p in $(cat /proc/1/task/1/children); do
    tr "\0" " " </proc/$p/cmdline | grep -q "^disinto run" && echo $p; done'
}
old=$(supervisor)
docker exec "$name" sh -c "kill -9 $old"
status | grep -q '"pid": *1,' || fail "no supervisor answers after the kill of one"
[ "$(supervisor)" != "$old" ] || fail "the same supervisor runs"
sleep_exactly 4 || fail "$(sleepers) processes of sessions run after the kill of the supervisor, want 4"
[ "$(runs)" -eq 2 ] || fail "there were $(runs) sessions, want the two that went on"
if ! claimed 1 || ! claimed 2; then fail "a claim went with the supervisor"; fi

step "kill -9 of the container, then start: nothing lost, nothing double"
docker kill "$name" >/dev/null
if ! claimed 1 || ! claimed 2; then fail "a kill cannot release a claim, but one is gone"; fi
docker start "$name" >/dev/null
again() { sleep_exactly 4 && claimed 1 && claimed 2; }
wait_for 30 "the restart of both sessions" again
sleep 3
again || fail "$(sleepers) processes of sessions run, want the 4 of two sessions"
[ "$(runs)" -eq 4 ] || fail "there were $(runs) sessions, want one on each issue before the kill and one after it"

step "docker stop: sessions end, claims are released, under 10 s"
begin=$(date +%s%N)
docker stop -t 30 "$name" >/dev/null
took=$((($(date +%s%N) - begin) / 1000000))
[ $took -lt 10000 ] || fail "docker stop took $took ms"
[ "$(docker inspect -f '{{.State.ExitCode}}' "$name")" -eq 0 ] || fail "exit code $(docker inspect -f '{{.State.ExitCode}}' "$name")"
for n in 1 2; do unclaimed $n || fail "issue $n is still claimed after docker stop"; done
if pgrep -fx "$nap" >/dev/null; then fail "an agent's process outlived the container"; fi

step "drain: PID 1 ends once nothing is begun, and comes back drained"
docker start "$name" >/dev/null
wait_for 30 "the restart of both sessions" again
docker exec "$name" disinto drain --then-stop --yes >/dev/null
api POST repos/johba/shop/issues "{\"title\":\"work 3\",\"labels\":[$backlog]}" >/dev/null
waits() { docker exec "$name" disinto why 3 | grep -q "the factory drains"; }
wait_for 20 "the wait of a new issue" waits
again || fail "a drain ended what was begun"
docker exec "$name" disinto cancel 1 2 --yes >/dev/null
ended() { [ "$(docker inspect -f '{{.State.Status}} {{.State.ExitCode}}' "$name")" = "exited 0" ]; }
wait_for 30 "the end of a drained container, with exit code 0" ended
docker start "$name" >/dev/null
wait_for 30 "the wait of a new issue after a restart" waits
unclaimed 3 || fail "a drained container started an issue"

echo "docker/test.sh: passed; docker stop took $took ms"
