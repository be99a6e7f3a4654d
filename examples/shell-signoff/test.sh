#!/usr/bin/env bash
# Runs the step against a broker of its own: signed off, refused, too late, asked anew, killed and run again.
set -euo pipefail
broker="$(realpath -m "${ABEYANCE_BIN:-"$(dirname "$0")/../../target/debug/abeyance"}")"
cd "$(dirname "$0")"
[ -x "$broker" ] || { echo "test.sh: there is no $broker; run cargo build, or let ABEYANCE_BIN name the command" >&2; exit 69; }
work="$(mktemp -d)"
mkdir "$work/bin"
ln -s "$broker" "$work/bin/abeyance"
export PATH="$work/bin:$PATH" SIGNOFF_OUTBOX="$work/outbox"
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$work"' EXIT

fail() { echo "test.sh: $*" >&2; cat "$work"/*.log >&2; exit 1; }
# Waits until a command succeeds.
until_ok() {
  for _ in $(seq 600); do if "$@" 2>/dev/null; then return; fi; sleep 0.05; done
  fail "this never came true: $*"
}

abeyance serve --listen 127.0.0.1:0 --data-dir "$work/data" > "$work/serve.out" 2> "$work/serve.log" &
until_ok grep -q 127.0.0.1 "$work/serve.out"
export ABEYANCE_SERVER="http://$(grep -oE '127\.0\.0\.1:[0-9]+' "$work/serve.out" | head -1)"

echo "-- signed off; an answer that is neither yes nor no is refused first"
./release.sh 1.0 > "$work/1.0.out" 2> "$work/1.0.log" &
step=$!
until_ok test -f "$work/outbox/1.0"
if abeyance resolve --token-file "$work/outbox/1.0" '"yes"' 2> "$work/refusal.log"; then fail "a text was taken"; fi
grep -q INVALID_ANSWER "$work/refusal.log" || fail "no reason was named"
abeyance resolve --token-file "$work/outbox/1.0" true > /dev/null
wait "$step" || fail "release 1.0 ended with $?"
grep -q "signed off" "$work/1.0.out" || fail "release 1.0 was not signed off"

echo "-- refused"
./release.sh 1.1 > "$work/1.1.out" 2> "$work/1.1.log" &
step=$!
until_ok test -f "$work/outbox/1.1"
abeyance resolve --token-file "$work/outbox/1.1" false > /dev/null
status=0; wait "$step" || status=$?
[ "$status" = 1 ] || fail "release 1.1 ended with $status"

echo "-- nobody answers"
status=0; SIGNOFF_TIMEOUT=100ms ./release.sh 1.2 > "$work/1.2.out" 2> "$work/1.2.log" || status=$?
[ "$status" = 4 ] || fail "release 1.2 ended with $status"

echo "-- the outcome stays, and another attempt asks anew"
status=0; ./release.sh 1.2 > "$work/1.2.out" 2> "$work/1.2.log" || status=$?
[ "$status" = 4 ] || fail "release 1.2 ended with $status when it was run again"
rm "$work/outbox/1.2"
./release.sh 1.2 2 > "$work/1.2.out" 2> "$work/1.2.log" &
step=$!
until_ok test -f "$work/outbox/1.2"
abeyance resolve --token-file "$work/outbox/1.2" true > /dev/null
wait "$step" || fail "release 1.2 ended with $? at its second attempt"

echo "-- killed while it waits, run again: asked once"
setsid ./release.sh 1.3 > "$work/1.3.out" 2> "$work/1.3.log" &
step=$!
until_ok test -f "$work/outbox/1.3"
# Asked is recorded right behind the ask; only then is it certain that nobody is asked again.
until_ok sh -c "abeyance show --token-file '$work/outbox/1.3' | grep -q '^asked .*20'"
kill -9 -- "-$step"
wait "$step" 2>/dev/null || true
mv "$work/outbox/1.3" "$work/token"
./release.sh 1.3 > "$work/1.3.out" 2>> "$work/1.3.log" &
step=$!
abeyance resolve --token-file "$work/token" true > /dev/null
wait "$step" || fail "release 1.3 ended with $?"
[ ! -e "$work/outbox/1.3" ] || fail "somebody was asked twice"
echo "ok"
