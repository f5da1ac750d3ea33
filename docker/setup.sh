#!/usr/bin/env bash
# Makes a first factory on this machine, from nothing: docker/setup.sh [YOUR-NAME]
#
# First it asks: for a model's key, unless docker/.env has one, and after a look at the engine, the port and the disk,
# whether to go on. Until then it changes nothing. Then it starts the Forgejo of compose.yaml, makes you its
# administrator with a repository "hello", makes the supervisor's account, starts disinto, and hires a developer and a
# reviewer. If it is interrupted, run it again: it continues with your password from $FORGE_ADMIN_PASSWORD or the
# keyboard. It stores no password and no administrator's token.
#
# It uses docker, or podman if there is no docker; $ENGINE overrides that. The key decides which CLI the agents use, and
# $MODEL names another model. docker/.env keeps these variables of the environment: FORGE_PORT, Forgejo's port on this
# machine's loopback (3000); FORGE_ROOT_URL, Forgejo's address for browsers, such as https://git.example.org/ behind a
# reverse proxy; HTTP_PROXY, HTTPS_PROXY and NO_PROXY.
set -euo pipefail
cd "$(dirname "$0")"

die() { echo "docker/setup.sh: $*" >&2; exit 1; }
step() { echo "== $*"; }
note() { printf '  %-8s %s\n' "$1" "$2"; }

# value NAME prints a variable of .env, without quotes.
value() { [ ! -e .env ] || sed -n "s/^$1=//p" .env | tail -1 | sed "s/^[\"']\(.*\)[\"']$/\1/"; }
# keep NAME VALUE writes a variable to .env, in place of an older one.
keep() {
  local others
  others=$(grep -v "^$1=" .env || true)
  (umask 077 && printf '%s\n' ${others:+"$others"} "$1=$2" >.env.new)
  mv .env.new .env
}
# older VERSION MAJOR MINOR: the version is before that one.
older() {
  local major minor
  IFS=.- read -r major minor _ <<<"${1#v}"
  [[ $major$minor =~ ^[0-9]+$ ]] && { [ "$major" -lt "$2" ] || { [ "$major" -eq "$2" ] && [ "$minor" -lt "$3" ]; }; }
}

engine=${ENGINE:-docker}
[ -n "${ENGINE:-}" ] || command -v docker >/dev/null || ! command -v podman >/dev/null || engine=podman
compose() { "$engine" compose "$@"; }
plugin="install Docker's compose plugin, 2.24 or later: https://docs.docker.com/compose/install/linux/"
[ "$engine" = docker ] || plugin="podman 4.7 or later runs podman-compose 1.3 or later, or docker-compose 2.24 or later"
command -v "$engine" >/dev/null || die "there is no $engine here: https://docs.docker.com/engine/install/"
version=$(compose version --short 2>/dev/null) || {
  alone=$(docker-compose version --short 2>/dev/null) || alone=''
  die "there is no $engine compose${alone:+; docker-compose $alone does not do}: $plugin"
}
if grep -qi podman-compose <<<"$(compose version 2>&1)"; then
  ! older "$version" 1 3 || die "podman-compose $version is too old: $plugin"
else
  ! older "$version" 2 24 || die "compose $version is too old: $plugin"
fi
"$engine" info >/dev/null 2>&1 || die "the $engine engine does not answer: start it, or run this with sudo"

taken() {
  case $1 in admin | api | disinto | ghost | org | root | user | dev-* | review-*) ;; *) return 1 ;; esac
}
me=${1:-${SUDO_USER:-$(id -un)}}
[ $# -gt 0 ] || ! taken "$me" || me=owner # such as root on a rented machine
[[ $me =~ ^[a-zA-Z0-9][a-zA-Z0-9._-]*$ ]] ||
  die "\"$me\" cannot be an account's name: say another, docker/setup.sh NAME"
! taken "$me" || die "the name $me is taken: say another, docker/setup.sh NAME"

# variable KEY prints what the variable of a key is called, or nothing about a key of another form.
variable() {
  case $1 in
    sk-ant-oat*) echo CLAUDE_CODE_OAUTH_TOKEN ;;
    sk-ant-*) echo ANTHROPIC_API_KEY ;;
    sk-or-*) echo OPENROUTER_API_KEY ;;
    sk-proj-* | sk-svcacct-*) echo OPENAI_API_KEY ;;
  esac
}
vendor='' new=''
for name in CLAUDE_CODE_OAUTH_TOKEN ANTHROPIC_API_KEY OPENAI_API_KEY OPENROUTER_API_KEY; do
  key=$(value $name)
  [ -n "$key" ] || continue
  [[ $key != *... && $key != *… ]] || die "$name in docker/.env is an example's: write your own key there"
  right=$(variable "$key")
  [ -z "$right" ] || [ "$right" = $name ] || [ -n "$(value "${name%_API_KEY}_BASE_URL")" ] ||
    die "$name in docker/.env has the form of $right: rename it there"
  vendor=${vendor:-$name}
