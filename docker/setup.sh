#!/usr/bin/env bash
# Makes a first factory on this machine, from nothing: docker/setup.sh [YOUR-NAME]
#
# Starts the Forgejo of compose.yaml, makes you its administrator with a repository "hello", makes the supervisor's
# account, starts disinto, and hires a developer and a reviewer. If it is interrupted, run it again: it continues with
# your password from $FORGE_ADMIN_PASSWORD or the keyboard. It stores no password and no administrator's token.
#
# It uses docker, or podman if there is no docker; $ENGINE overrides that. Forgejo listens on this machine's loopback,
# on port 3000 or $FORGE_PORT, which is kept in docker/.env. If OPENAI_API_KEY is the only key, agents use codex with
# $MODEL.
set -euo pipefail
cd "$(dirname "$0")"

die() { echo "docker/setup.sh: $*" >&2; exit 1; }
step() { echo "== $*"; }

engine=${ENGINE:-docker}
[ -n "${ENGINE:-}" ] || command -v docker >/dev/null || ! command -v podman >/dev/null || engine=podman
compose() { "$engine" compose "$@"; }
compose version >/dev/null 2>&1 || die "there is no $engine compose: https://docs.docker.com/engine/install/"
"$engine" info >/dev/null 2>&1 || die "the $engine engine does not answer: start it, or run this with sudo"

