"""The lies: each changes what an honest driver answered, as a broken client would have it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Answer = dict[str, Any]


@dataclass
class Lie:
    """How answers to an operation are changed, and what the runner must then say."""

    # The operation, and the scenarios that must fail.
    op: str
    scenarios: list[str]
    # A part of the explanation: the scenario must fail for this reason and no other.
    said: str
    # Changes the line that answers a request: `ok` or `error` in it.
    change: Callable[[Answer], None]


LIES: dict[str, Lie] = {}


def lie(op: str, scenarios: str, said: str) -> Callable[[Callable[[Answer], None]], None]:
    def add(change: Callable[[Answer], None]) -> None:
        LIES[change.__name__] = Lie(op, scenarios.split(), said, change)

    return add


def _texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _texts(inner, change) for key, inner in value.items()}
    return value


def _every_text(line: Answer, change: Callable[[str], str]) -> None:
    if "ok" in line:
        line["ok"] = _texts(line["ok"], change)


def _set(line: Answer, **values: object) -> None:
    line.get("ok", {}).update(values)


@lie("outcome", "resolve", "outcome.payload_json")
def reformats(line: Answer) -> None:
    """Reads the JSON and writes it again."""
    if payload := line.get("ok", {}).get("payload_json"):
        line["ok"]["payload_json"] = json.dumps(json.loads(payload), ensure_ascii=False)


@lie("outcome", "numbers", "outcome.payload_json")
def rounds(line: Answer) -> None:
    """Takes whole numbers for doubles."""
    _every_text(line, lambda text: text.replace("9007199254740993", "9007199254740992"))


@lie("outcome", "numbers", "outcome.payload_json")
def drops_zeros(line: Answer) -> None:
    _every_text(line, lambda text: text.replace("1.10", "1.1"))


@lie("outcome", "text payload_1mib fail", "outcome.")
def loses_emoji(line: Answer) -> None:
    _every_text(line, lambda text: text.encode("ascii", "replace").decode())


@lie("outcome", "text", "outcome.payload_json")
def unescapes(line: Answer) -> None:
    _every_text(line, lambda text: text.replace("\\u00e9", "é"))


@lie("outcome", "payload_1mib", "outcome.payload_json")
def cuts_long_texts(line: Answer) -> None:
    _every_text(line, lambda text: text[:65536])


@lie("outcome", "resolve", "outcome.answered_by")
def forgets_who(line: Answer) -> None:
    _set(line, answered_by="")


@lie("outcome", "fail denial_on_fail expiry_by_timeout expiry_by_deadline cancel", "outcome.state: expected")
def takes_every_end_for_an_answer(line: Answer) -> None:
    _set(line, state="RESOLVED")


@lie("outcome", "chaos", "outcome.payload_json")
def gives_the_answer_of_another(line: Answer) -> None:
    _set(line, payload_json='{"for": "somebody else"}')


@lie("outcome", "restart drain", "outcome.reattached")
def never_attached_again(line: Answer) -> None:
    _set(line, reattached=0)


@lie("outcome", "typed_results json_results denial_on_fail", "outcome.results")
def approves_what_was_denied(line: Answer) -> None:
    approvals = line.get("ok", {}).get("results", {}).get("approvals", {})
    approvals.update({call: {"approved": {}} for call in approvals})


@lie("outcome", "typed_results json_results", "outcome.results")
def drops_overrides(line: Answer) -> None:
    for approval in line["ok"]["results"]["approvals"].values():
        approval.get("approved", {}).pop("overrideArgsJson", None)


@lie("outcome", "typed_results json_results", "outcome.results_json")
def rewrites_results(line: Answer) -> None:
    results = json.loads(line["ok"]["results_json"])
    line["ok"]["results_json"] = json.dumps(results, separators=(",", ":"))


@lie("outcome", "partial_answers", "outcome.results")
def keeps_one_decision(line: Answer) -> None:
    line["ok"]["results"]["approvals"].pop("override", None)


@lie("outcome", "expiry_by_timeout", "outcome.reason")
def makes_up_its_own_reason(line: Answer) -> None:
    _set(line, reason="timed out")


@lie("by_deadline", "expiry_by_deadline", "opened.timeout_source")
def sends_no_deadline(line: Answer) -> None:
    _set(line, timeout_source="TIMEOUT")


@lie("outcome", "expiry_by_deadline", "outcome was refused")
def meets_the_bare_deadline(line: Answer) -> None:
    line.pop("ok")
    line["error"] = {"code": "DEADLINE_EXCEEDED", "message": "cut"}


@lie("open", "sixty_days", "opened.timeout_ms")
def counts_in_32_bits(line: Answer) -> None:
    _set(line, timeout_ms=line["ok"]["timeout_ms"] & 0xFFFFFFFF)


@lie("describe", "sixty_days", "describe.timeout_ms")
def shows_another_timeout(line: Answer) -> None:
    _set(line, timeout_ms=365 * 86_400_000)


@lie("open", "reopen chaos", "opened again")
def opens_another_wait(line: Answer) -> None:
    _set(line, asked=False, resumed=False)


@lie("resolve", "repeat partial_answers", "replayed")
def knows_no_repeat(line: Answer) -> None:
    _set(line, replayed=False)


@lie("resolve", "cancel repeat expiry_by_timeout", "must be refused")
def takes_a_refusal_for_success(line: Answer) -> None:
    if line.pop("error", None):
        line["ok"] = {"state": "RESOLVED", "replayed": True}


@lie("resolve", "cancel", "the refusal's metadata.state")
def loses_metadata(line: Answer) -> None:
    line.get("error", {}).pop("metadata", None)


@lie("resolve", "error_details largest_refusal", "violation")
def names_the_first_fault_alone(line: Answer) -> None:
    if error := line.get("error"):
        error["violations"] = error["violations"][:1]


@lie("resolve", "largest_refusal", "the refusal.code")
def cannot_read_a_long_header(line: Answer) -> None:
    if "error" in line:
        line["error"] = {"code": "INTERNAL", "message": "header list too long"}


@lie("open", "error_details", "the refusal of INVALID_FIELD.reason")
def loses_the_reason(line: Answer) -> None:
    line.get("error", {}).pop("reason", None)


@lie("describe", "resolve", "ended with")
def dies(line: Answer) -> None:
    raise SystemExit(3)


@lie("outcome", "default_keepalive eager_keepalive scolded long_timers", "it must stay open, and ended within")
def answers_at_once(line: Answer) -> None:
    """See `lying_driver.py`: it does not wait for the honest answer."""
    line["ok"] = {"state": "RESOLVED", "payload_json": '"answer"', "reattached": 0}


@lie("hold", "eager_is_scolded", "hold was refused")
def cannot_hold(line: Answer) -> None:
    line.pop("ok", None)
    line["error"] = {"code": "CLIENT", "message": "no"}


@lie("outcome", "eager_is_scolded", "the stream must be cut")
def is_never_scolded(line: Answer) -> None:
    """As a driver that sends no pings: see `lying_driver.py`."""
    line["ok"] = {"state": "RESOLVED", "payload_json": '"answer"', "reattached": 0}


@lie("warnings", "scolded", "one warning for each client")
def warns_of_nothing(line: Answer) -> None:
    _set(line, warnings=[])


@lie("outcome", "frozen", "outcome.reattached")
def never_noticed_the_cut(line: Answer) -> None:
    _set(line, reattached=0)


@lie("crowd", "crowd", "resolve must take less than")
def is_slow_in_a_crowd(line: Answer) -> None:
    _set(line, resolve_ms=5000.0)