done
if [ -z "$vendor" ]; then
  [ ! -t 0 ] || echo "Agents need a model. Paste a key of Anthropic, OpenAI or OpenRouter, or the token that \`claude
setup-token\` prints for a subscription. It is not shown, and docker/.env keeps it."
  read -rsp "key: " new || true
  [ ! -t 0 ] || echo
  vendor=$(variable "$new")
  [ -n "$new" ] || die "agents have no model: run this on a terminal and paste a key, or write ANTHROPIC_API_KEY=... (or
CLAUDE_CODE_OAUTH_TOKEN, OPENAI_API_KEY, OPENROUTER_API_KEY) to docker/.env"
  [ -n "$vendor" ] && [[ $new != *... && $new != *… ]] ||
    die "that is no key of Anthropic (sk-ant-), OpenAI (sk-proj-) or OpenRouter (sk-or-)"
fi
case $vendor in
  OPENAI_API_KEY) thread=openai cli=codex clis=@openai/codex@0.171.0 model=${MODEL:-gpt-5-codex} ;;
  OPENROUTER_API_KEY)
    thread=openrouter cli=opencode clis=opencode-ai@1.18.33 model=${MODEL:-openrouter/anthropic/claude-sonnet-4.5}
    ;;
  *) thread=anthropic cli=claude clis='' model=${MODEL:-sonnet} ;;
esac
kind=$(tr 'A-Z./_:' 'a-z----' <<<"${model##*/}")
if [ -e etc/factory.toml ]; then # of an earlier run
  thread=$(sed -n 's/^\[threads\.\([^]]*\)\].*/\1/p' etc/factory.toml | head -1)
  grep -q "^cli = \"$cli\"" etc/factory.toml ||
    die "docker/etc/factory.toml has no agents with $cli, but the key is $vendor: change one of the two"
fi

port=${FORGE_PORT:-$(value FORGE_PORT)}
[[ ${port:=3000} =~ ^[0-9]{1,5}$ ]] || die "FORGE_PORT=$port: want a number"
forge=http://localhost:$port
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
if listens "$port" && [[ $(compose port forgejo 3000 2>/dev/null) != *"$port" ]]; then
  free=$((port + 1))
  while listens $free; do free=$((free + 1)); done
  die "another program listens on port $port: choose another for Forgejo, FORGE_PORT=$free docker/setup.sh"
fi
root=${FORGE_ROOT_URL:-$(value FORGE_ROOT_URL)}
[[ -n $root && $root != http://localhost:* ]] || root=$forge/
[[ $root =~ ^https?://[^/]+(/.*)?/$ ]] || die "FORGE_ROOT_URL=$root: want http:// or https://, a host, and / at the end"

for name in HTTP_PROXY HTTPS_PROXY NO_PROXY; do
  lower=$(tr A-Z a-z <<<"$name")
  proxy=${!name:-${!lower:-$(value $name)}}
  [[ $name = NO_PROXY || ! $proxy =~ ^([a-z]+://)?([^@/]*@)?(localhost|127\.|\[::1\]) ]] ||
    die "$name is on this machine's loopback, which containers do not reach: say another address of it, or unset it"
  printf -v "$name" %s "$proxy"
done
export HTTP_PROXY HTTPS_PROXY NO_PROXY

echo "This makes a factory with $engine:"
note you "$me, administrator of a Forgejo at $root"
[ "$root" = "$forge/" ] || note "" "your reverse proxy must send $root to $forge"
note agents "dev-$kind and review-$kind: $cli with $model, paid with $vendor"
[ -z "$HTTP_PROXY$HTTPS_PROXY" ] || note proxy "for agents and the build; the engine has its own setting"
if "$engine" image inspect disinto-disinto >/dev/null 2>&1; then
  note time "a minute or two"
else
  note time "5 to 15 minutes, most of them for downloads"
  note disk "4 GB"
  folder=$("$engine" info --format '{{.DockerRootDir}}' 2>/dev/null) ||
    folder=$("$engine" info --format '{{.Store.GraphRoot}}' 2>/dev/null) || folder=''
  if [ -d "$folder" ]; then
    left=$(df -Pk "$folder" | awk 'NR == 2 { print int($4 / 1048576) }')
    [ "$left" -ge 4 ] || die "$folder has only $left GB left: make room, with $engine system prune for example"
  fi
fi
if [ -t 0 ]; then
  read -rp "Go on? [Y/n] " answer
  [[ ${answer:-y} = [Yy]* ]] || die "nothing was changed"
fi

[ -z "$new" ] || keep "$vendor" "$new"
[ -z "$clis" ] || [ -n "$(value CLIS)" ] || keep CLIS "$clis"
keep FORGE_PORT "$port"
keep FORGE_ROOT_URL "$root"
for name in HTTP_PROXY HTTPS_PROXY NO_PROXY; do [ -z "${!name}" ] || keep $name "${!name}"; done
chmod 600 .env

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
wait_for "the forge" compose exec -T forgejo curl -fsS --noproxy '*' http://localhost:3000/api/healthz

# accounts COMMAND... administers the forge's accounts from inside its container.
accounts() { compose exec -T -u git forgejo forgejo admin user "$@"; }
exists() { accounts list | awk '{ print $2 }' | grep -qx "$1"; }

# api METHOD PATH [JSON] asks the forge as you. The password is passed on stdin: every user can see arguments.
api() {
  printf 'user = "%s:%s"\n' "$me" "$password" | compose exec -T forgejo curl -fsS --noproxy '*' --config - -X "$1" \
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
  read -rsp "password of $me on $root: " password && echo
fi
api GET user >/dev/null 2>&1 || die "the forge refuses the password of $me; set a new one with
$engine compose -f docker/compose.yaml exec -u git forgejo forgejo admin user change-password \\
  --must-change-password=false --username $me --password ..."
[ -z "$made" ] || echo "sign in at $root as $me$made"
api GET "repos/$me/hello" >/dev/null 2>&1 || api POST user/repos '{"name":"hello","auto_init":true}' >/dev/null

step "the supervisor"
mkdir -p etc
[ -e etc/factory.toml ] ||
  sed -e "s/YOU/$me/" -e "s/^cli = .*/cli = \"$cli\"/" -e "s/^\[threads\.api\]/[threads.$thread]/" \
    factory.toml >etc/factory.toml
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
compose build --build-arg HTTP_PROXY --build-arg HTTPS_PROXY --build-arg NO_PROXY disinto ||
  die "the image of disinto does not build, see above: correct that, then run this again with the password of $me"
compose up -d disinto
wait_for disinto compose exec -T disinto disinto status
compose exec -T disinto disinto check --fix >/dev/null || true # the check at the end reports problems
api PUT "repos/$me/hello/collaborators/disinto" '{"permission":"write"}'

step "agents"
for agent in "dev-$kind" "review-$kind"; do
  FORGE_ADMIN_USER=$me FORGE_ADMIN_PASSWORD=$password \
    compose exec -T -e FORGE_ADMIN_USER -e FORGE_ADMIN_PASSWORD disinto \
    disinto hire-an-agent "$agent" --model "$model" --thread "$thread"
done
wrong=
compose exec -T disinto disinto check || wrong=1

cat <<SAY

It runs. Sign in at $root as $me$made.
Now file an issue with the label backlog: $root$me/hello/issues/new
and watch the agents work on it:

  $engine compose -f docker/compose.yaml exec disinto disinto status --watch
SAY
[ -z "$wrong" ] || cat <<SAY

The check found what is listed above, which agents need to work: correct it in docker/.env or docker/etc/factory.toml,
then run this again. If the model did not answer, its key, the name $model and the way to it are what to look at:

  $engine compose -f docker/compose.yaml exec disinto disinto check
SAY
if [ -n "${SSH_CONNECTION:-}" ]; then
  read -r _ _ host _ <<<"$SSH_CONNECTION"
  cat <<SAY

Forgejo listens on this machine only. To reach it from yours, keep this running there, with the same port on both
sides, because Forgejo's links name it:

  ssh -N -L $port:localhost:$port ${SUDO_USER:-$(id -un)}@$host
SAY
fi
[ -z "$wrong" ]
