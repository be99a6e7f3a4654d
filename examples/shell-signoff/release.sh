#!/usr/bin/env bash
# A step of a pipeline: go on only when somebody signs the release off.
#
#   release.sh VERSION
#
# Exits 0 when it was signed off, 1 when it was refused, 3 when whoever was asked could not say, 4 when nobody answered in time; with
# any other status it is not known, and running it again asks about the same release without asking anybody twice: the version is the key.
set -euo pipefail
version="${1:?usage: release.sh VERSION}"
here="$(cd "$(dirname "$0")" && pwd)"

status=0
answer="$(abeyance wait --name release-signoff --key "release-$version" --label "version=$version" \
  --form '{"type": "boolean"}' --message "Release $version?" \
  --timeout "${SIGNOFF_TIMEOUT:-4h}" --ask "'$here/notify.sh' '$version'")" || status=$?

case "$status" in
  0) ;;
  3) echo "release $version: nobody could say" >&2; exit 3 ;;
  4) echo "release $version: nobody answered in time" >&2; exit 4 ;;
  *) echo "release $version: the answer is not known (exit $status); run this step again" >&2; exit "$status" ;;
esac
if [ "$answer" != true ]; then
  echo "release $version: refused" >&2
  exit 1
fi
echo "release $version: signed off"
