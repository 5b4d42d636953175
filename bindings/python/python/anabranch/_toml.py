"""Writes a scenario given as a dict, so that it is read by the rules, and refused in the words, of files."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def _key(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a key of a scenario is a text, not {name!r}")
    return name if _BARE.fullmatch(name) else _text(name)


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{text!r} is no Unicode") from None
    # TOML knows no pairs of surrogates. DEL is the one character that JSON leaves alone and TOML does not.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any, path: str) -> str:
    # A flag is an int in Python, so it comes first.
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{path} is {value}: a scenario has finite numbers")
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(item, path) for item in value) + "]"
    if isinstance(value, Mapping):
        items = (f"{_key(key)} = {_value(item, f'{path}.{key}')}" for key, item in value.items())
        return "{ " + ", ".join(items) + " }"
    kind = type(value).__name__
    raise TypeError(f"{path} is of type {kind}: use texts, numbers, booleans, lists and dicts")


def dumps(scenario: Mapping[str, Any]) -> str:
    """The text of a scenario.

    >>> print(dumps({"title": "A", "path": {"wifi": {"loss": "3 %"}}}), end="")
    title = "A"
    [path.wifi]
    loss = "3 %"
    """
    lines: list[str] = []
    _table(lines, scenario, "")
    return "".join(line + "\n" for line in lines)


def _table(lines: list[str], table: Mapping[str, Any], path: str) -> None:
    tables = {}
    for key, value in table.items():
        name = f"{path}.{_key(key)}" if path else _key(key)
        is_list = isinstance(value, (list, tuple)) and len(value) > 0
        if isinstance(value, Mapping) or is_list and all(isinstance(v, Mapping) for v in value):
            tables[name] = value
        else:
            lines.append(f"{_key(key)} = {_value(value, name)}")
    for name, value in tables.items():
        if not isinstance(value, Mapping):
            for item in value:
                lines.append(f"[[{name}]]")
                _table(lines, item, name)
            continue
        # A table with nothing but tables needs no line of its own.
        if not value or not all(isinstance(item, Mapping) for item in value.values()):
            lines.append(f"[{name}]")
        _table(lines, value, name)
