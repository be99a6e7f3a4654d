#!/usr/bin/env python3
"""Writes the first inputs of both targets, out of the tests' own data, to tests/fuzz/corpus."""
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent
TESTS = ROOT.parent


def text(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def write(target, name, flag, first, second):
    data = f"{int(flag)}{first}\0{second}".encode("utf-8", "surrogatepass")
    directory = ROOT / "corpus" / target
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"seed-{name}").write_bytes(data)


vectors = json.loads((TESTS / "data/deferred_tool_results.json").read_text())
for case in vectors["cases"]:
    # As text where a value would not survive.
    answers = [case["answer_text"] if "answer_text" in case else text(case["answer"])]
    answers += [text(case["normalized"])] if "normalized" in case else []
    for at, answer in enumerate(answers):
        write("answers", f"{case['id']}-{at}", case["allow_partial"], text(case["requests"]), answer)

pairs = json.loads((TESTS / "it/mutations/schemas.json").read_text())
for at, pair in enumerate(pairs):
    write("schemas", at, False, text(pair["schema"]), text(pair["answer"]))
