# Go: the generated stubs, the file that attaches again, the examples and the driver. Sourced by tests/run.

need go "install Go 1.25 or newer, https://go.dev/dl"
need python3 "install Python 3 with venv, for buf and the fault proxy"

# Like cargo's registry, the caches of Go's modules and builds stay where Go keeps them.
staticcheck="$tools/go/bin/staticcheck"
if [ ! -x "$staticcheck" ] || [ "$(go version -m "$staticcheck" | awk '$1 == "mod" { print $3 }')" != v0.7.0 ]; then
  GOBIN="$tools/go/bin" go install honnef.co/go/tools/cmd/staticcheck@v0.7.0
fi
if [ ! -x "$tools/buf/bin/buf" ]; then
  python3 -m venv "$tools/buf"
  "$tools/buf/bin/pip" install --quiet --disable-pip-version-check buf-bin==1.75.0
fi

step "Go: the stubs are those of the contract"
fresh="$tools/go/fresh"
rm -rf "$fresh"
mkdir -p "$fresh"
(cd examples/go && "$tools/buf/bin/buf" generate --output "$fresh" ../../proto)
diff -r "$fresh/abeyancev1" examples/go/abeyancev1 || {
  echo "tests/run: examples/go/abeyancev1 is not what the contract gives; in examples/go, run: buf generate ../../proto" >&2
  exit 1
}

for module in examples/go tests/interop/go; do
  step "Go: format, lints and tidiness of $module"
  unformatted=$(gofmt -l "$module")
  if [ -n "$unformatted" ]; then
    echo "tests/run: not formatted; run: gofmt -w" $unformatted >&2
    exit 1
  fi
  (cd "$module" && go mod tidy -diff && go vet ./... && "$staticcheck" ./...)
done

step "Go: tests"
(cd examples/go && go test -race -count=1 -timeout 3m ./...)

step "Go: the driver"
(cd tests/interop/go && go build -o "$interop/go" .)
