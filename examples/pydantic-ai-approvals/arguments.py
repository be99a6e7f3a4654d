"""A call's arguments as people read and change them. The broker does not know the tools, so it takes any JSON object in their place: what a
person typed is held against the model's own arguments here, before it is sent."""

import json
from collections.abc import Mapping
from contextlib import suppress

from abeyance import ToolCall

KINDS: Mapping[type, str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text in quotes",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def shown(call: ToolCall) -> str:
    """What the model gave, to read and to change."""
    return json.dumps(given(call), indent=2, ensure_ascii=False)


def given(call: ToolCall) -> object:
    """What the model gave, decoded. Some models write the object as a text, and not always well."""
    arguments = json.loads(call.args_json)
    if isinstance(arguments, str):
        with suppress(ValueError):
            return json.loads(arguments)
    return arguments


def override(typed: str, call: ToolCall) -> str | None:
    """What replaces the model's arguments, as it was typed; `None` if nothing was changed. Raises `ValueError`, in words for whoever typed
    it, where the tool could not use it: it must have the keys that the model used, with values of the same kinds."""
    typed = typed.replace("\r\n", "\n").strip()
    if typed == shown(call):
        return None
    if not typed:
        raise ValueError(f"The arguments are empty. To run the tool as the model asked, put back: {shown(call)}")
    new = _parsed(typed)
    if not isinstance(new, dict):
        raise ValueError("The arguments must be a JSON object: { … }")
    old = given(call)
    if isinstance(old, dict):
        faults = [f'"{key}" is missing.' for key in old if key not in new]
        faults += [f'"{key}" is none of this call\'s arguments.' for key in new if key not in old]
        faults += [
            f'"{key}" must be {_kind(old[key])}, as the model gave it, and not {_kind(value)}.'
            for key, value in new.items()
            if key in old and old[key] is not None and _kind(value) != _kind(old[key])
        ]
        if faults:
            raise ValueError("\n".join(faults))
    return typed


def _parsed(text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise ValueError(f"The arguments are not JSON: {error.msg} in line {error.lineno}, column {error.colno}.") from error
    except RecursionError:
        raise ValueError("The arguments are nested too deeply.") from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Python takes the last of two equal keys, and nobody would know."""
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f'"{key}" stands there twice.')
        found[key] = value
    return found


def _kind(value: object) -> str:
    return KINDS[type(value)]
