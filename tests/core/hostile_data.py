"""Run by `test_security.py` in a process of its own: hostile data under an audit hook that reports what they cause.

Whatever is imported, opened, run, unpickled or connected to while a format is read from data is printed, line by line.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import pickle
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "integrations")]

from formatter_core import Compiler, Vocabulary, formats  # noqa: E402
from formatter_core.errors import FormatterError  # noqa: E402
from formatter_vllm.requests import content_of, read_format  # noqa: E402

#: Audit events that reading data has no reason to cause.
FORBIDDEN = (
    "import", "exec", "compile", "open", "pickle.", "marshal.load", "os.", "subprocess.", "socket.", "ctypes.", "code.",
    "urllib.", "shutil.", "webbrowser.", "ftplib.", "http.", "sqlite3.",
)  # fmt: skip


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("a folder that no data can make",)


PICKLE = pickle.dumps(Bomb())
NAMES = [
    "os.system",
    "builtins:eval",
    "antigravity",
    "no_such_module_of_ours.Type",
    "__main__.Bomb",
    "__import__('os').mkdir('x')",
    "formatter_core.formats.regex",
    "../../etc/passwd",
    "file:///etc/passwd",
    "http://127.0.0.1:9/schema.json",
    "{0.__class__.__mro__}",
    "%(os)s",
    "${jndi:ldap://127.0.0.1:9/a}",
    "!!python/object/apply:os.system ['true']",
    "cos\nsystem\n(S'true'\ntR.",
    base64.b64encode(PICKLE).decode(),
    PICKLE.decode("latin-1"),
    "__reduce__",
    "__class__",
    "type",
    "to_json",
]

GOOD: list[dict[str, Any]] = [
    formats.regex("a+").to_json(),
    formats.choice(["a", "b"]).to_json(),
    formats.kbnf('start ::= "a";').to_json(),
    formats.text("a", formats.Hole(formats.regex("b"), "hole")).to_json(),
    formats.sequence(formats.regex("a"), formats.integer(1, 2)).to_json(),
    formats.number(1, 2).to_json(),
    formats.string("a", 2).to_json(),
    formats.until("x").to_json(),
    formats.token(3).to_json(),
    formats.lark('start: "a" | /[b-c]*/').to_json(),
    formats.structural_tag({"format": {"type": "any_text", "excludes": ["a"]}}).to_json(),
    formats.ebnf('root ::= Regex("a") | [b-c]*').to_json(),
    formats.gbnf('root ::= "a" | [b-c]*').to_json(),
    formats.special("<x>").to_json(),
    formats.chat_answer("qwen3", tools=[{"type": "function", "function": {"name": "f"}}]).to_json(),
    formats.substring_of("abc").to_json(),
    formats.json_schema({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": True}}).to_json(),
    formats.python_type(dict[str, int]).to_json(),
]


def hostile(names: Sequence[str]) -> list[Any]:
    """Every part of every format replaced by every name, under known and other keys, and schemas that refer to them."""
    found: list[Any] = []
    for good, name in itertools.product(GOOD, names):
        found.append({**good, "type": name})
        found.append({**good, "py/object": name, "__class__": name, "module": name, "$type": name})
        for key in good:
            found += [{**good, key: name}, {**good, key: {"type": name}}, {**good, key: [name]}]
    for name, keyword in itertools.product(
        names, ["$ref", "$id", "$schema", "format", "pattern", "type", "contentSchema"]
    ):
        found.append(formats.json_schema({keyword: name, "$comment": name}).to_json())
    for name in names:
        whole = formats.python_type(dict[str, int]).to_json()
        found += [
            {**whole, "name": name, "schema": {**whole["schema"], "schema": schema}}
            for schema in ({"$ref": name}, json.dumps({"$ref": name}))
        ]
    return found


def nothing(call: Callable[[], Any]) -> None:
    """Call, and let errors of ours be."""
    with contextlib.suppress(FormatterError):
        call()


def use(compiler: Compiler, data: Any) -> None:
    """All that a server and a client do with a format that came as data."""
    for made in (
        lambda: formats.from_json(data),
        lambda: formats.from_json(data, type=Any),
        lambda: formats.from_json(data, type=dict[str, int]),
        lambda: read_format(json.dumps({"format": data})),
        lambda: read_format(json.dumps({"json_schema": data})),
        lambda: read_format(content_of({"formatter": json.dumps(data)}) or ""),
    ):
        nothing(lambda made=made: compiler.compile(made()).parse("a").is_complete)
    nothing(
        lambda: compiler.from_bytes(compiler.compile(formats.from_json(data, type=Any)).to_bytes()).parse("a").value
    )


def main(count: int) -> None:
    compiler = Compiler(Vocabulary.of_bytes(), engine="native")
    data = hostile(NAMES)
    random.Random(0).shuffle(data)
    for one in [*GOOD, *hostile(["plain"])]:  # our own modules that are imported when they are first needed
        use(compiler, one)
    seen: list[str] = []

    def report(event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith(FORBIDDEN):
            seen.append(f"{event} {arguments!r}"[:300])

    sys.addaudithook(report)
    for one in [*GOOD, *data[:count]]:
        use(compiler, one)
    events = list(seen)
    pickle.loads(PICKLE)  # the hook sees what it should
    found = {"data": len(data[:count]), "events": events, "seen of a pickle": len(seen) > len(events)}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]))
