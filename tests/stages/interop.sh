# Every language with every other, and each client's field cases. The other drivers come from the stages of their languages.
need python3 "install Python 3.11"

step "interop: the Rust driver"
cargo build --locked --quiet --example interop_driver
# Moved there, so that one that is still running keeps its file.
cp target/debug/examples/interop_driver "$interop/.rust"
mv "$interop/.rust" "$interop/rust"

step "interop: lint and types of the runner"
for tool in ruff mypy; do
  need "$tools/python/bin/$tool" "run tests/run python, which installs it"
done
"$tools/python/bin/ruff" check --config tests/interop/lint.toml tests/interop
"$tools/python/bin/ruff" format --check --config tests/interop/lint.toml tests/interop
for program in run.py selftest/selftest.py selftest/lying_driver.py; do
  (cd tests/interop && MYPYPATH=.:selftest "$tools/python/bin/mypy" --strict --cache-dir "$tools/mypy-interop" "$program")
done

step "interop: every worker's language with every resolver's"
options=()
if [ "$mode" = full ]; then options+=(--full); fi
python3 tests/interop/run.py --broker "$ABEYANCE_BIN" --drivers "$interop" "${options[@]}"

step "interop: the runner can fail"
python3 tests/interop/selftest/selftest.py --broker "$ABEYANCE_BIN" --driver "$interop/rust"
