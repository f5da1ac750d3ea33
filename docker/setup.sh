#!/usr/bin/env bash
# A first factory on this machine, from nothing: docker/setup.sh [YOUR-NAME]
#
# Starts the Forgejo of compose.yaml, makes you its administrator with a repository "hello", makes the supervisor's
# account, starts disinto, and hires a developer and a reviewer. If it breaks off, run it again: it continues there,
# with your password from $FORGE_ADMIN_PASSWORD or the keyboard. It stores no password and no administrator's token.
set -euo pipefail
cd "$(dirname "$0")"

me=${1:-${SUDO_USER:-$(id -un)}}
forge=http://localhost:3000

die() { echo "docker/setup.sh: $*" >&2; exit 1; }
step() { echo "== $*"; }

docker compose version >/dev/null 2>&1 || die "there is no docker compose: https://docs.docker.com/engine/install/"
docker info >/dev/null 2>&1 || die "the Docker engine does not answer: start it, or run this with sudo"
[[ $me =~ ^[a-zA-Z0-9][a-zA-Z0-9._-]*$ ]] || die "\"$me\" cannot be an account's name: say another, docker/setup.sh NAME"
case $me in
admin | api | disinto | ghost | org | root | user | dev-* | review-*)
  die "the name $me is taken: say another, docker/setup.sh NAME" ;;
esac
grep -qsE '^(ANTHROPIC_API_KEY|CLAUDE_CODE_OAUTH_TOKEN)=.' .env ||
  die "agents have no model: write ANTHROPIC_API_KEY=... to docker/.env, or for a subscription
CLAUDE_CODE_OAUTH_TOKEN=..., which \`claude setup-token\` prints"
chmod 600 .env

step "the forge"
docker compose up -d --wait forgejo

# accounts COMMAND... administers the forge's accounts from inside its container.
accounts() { docker compose exec -T -u git forgejo forgejo admin user "$@"; }
exists() { accounts list | awk '{ print $2 }' | grep -qx "$1"; }

# api METHOD PATH [JSON] asks the forge as you. The password is passed on stdin: every user can see arguments.
api() {
  printf 'user = "%s:%s"\n' "$me" "$password" | docker compose exec -T forgejo curl -fsS --config - -X "$1" \
    -H 'Content-Type: application/json' ${3:+-d "$3"} "$forge/api/v1/$2"
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
docker compose -f docker/compose.yaml exec -u git forgejo forgejo admin user change-password \\
  --must-change-password=false --username $me --password ..."
[ -z "$made" ] || echo "sign in at $forge as $me$made"
api GET "repos/$me/hello" >/dev/null 2>&1 || api POST user/repos '{"name":"hello","auto_init":true}' >/dev/null

step "the supervisor"
mkdir -p etc
[ -e etc/factory.toml ] || sed "s/YOU/$me/" factory.toml >etc/factory.toml
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
docker compose up -d --build --wait disinto
docker compose exec -T disinto disinto check --fix >/dev/null || true # the check at the end says what is wrong
api PUT "repos/$me/hello/collaborators/disinto" '{"permission":"write"}'

step "agents"
for agent in dev-sonnet review-sonnet; do
  FORGE_ADMIN_USER=$me FORGE_ADMIN_PASSWORD=$password \
    docker compose exec -T -e FORGE_ADMIN_USER -e FORGE_ADMIN_PASSWORD disinto \
    disinto hire-an-agent "$agent" --model sonnet --thread anthropic
done
docker compose exec -T disinto disinto check || die "see what is wrong above; then run this again"

cat <<SAY

It runs. Sign in at $forge as $me$made.
Now file an issue with the label backlog: $forge/$me/hello/issues/new
and watch the agents work on it:

  docker compose -f docker/compose.yaml exec disinto disinto status --watch
SAY
