"""What scenarios say about answers."""

from typing import Any

# Longer texts are shown shortened: a payload may be 1 MiB.
SHOWN = 300


class Wrong(Exception):
    """A driver, a client or the broker did not do what the scenario expects."""


def short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    if len(text) <= SHOWN:
        return text
    return f"{text[: SHOWN // 2]} ... {text[-SHOWN // 2 :]} ({len(text)} characters)"


def equal(what: str, actual: object, expected: object) -> None:
    if actual != expected:
        raise Wrong(f"{what}: expected {short(expected)}, got {short(actual)}")


def true(what: str, holds: bool, actual: object) -> None:
    if not holds:
        raise Wrong(f"{what}: got {short(actual)}")


def fields(what: str, answer: dict[str, Any], **expected: object) -> None:
    """These fields of an answer, with these values. A field that is expected to be empty may be left out."""
    for field, value in expected.items():
        equal(f"{what}.{field}", answer.get(field) or "" if value == "" else answer.get(field), value)


def normal(results: dict[str, Any]) -> dict[str, Any]:
    """The JSON form of `DeferredToolResults` without what a printer may write or leave out: empty maps, lists and texts. The message of a
    denial stays, since there an empty text and none are two things."""

    def tidy(value: Any, within: str) -> Any:
        if not isinstance(value, dict):
            return value
        kept = {}
        for key, inner in value.items():
            stays = key == "message" and within == "denied"
            if inner is None or (not stays and inner in ("", [])):
                continue
            kept[key] = tidy(inner, key)
        return kept

    return {part: entries for part, entries in tidy(results, "").items() if entries}
