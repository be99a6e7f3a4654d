# Java: the example, its helper against a real broker, and the driver of tests/interop. Sourced by tests/run.

need java "install a JDK, 17 or newer, for example the package openjdk-17-jdk-headless"
need mvn "install Maven, 3.8 or newer, for example the package maven"
need python3 "install Python 3.11 or newer, for tests/interop/fault_proxy.py"

java_dir="$PWD/examples/java"

step "Java: stubs from the contract, format, warnings denied, tests"
# The stubs are made from proto/ by each build, so there is nothing that could drift.
(cd "$java_dir" && mvn -B -Dorg.slf4j.simpleLogger.defaultLogLevel=warn test)

step "Java: the driver of tests/interop"
mkdir -p "$interop"
cat >"$interop/java" <<SCRIPT
#!/bin/sh
# Serial collector, first compiler alone: the driver lives for seconds, and many run side by side.
exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto \\
  -cp "$java_dir/target/test-classes:$java_dir/target/classes:$(cat "$java_dir/target/classpath")" \\
  abeyance.interop.Driver
SCRIPT
chmod +x "$interop/java"
