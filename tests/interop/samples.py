"""The texts, questions and answers of the scenarios, and the refusals that they meet."""

import json
from dataclasses import dataclass
from typing import Any

from check import equal, fields

SPACED = ' {"b" : [ 1.0, null,true ],\n "a":"x" }\t'

NUMBERS = ["9007199254740993", "9223372036854775807", "12345678901234567890123", "1.10", "1e2"]

WORDS = "naïve 🦀👩🏽‍💻 日本語 עברית \u2028 e\u0301"
# Raw characters of every width, then the escapes of JSON, among them an escaped pair of surrogates and NUL.
TEXT = f'"{WORDS} \u007f \ufeff \\" \\\\ \\/ \\b \\f \\n \\r \\t \\u00e9 \\ud83e\\udd80 \\u0000 \\u2029"'

# Exactly the largest answer that the broker takes. Its length is that of its UTF-8 text.
_PIECE = "payload 🦀 "
_ROOM = (1 << 20) - 2
ONE_MIB = '"' + _PIECE * (_ROOM // len(_PIECE.encode())) + "x" * (_ROOM % len(_PIECE.encode())) + '"'
assert len(ONE_MIB.encode()) == 1 << 20


def _call(name: str, kind: str) -> dict[str, str]:
    return {"toolCallId": name, "toolName": "tool", "argsJson": '{"of": "%s"}' % name, "kind": f"KIND_{kind}"}


# One call for each way to decide one, named after it.
CALLS = [
    _call("approve", "APPROVAL"),
    _call("override", "APPROVAL"),
    _call("deny", "APPROVAL"),
    _call("value", "EXTERNAL"),
    _call("looks_tagged", "EXTERNAL"),
    _call("tool_return", "EXTERNAL"),
    _call("failed", "EXTERNAL"),
    _call("retry", "EXTERNAL"),
    _call("answer", "QUESTION"),
]
APPROVALS = [call["toolCallId"] for call in CALLS if call["kind"] == "KIND_APPROVAL"]

# The same calls as Pydantic AI writes them.
CALLS_JSON = json.dumps(
    {
        part: [
            {"tool_call_id": call["toolCallId"], "tool_name": call["toolName"], "args": json.loads(call["argsJson"])}
            for call in CALLS
            if (call["kind"] == "KIND_APPROVAL") == (part == "approvals")
        ]
        for part in ("calls", "approvals")
    }
    | {"metadata": {}, "_kinds": {"answer": "question"}}
)

RESULTS: dict[str, Any] = {
    "approvals": {
        "approve": {"approved": {}},
        "override": {"approved": {"overrideArgsJson": '{"amount": 1.10}'}},
        "deny": {"denied": {"message": "over the limit 🙅"}},
    },
    "calls": {
        "value": {"returnValueJson": '{"status": "shipped", "n": 1e2}'},
        # An object that looks like a failure and is data.
        "looks_tagged": {"returnValueJson": '{"kind": "tool-failed"}'},
        "tool_return": {"toolReturn": {"returnValueJson": "1.0", "contentJson": '"seen"', "metadataJson": "[ 1]", "tools": ["more"]}},
        "failed": {"failed": {"message": "broken"}},
        "retry": {"retry": {"message": "again"}},
        "answer": {"returnValueJson": '"42"'},
    },
    "metadataJson": {"approve": '{"m": 1.0}'},
}
EVERYTHING_BY_ALICE = {call["toolCallId"]: "alice" for call in CALLS}

# The same results in the JSON form.
RESULTS_JSON = """{
    "approvals": {
        "approve": {"kind": "tool-approved"},
        "override": {"kind": "tool-approved", "override_args": {"amount": 1.10}},
        "deny": {"kind": "tool-denied", "message": "over the limit 🙅"}
    },
    "calls": {
        "value": {"status": "shipped", "n": 1e2},
        "looks_tagged": {"kind": "tool-return", "return_value": {"kind": "tool-failed"}},
        "tool_return": {"kind": "tool-return", "return_value": 1.0, "content": "seen", "metadata": [ 1], "tools": ["more"]},
        "failed": {"kind": "tool-failed", "message": "broken"},
        "retry": {"kind": "model-retry", "message": "again"},
        "answer": "42"
    },
    "metadata": {"approve": {"m": 1.0}},
    "answered_by": {%s}
}""" % ", ".join(f'"{name}": "alice"' for name in EVERYTHING_BY_ALICE)
# What of it is the sender's own text.
BYTE_FOR_BYTE = ['{"amount": 1.10}', '{"status": "shipped", "n": 1e2}', "[ 1]", '{"m": 1.0}']

FORM = {
    "message": "How many, and which?",
    "responseSchemaJson": '{"type":"object","properties":{"n":{"type":"integer","minimum":1},"s":{"enum":["a","b"]}},"required":["n","s"]}',
}

LONG_IDS = [f"call_{n:02}_".ljust(256, "x") for n in range(64)]


@dataclass
class Refusal:
    """A request that is refused, and how."""

    op: str
    arguments: dict[str, Any]
    code: str
    reason: str
    # Field and description of each violation.
    violations: list[tuple[str, str]]
    # Beside `wait_id`, which goes with the refusals that concern a wait's content.
    metadata: dict[str, str] | None = None

    def check(self, error: dict[str, Any], wait_id: str) -> None:
        fields(f"the refusal of {self.reason}", error, code=self.code, reason=self.reason)
        told = [(v.get("field", ""), v["description"]) for v in error.get("violations") or []]
        equal(f"violations of {self.reason}", told, self.violations)
        expected = {} if self.metadata is None else {"wait_id": wait_id} | self.metadata
        equal(f"metadata of {self.reason}", error.get("metadata") or {}, expected)


_MISSING = "is missing: an answer decides every tool call that waits, unless it says that it is partial"

# In this order, to a wait for the first two of CALLS.
REFUSED_ANSWERS = [
    Refusal(
        "resolve",
        {"results": {"approvals": {"approve": {"approved": {"overrideArgsJson": "[1]"}}, "nobody": {"approved": {}}}}},
        "INVALID_ARGUMENT",
        "INVALID_ANSWER",
        [
            ('approvals["approve"].override_args', "must be an object"),
            ('approvals["nobody"]', "is not a tool call of this wait; DescribeWait lists them"),
            ('approvals["override"]', _MISSING),
        ],
        {},
    ),
    Refusal(
        "resolve",
        {"payload_json": '{"approvals": {"approve": {"kind": "tool-approved", "overrideArgs": {}}, "override": true}, "call": {}}'},
        "INVALID_ARGUMENT",
        "INVALID_ANSWER",
        [
            ('approvals["approve"].overrideArgs', "is not known here; `override_args` was probably meant"),
            ("call", "is not known here; `calls` was probably meant"),
        ],
        {},
    ),
    Refusal(
        "resolve",
        {"payload_json": '{"approvals":'},
        "INVALID_ARGUMENT",
        "INVALID_JSON",
        [("payload_json", "is not valid JSON: EOF while parsing a value at line 1 column 13")],
    ),
    Refusal(
        "resolve",
        {"payload_json": "1", "request_id": "y" * 200, "answered_by": "é" * 300},
        "INVALID_ARGUMENT",
        "INVALID_FIELD",
        [
            ("request_id", "is 200 characters long; at most 128 are taken"),
            ("answered_by", "is 300 characters long; at most 256 are taken"),
        ],
    ),
    Refusal(
        "fail",
        {"reason": "🦀" * 5000, "details_json": "{"},
        "INVALID_ARGUMENT",
        "INVALID_FIELD",
        [
            ("reason", "is 5000 characters long; at most 4096 are taken"),
            ("details_json", "is not valid JSON: EOF while parsing an object at line 1 column 1"),
        ],
    ),
]

REFUSED_FORM = Refusal(
    "resolve", {}, "INVALID_ARGUMENT", "INVALID_ANSWER", [("n", "must be at least 1"), ("s", 'must be one of "a", "b"')], {}
)

REFUSED_OPEN = Refusal(
    "open",
    {"name": "", "key": "k" * 600, "timeout_ms": 400 * 86_400_000, "labels": {"fine": "v" * 300}},
    "INVALID_ARGUMENT",
    "INVALID_FIELD",
    [
        ("spec.name", "is required; give a name of 1 to 256 characters"),
        ("spec.key", "is 600 characters long; at most 512 are taken"),
        ("spec.timeout", "is 34560000 s; at most 31622400 s (366 days) are taken"),
        ('spec.labels["fine"]', "value is 300 characters long; at most 256 are taken"),
    ],
)

# What an answer to a call that was decided otherwise meets.
REFUSED_CHANGE = Refusal(
    "resolve",
    {"results": {"approvals": {"approve": {"denied": {}}}}, "partial": True},
    "FAILED_PRECONDITION",
    "ALREADY_DECIDED",
    [],
    {"tool_call_id": "approve"},
)
