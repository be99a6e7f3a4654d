# The durable engines: DBOS, Prefect and Temporal, each with the recipe of clients/python/docs/engines.md. Sourced by tests/run.

need go "install Go 1.25 or newer, https://go.dev/dl: the Temporal server is built with it"

python="$tools/python/bin/python"
if [ ! -x "$python" ]; then
  echo "tests/run: the packages of the stage 'python' are missing; run: tests/run python engines" >&2
  exit 69
fi

# Built once, in some minutes. Like cargo's registry, the caches of Go's modules and builds stay where Go keeps them.
server="$tools/engines/bin/server"
if [ ! -x "$server" ] || [ "$(go version -m "$server" | awk '$1 == "mod" { print $3 }')" != v1.31.2 ]; then
  step "Engines: the Temporal server"
  GOBIN="$tools/engines/bin" go install go.temporal.io/server/cmd/server@v1.31.2
fi
export TEMPORAL_SERVER_BIN="$server"

step "Engines: DBOS, Prefect and Temporal, side by side"
# Most of their time they wait for processes to start, and Temporal to notice a dead one.
logs="$tools/engines/logs"
mkdir -p "$logs"
runs=()
for engine in dbos prefect "temporal*"; do
  log="$logs/${engine%\*}.log"
  # shellcheck disable=SC2086  # The name is a pattern.
  (cd clients/python && exec "$python" -m pytest -q -p no:cacheprovider tests/test_engine_${engine}.py) >"$log" 2>&1 &
  runs+=("$! $log")
done
failed=0
for run in "${runs[@]}"; do
  wait "${run%% *}" || failed=1
  cat "${run#* }"
done
[ "$failed" = 0 ]