taken() {
  case $1 in admin | api | disinto | ghost | org | root | user | dev-* | review-*) ;; *) return 1 ;; esac
}
me=${1:-${SUDO_USER:-$(id -un)}}
[ $# -gt 0 ] || ! taken "$me" || me=owner # such as root on a rented machine
[[ $me =~ ^[a-zA-Z0-9][a-zA-Z0-9._-]*$ ]] || die "\"$me\" cannot be an account's name: say another, docker/setup.sh NAME"
! taken "$me" || die "the name $me is taken: say another, docker/setup.sh NAME"

[ ! -e .env ] || chmod 600 .env
# has NAME...: one of the variables is set in .env.
has() { (IFS='|'; grep -qsE "^($*)=." .env); }
# keep NAME VALUE writes a variable to .env, in place of an older one.
keep() {
  local others
  others=$(grep -v "^$1=" .env || true)
  printf '%s\n' ${others:+"$others"} "$1=$2" >.env
}
if has ANTHROPIC_API_KEY CLAUDE_CODE_OAUTH_TOKEN; then
  cli=claude kind=sonnet model=sonnet
elif has OPENAI_API_KEY; then
  cli=codex kind=gpt model=${MODEL:-gpt-5-codex}
  has CLIS || keep CLIS @openai/codex@0.171.0
else
  die "agents have no model: write ANTHROPIC_API_KEY=... to docker/.env, or for a subscription
CLAUDE_CODE_OAUTH_TOKEN=..., which \`claude setup-token\` prints, or OPENAI_API_KEY=..."
fi
[ -z "${FORGE_PORT:-}" ] || keep FORGE_PORT "$FORGE_PORT"
port=$(sed -n 's/^FORGE_PORT=//p' .env | tail -1)
[[ ${port:=3000} =~ ^[0-9]{1,5}$ ]] || die "FORGE_PORT=$port in docker/.env: want a number"
forge=http://localhost:$port

# wait_for WHAT COMMAND... polls for two minutes. podman's compose has no --wait.
wait_for() {
  local left=240 what=$1
  shift
  until "$@" </dev/null >/dev/null 2>&1; do
    left=$((left - 1))
    [ $left -gt 0 ] || die "$what does not answer: $engine compose -f docker/compose.yaml logs"
    sleep 0.5
  done
}

step "the forge"
compose up -d forgejo
wait_for "the forge" compose exec -T forgejo curl -fsS http://localhost:3000/api/healthz

# accounts COMMAND... administers the forge's accounts from inside its container.
accounts() { compose exec -T -u git forgejo forgejo admin user "$@"; }
exists() { accounts list | awk '{ print $2 }' | grep -qx "$1"; }

# api METHOD PATH [JSON] asks the forge as you. The password is passed on stdin: every user can see arguments.
api() {
  printf 'user = "%s:%s"\n' "$me" "$password" | compose exec -T forgejo curl -fsS --config - -X "$1" \
    -H 'Content-Type: application/json' ${3:+-d "$3"} "http://localhost:3000/api/v1/$2"
}

step "you: $me"
password=${FORGE_ADMIN_PASSWORD:-}
made=''
if ! exists "$me"; then
  said=$(accounts create --admin --username "$me" --email "$me@example.org" \
    --random-password --must-change-password=false) ||
    die "the forge refused to make an account for $me: $said"
  password=$(sed -n "s/^generated random password is '\(.*\)'.*/\1/p" <<<"$said")
  made=" with the password $password"
elif [ -z "$password" ]; then
  read -rsp "password of $me on $forge: " password && echo
fi
api GET user >/dev/null 2>&1 || die "the forge refuses the password of $me; set a new one with
$engine compose -f docker/compose.yaml exec -u git forgejo forgejo admin user change-password \\
  --must-change-password=false --username $me --password ..."
[ -z "$made" ] || echo "sign in at $forge as $me$made"
api GET "repos/$me/hello" >/dev/null 2>&1 || api POST user/repos '{"name":"hello","auto_init":true}' >/dev/null

step "the supervisor"
mkdir -p etc
[ -e etc/factory.toml ] || sed -e "s/YOU/$me/" -e "s/^cli = .*/cli = \"$cli\"/" factory.toml >etc/factory.toml
exists disinto || accounts create --username disinto --email disinto@example.org \
  --random-password --must-change-password=false >/dev/null
# Only an administrator of the repository can register its web hook; afterwards disinto gets write access.
api PUT "repos/$me/hello/collaborators/disinto" '{"permission":"admin"}'
grep -qs '^WEBHOOK_SECRET=' etc/secrets.env ||
  (umask 077 && echo "WEBHOOK_SECRET=$(head -c 30 /dev/urandom | base64 | tr '+/' '-_')" >>etc/secrets.env)
if ! grep -qs '^FORGE_TOKEN=' etc/secrets.env; then
  token=$(accounts generate-access-token --username disinto --token-name "setup-$(date +%s)" \
    --scopes write:repository,write:issue,read:user --raw | tail -1)
  (umask 077 && echo "FORGE_TOKEN=$token" >>etc/secrets.env)
fi
compose up -d --build disinto
wait_for disinto compose exec -T disinto disinto status
compose exec -T disinto disinto check --fix >/dev/null || true # the check at the end reports problems
api PUT "repos/$me/hello/collaborators/disinto" '{"permission":"write"}'

step "agents"
for agent in "dev-$kind" "review-$kind"; do
  FORGE_ADMIN_USER=$me FORGE_ADMIN_PASSWORD=$password \
    compose exec -T -e FORGE_ADMIN_USER -e FORGE_ADMIN_PASSWORD disinto \
    disinto hire-an-agent "$agent" --model "$model" --thread anthropic
done
compose exec -T disinto disinto check || die "see what is wrong above; then run this again"

cat <<SAY

It runs. Sign in at $forge as $me$made.
Now file an issue with the label backlog: $forge/$me/hello/issues/new
and watch the agents work on it:

  $engine compose -f docker/compose.yaml exec disinto disinto status --watch
SAY
if [ -n "${SSH_CONNECTION:-}" ]; then
  read -r _ _ host _ <<<"$SSH_CONNECTION"
  cat <<SAY

Forgejo listens on this machine only. To reach it from yours, keep this running there, with the same port on both
sides, because Forgejo's links name it:

  ssh -N -L $port:localhost:$port ${SUDO_USER:-$(id -un)}@$host
SAY
fi
