# TypeScript: the client for Node, its examples and the driver. Sourced by tests/run.

need node "install Node.js 20.9 or newer, https://nodejs.org"
need npm "install npm, which comes with Node.js"
need python3 "install Python 3.11 or newer, for tests/interop/fault_proxy.py"

package="$PWD/clients/typescript"

# Node looks for packages beside the code, so they are installed there; only the cache of npm and what is made for a comparison are elsewhere.
export npm_config_cache="$tools/typescript/npm"
mkdir -p "$tools/typescript"

# Installs what the lock file of a folder names, unless that was done.
npm_ci() {
  if ! cmp -s "$1/package-lock.json" "$1/node_modules/.installed"; then
    (cd "$1" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
    cp "$1/package-lock.json" "$1/node_modules/.installed"
  fi
}

step "TypeScript: what it needs"
npm_ci "$package"

step "TypeScript: the generated code is that of the contract"
fresh="$tools/typescript/fresh"
rm -rf "$fresh"
(cd "$package" && npx --no-install buf generate --output "$fresh")
diff -r "$fresh/src/gen" "$package/src/gen" || {
  echo "tests/run: clients/typescript/src/gen is not what the contract gives; in clients/typescript, run: npm run generate" >&2
  exit 1
}

step "TypeScript: format, lints, types"
(cd "$package" && npm run --silent lint)

step "TypeScript: tests"
(cd "$package" && npm test --silent)

step "TypeScript: the driver"
mkdir -p "$interop"
printf '#!/bin/sh\nexec node "%s/build/interop/driver.js"\n' "$package" >"$interop/typescript"
chmod +x "$interop/typescript"

step "TypeScript: the examples"
(cd "$package" && npm run --silent build)
for example in webhook-node short-lived-function; do
  # A link to the package, and nothing else.
  if [ ! -e "examples/$example/node_modules/abeyance" ]; then
    (cd "examples/$example" && npm install --no-audit --no-fund --no-package-lock --loglevel=error)
  fi
  (cd "examples/$example" && npm test --silent)
done
