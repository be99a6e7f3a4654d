#!/usr/bin/env bash
# A step of a pipeline: go on only when somebody signs the release off.
#
#   release.sh VERSION [ATTEMPT]
#
# Exits 0 when it was signed off, 1 when it was refused, 3 when whoever was asked could not say, 4 when nobody answered in time, 5 when
# the question was withdrawn. These stay as they are: running it again tells the same, and another ATTEMPT (a number, default 1) asks anew. With
# any other status it is not known, and running it again asks about the same release without asking anybody twice.
set -euo pipefail
version="${1:?usage: release.sh VERSION [ATTEMPT]}"
attempt="${2:-1}"
here="$(cd "$(dirname "$0")" && pwd)"

status=0
answer="$(abeyance wait --name release-signoff --key "release-$version/$attempt" --label "version=$version" \
  --form '{"type": "boolean"}' --message "Release $version?" \
  --timeout "${SIGNOFF_TIMEOUT:-4h}" --ask "'$here/notify.sh' '$version'")" || status=$?

again="to ask anew: $0 $version $((attempt + 1))"
case "$status" in
  0) ;;
  3) echo "release $version: nobody could say; $again" >&2; exit 3 ;;
  4) echo "release $version: nobody answered in time; $again" >&2; exit 4 ;;
  5) echo "release $version: the question was withdrawn; $again" >&2; exit 5 ;;
  64) exit 64 ;; # The command has said what is wrong with its arguments.
  *) echo "release $version: the answer is not known (exit $status); run this step again" >&2; exit "$status" ;;
esac
if [ "$answer" != true ]; then
  echo "release $version: refused; $again" >&2
  exit 1
fi
echo "release $version: signed off"
