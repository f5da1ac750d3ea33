#!/usr/bin/env bash
# Publishes the files of docker/release.sh: docker/publish.sh DIR makes the release of $TAG in $REPO on the forge
# $SERVER, as a draft until every file is uploaded. $TOKEN may write to the repository; curl reads it from stdin.
set -euo pipefail

dir=${1:?usage: docker/publish.sh DIR}
api=$SERVER/api/v1/repos/$REPO/releases

# ask METHOD PATH [CURL'S ARGUMENTS...]
ask() {
  printf 'header = "Authorization: token %s"\n' "$TOKEN" |
    curl -fsS --config - -X "$1" "$api$2" "${@:3}"
}

id=$(jq -n --arg tag "$TAG" --rawfile notes "$dir/NOTES.md" \
  '{tag_name: $tag, name: ("disinto " + ($tag | ltrimstr("v"))), body: $notes, draft: true}' >"$dir/.release.json" &&
  ask POST "" -H 'Content-Type: application/json' --data-binary "@$dir/.release.json" | jq -re .id)
rm "$dir/.release.json"
for file in "$dir"/*; do
  [ "${file##*/}" != NOTES.md ] || continue
  ask POST "/$id/assets?name=$(jq -rn --arg n "${file##*/}" '$n | @uri')" -F "attachment=@$file" >/dev/null
done
ask PATCH "/$id" -H 'Content-Type: application/json' -d '{"draft": false}' >/dev/null
echo "published $TAG on $SERVER/$REPO"
