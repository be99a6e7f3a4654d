#!/usr/bin/env bash
# Hands the token to whoever may sign off. Here it goes to a file that only its owner can read; a real one posts it to a chat or a page.
# It may run twice for one release (after a crash in between), with the same token: so it writes one file for each wait.
set -euo pipefail
umask 077
outbox="${SIGNOFF_OUTBOX:-$HOME/.cache/signoffs}"
mkdir -p "$outbox"
printf '%s\n' "$ABEYANCE_TOKEN" > "$outbox/$ABEYANCE_WAIT_ID.new"
mv "$outbox/$ABEYANCE_WAIT_ID.new" "$outbox/$1"
echo "asked for a sign-off of release $1: abeyance resolve --token-file '$outbox/$1' true" >&2
