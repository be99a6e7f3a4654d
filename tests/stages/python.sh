# The Python package: environment, generated code, lint, types, tests, its README's start in a clean environment, and the driver.
# shellcheck shell=bash disable=SC2154
package=clients/python
need python3 "install Python 3.11 or newer with venv"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "tests/run: $(python3 --version) is too old for Pydantic AI, ADK and Prefect: install Python 3.11 or newer" >&2
  exit 69
}

# An environment with what a requirements file says.
environment() {
  local home=$1 requirements=$2
  [ -x "$home/bin/python" ] || python3 -m venv "$home"
  if ! cmp --quiet "$requirements" "$home/requirements.txt"; then
    "$home/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements"
    cp "$requirements" "$home/requirements.txt"
  fi
}

step "python: environment"
environment "$tools/python" "$package/requirements-test.txt"
"$tools/python/bin/python" -m pip install --quiet --disable-pip-version-check --no-build-isolation \
  --editable "$package[pydantic-ai,adk,dbos,prefect,temporal]"
environment "$tools/python-generate" "$package/requirements-generate.txt"

step "python: generated code is fresh"
"$tools/python-generate/bin/python" "$package/generate.py" --check

step "python: format, lint, types"
(
  cd "$package"
  drivers=(../../tests/interop/driver.py ../../tests/interop/strict_proxy.py)
  example=../../examples/pydantic-ai-approvals
  "$tools/python/bin/ruff" --config pyproject.toml format --quiet --check . "${drivers[@]}" "$example"
  "$tools/python/bin/ruff" --config pyproject.toml check --quiet . "${drivers[@]}"
  # In an example this package is somebody else's, so its imports stand in another order.
  "$tools/python/bin/ruff" --config pyproject.toml check --quiet --ignore I001 "$example"
  "$tools/python/bin/mypy" --cache-dir "$tools/python/mypy"
)

step "python: tests"
# Those of the engines have a stage of their own, with the servers that they need.
(cd "$package" && "$tools/python/bin/python" -m pytest --quiet -p no:cacheprovider --ignore-glob='*/test_engine_*.py')

step "python: the approval page of the examples"
(cd examples/pydantic-ai-approvals && "$tools/python/bin/python" -m pytest --quiet -p no:cacheprovider)

step "python: the start of its README, as it stands, in a clean environment"
"$tools/python/bin/python" "$package/tests/readme_start.py" "$tools/python-clean"

step "python: the client alone, with the oldest versions that it takes"
"$tools/python-clean/bin/python" -m pip install --quiet --disable-pip-version-check -r "$package/requirements-oldest.txt"
(cd "$package" && "$tools/python-clean/bin/python" -m pytest --quiet -p no:cacheprovider tests/test_client_*.py tests/test_sync.py)

cat >"$interop/python" <<END
#!/bin/sh
exec "$tools/python/bin/python" "$PWD/tests/interop/driver.py"
END
chmod +x "$interop/python"
