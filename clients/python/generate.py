#!/usr/bin/env python3
"""Makes `src/abeyance/v1` from the contract in `proto/`, or proves that it is fresh.

    python -m pip install -r clients/python/requirements-generate.txt     # in an environment of its own
    python clients/python/generate.py [--check]

The version of grpcio-tools there is old on purpose: generated code runs with the protobuf that its tools came with or a newer one, up to
the next major version, so older tools let the package be installed beside more of what others need.
"""

import argparse
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).resolve().parent
PROTO = HERE.parents[1] / "proto"
MADE = HERE / "src"
PACKAGE = Path("abeyance/v1")

INIT = '''"""The messages and stubs of the contract `abeyance.v1`, generated. Made by `generate.py`; do not edit."""

{imports}
'''


def generate(out: Path) -> None:
    """Writes the generated package below `out`."""
    out.mkdir(parents=True, exist_ok=True)
    protos = sorted(p.relative_to(PROTO) for p in (PROTO / PACKAGE).glob("*.proto"))
    well_known = files("grpc_tools") / "_proto"
    ways = [f"--{way}_out={out}" for way in ("python", "pyi", "grpc_python")]
    if protoc.main(["protoc", f"-I{PROTO}", f"-I{well_known}", *ways, *map(str, protos)]) != 0:
        sys.exit("generate.py: protoc failed")
    for proto in protos:
        # A stub file without a service is an empty shell.
        if not proto.stem.endswith("_service"):
            (out / PACKAGE / f"{proto.stem}_pb2_grpc.py").unlink()
    modules = [f"{p.stem}_pb2" for p in protos]
    modules += [f"{p.stem}_pb2_grpc" for p in protos if p.stem.endswith("_service")]
    imports = "\n".join(f"from abeyance.v1.{module} import *  # noqa: F403" for module in modules)
    (out / PACKAGE / "__init__.py").write_text(INIT.format(imports=imports), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail if what is there is not fresh")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        fresh = {p.name: p.read_bytes() for p in (Path(scratch) / PACKAGE).iterdir()}
    there = {p.name: p.read_bytes() for p in (MADE / PACKAGE).glob("*.py*")}
    if fresh == there:
        return
    if args.check:
        names = sorted(n for n in fresh.keys() | there.keys() if fresh.get(n) != there.get(n))
        sys.exit(f"generate.py: not fresh: {', '.join(names)}; run clients/python/generate.py")
    for name in there.keys() - fresh.keys():
        (MADE / PACKAGE / name).unlink()
    for name, text in fresh.items():
        (MADE / PACKAGE / name).write_bytes(text)


if __name__ == "__main__":
    main()
