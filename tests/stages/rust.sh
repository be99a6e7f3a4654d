# The broker, its command line and the Rust client. Sourced by tests/run.

# Counts of the long tests. The tests' own defaults are those of the inner loop.
case "$mode" in
  all)
    export ABEYANCE_TEST_RACE_ROUNDS="${ABEYANCE_TEST_RACE_ROUNDS:-10000}"
    export ABEYANCE_TEST_KILL_CYCLES="${ABEYANCE_TEST_KILL_CYCLES:-30}"
    export ABEYANCE_TEST_MUTATIONS="${ABEYANCE_TEST_MUTATIONS:-10000}"
    export ABEYANCE_TEST_SCALE="${ABEYANCE_TEST_SCALE:-ci}"
    ;;
  full)
    export ABEYANCE_TEST_RACE_ROUNDS="${ABEYANCE_TEST_RACE_ROUNDS:-10000}"
    export ABEYANCE_TEST_KILL_CYCLES="${ABEYANCE_TEST_KILL_CYCLES:-300}"
    export ABEYANCE_TEST_POWER_CYCLES="${ABEYANCE_TEST_POWER_CYCLES:-100}"
    export ABEYANCE_TEST_MUTATIONS="${ABEYANCE_TEST_MUTATIONS:-200000}"
    export ABEYANCE_TEST_SCALE="${ABEYANCE_TEST_SCALE:-full}"
    ;;
esac

step "format"
cargo fmt --check

step "lints, warnings denied"
cargo clippy --locked --all-targets -- -D warnings

step "the client alone: no SQLite, no command line, no server"
cargo clippy --locked --lib --no-default-features --features client -- -D warnings
if cargo tree --locked --no-default-features --features client -e normal --prefix none \
  | grep -E '^(rusqlite|libsqlite3-sys|clap|refinery|hyper-util/server) '; then
  echo "tests/run: the client's build must not need these" >&2
  exit 1
fi

step "documentation, warnings denied"
RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --quiet

step "crates that must not come in"
for banned in ring openssl-sys reqwest rsa; do
  if cargo tree --locked -e normal,build -i "$banned" >/dev/null 2>&1; then
    echo "tests/run: the crate '$banned' came in; cargo tree -i $banned shows how" >&2
    exit 1
  fi
done

if [ "$mode" != quick ]; then
  step "contract: buf lint"
  need python3 "install Python 3 with venv, for buf"
  if [ ! -x "$tools/buf/bin/buf" ]; then
    python3 -m venv "$tools/buf"
    "$tools/buf/bin/pip" install --quiet --disable-pip-version-check buf-bin==1.75.0
  fi
  "$tools/buf/bin/buf" lint proto
  "$tools/buf/bin/buf" format --diff --exit-code proto >/dev/null || {
    echo "tests/run: proto/ is not formatted; run: buf format -w proto" >&2
    exit 1
  }
fi

step "tests"
cargo test --locked -- --nocapture --test-threads "${ABEYANCE_TEST_THREADS:-2}" 2>&1 | grep -v '^test .* \.\.\. ok$'

if [ "$mode" != quick ]; then
  step "examples"
  for example in refund two_approvers form handoff embedded; do
    echo "-- cargo run --example $example"
    cargo run --locked --quiet --example "$example" </dev/null
  done
  echo "-- examples/shell-signoff/test.sh"
  examples/shell-signoff/test.sh
fi
