#!/usr/bin/env python3
"""Survey layouts: which one is found for each chat template of others, and which real tools each enforces.

python3.11 dev.py run dev scripts/survey_layouts.py templates FOLDER ... --output survey.json
python3.11 dev.py run dev scripts/survey_layouts.py tools [LAYOUT ...] --output tools.json

FOLDER holds `*.jinja`: `models/templates` of llama.cpp (llama-cpp-python's source distribution has it) or
`trl/chat_templates` of an unpacked wheel of TRL, whose templates for training are left out. Up to six turns of each
are rendered (a text, a thought and a text, a call, a thought and a call, two calls, a text and a call), and given to
the layout's format byte by byte. A turn that a template refuses, or of which it leaves out a part, does not count.

The tools are those of `tools/mcp_tools_dev.jsonl` and the function-call schemas of maskbench (Glaiveai2K, BFCL), in
the folder of shared data. A tool that no layout enforces, because its schema is invalid, is counted apart.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.data import real_tools
from formatter_core import ChatAnswer, Compiler, Layout, Vocabulary, check, formats
from formatter_core.errors import FormatterError, UnsupportedLayout
from formatter_core.layouts.rendering import CALLS, QUESTION, TEXT, THOUGHT, messages_of, rendered_turn
from scripts.chat_turns import compiled_template

TURNS = {
    "text": ChatAnswer(None, TEXT),
    "a thought and text": ChatAnswer(THOUGHT, TEXT),
    "a call": ChatAnswer(None, None, CALLS[:1]),
    "a thought and a call": ChatAnswer(THOUGHT, None, CALLS[:1]),
    "two calls": ChatAnswer(None, None, CALLS),
    "text and a call": ChatAnswer(None, TEXT, CALLS[:1]),
}
UNCOUNTED = ("read", "has no place", "leaves the reasoning open")
TYPES = {"city": {"type": "string"}, "days": {"type": "integer"}}
TOOLS = [
    {"type": "function", "function": {"name": call.name, "parameters": {"type": "object", "properties": TYPES}}}
    for call in CALLS
]
_LAST_TAG = re.compile(r"(<[^<>\s]+>|\[e~\[)\s*\Z")
_COMPILER = Compiler(Vocabulary.of_bytes())


class Template:
    """Stand for a tokenizer, as `Layout.from_tokenizer` asks it."""

    def __init__(self, path: Path) -> None:
        self._template = compiled_template(path)

    def apply_chat_template(self, messages: list[Any], *, tools: list[Any], tokenize: bool, **options: Any) -> str:
        given = {"functions": json.dumps(tools), "datetime": "2026-01-01", **options}
        return str(self._template.render(messages=messages, tools=tools, bos_token="", eos_token="</s>", **given))


def surveyed(path: Path) -> dict[str, Any]:
    """Find a layout for one template, and say how, or why there is none."""
    template = Template(path)
    turns: dict[str, str] = {}
    for name, answer in TURNS.items():
        message: dict[str, Any] = {"content": answer.content or ""}
        if answer.tool_calls:
            message["tool_calls"] = messages_of(answer.tool_calls)
        text = rendered_turn(template, message, answer.reasoning)
        parts = [answer.reasoning, answer.content, *(call.name for call in answer.tool_calls)]
        at = -1 if text is None else text.rfind(QUESTION)
        if text is not None and all((at := text.find(part, at + 1)) >= 0 for part in parts if part):
            turns[name] = text
    found: dict[str, Any] = {"writes calls": "a call" in turns}
    try:
        layout = Layout.from_tokenizer(template)
    except UnsupportedLayout as error:
        return {**found, "layout": None, "why": str(error)}
    prompt = rendered_turn(template, None) or ""
    read = {name: _read(layout, prompt, text, TURNS[name]) for name, text in turns.items()}
    return {**found, "layout": layout.name, "turns": read}


def _read(layout: Layout, prompt: str, text: str, answer: ChatAnswer) -> str:
    """Return "read" if the layout's format reads a turn as it was meant, or what it read instead."""
    calls = layout.calls
    if calls is None or (len(answer.tool_calls) > 1 and not calls.parallel):
        return "has no place"
    if answer.content is not None and answer.tool_calls and (not calls.after_text or _is_thought(layout, text)):
        return "has no place"
    seen: Any = "no prompt before it"
    text = text.removesuffix(prompt[prompt.rfind(QUESTION) + len(QUESTION) :])  # which some append always
    closing = "" if layout.reasoning is None else layout.reasoning.close.strip()
    if layout.opens_reasoning(prompt) and text.startswith(prompt) and closing not in text[len(prompt) :]:
        return "leaves the reasoning open"
    for begun, written in _placed(layout, prompt, text):
        format = formats.chat_answer(layout, tools=TOOLS).after(begun)
        compiled = _COMPILER.compile(format)
        for ending in _without_ends(written):
            data = ending.encode()
            formatter = compiled.formatter()
            taken = formatter.accept_tokens([*data, 256])
            if taken == len(data) + 1:
                seen = formatter.result("end").value
                if seen == answer:
                    return "read"
            elif ending == written:
                seen = f"refuses {data[taken:][:40]!r}"
    return str(seen)


def _without_ends(text: str) -> Iterator[str]:
    """Yield a turn, and the same without tokens and blanks at its end, which are no part of it."""
    yield text
    for _ in range(5):
        for shorter in (_LAST_TAG.sub("", text), text.rstrip()):
            if shorter != text:
                yield shorter
        text = _LAST_TAG.sub("", text)


def _placed(layout: Layout, prompt: str, text: str) -> Any:
    """Yield a turn's prompt and its text; templates leave out of earlier turns what prompts say of reasoning."""
    ends = [""]
    if (region := layout.reasoning) is not None:
        ends += [region.empty, region.open + region.close, region.open + region.close.lstrip(), region.open]
        ends += [(region.open + region.close).strip(), region.open + region.close.strip(), region.open.strip()]
        ends += [region.empty.strip()]
    for end in dict.fromkeys(ends):
        begun = prompt.removesuffix(end)
        if (not end or begun != prompt) and text.startswith(begun):
            yield begun, text[len(begun) :]
            if end and layout.opens_reasoning(prompt):
                yield prompt, text[len(begun) :]


def _is_thought(layout: Layout, text: str) -> bool:
    """Tell whether a template shows a text before calls as reasoning, as that of gpt-oss does."""
    calls = layout.calls
    return calls is not None and calls.preamble is not None and calls.preamble.open + TEXT not in text


def enforced(layout: str, given: list[dict[str, Any]]) -> dict[str, Any]:
    """Count the tools that a layout enforces, with the reasons for the others."""
    reasons: dict[str, str] = {}
    refused_lists = 0
    for start in range(0, len(given), 40):
        some = given[start : start + 40]
        format = formats.chat_answer(layout, tools=some, on_unsupported_tool="loose", spelling="canonical")
        try:
            check(format)
        except FormatterError as error:
            refused_lists += 1
            print(layout, start, repr(error)[:300], file=sys.stderr)
            continue
        reasons.update((each.name, each.reason) for each in format.tool_coverage() if each.status != "enforced")
    return {"tools": len(given), "not enforced": reasons, "lists refused": refused_lists}


def survey_templates(folders: list[str]) -> dict[str, Any]:
    """Find the layouts of all templates in folders."""
    report: dict[str, Any] = {}
    for folder in map(Path, folders):
        counts: Counter[str] = Counter()
        for path in sorted(folder.glob("*.jinja")):
            if path.stem.endswith("_training"):
                continue
            try:
                found = surveyed(path)
            except FormatterError as error:
                found = {"writes calls": True, "layout": None, "why": repr(error)}
            report[f"{folder.name}/{path.stem}"] = found
            wrong = {name: read for name, read in found.get("turns", {}).items() if read not in UNCOUNTED}
            counts["templates"] += 1
            if found["writes calls"]:
                counts["write calls"] += 1
                counts["found"] += found["layout"] is not None
                counts["found, and refuse or misread a turn of their own"] += bool(wrong)
            print(path.stem, found["layout"], wrong or found.get("why", "") if found["writes calls"] else "(no calls)")
        print(folder, dict(counts))
    return report


def survey_tools(names: list[str]) -> dict[str, Any]:
    """Say which real tools layouts enforce, all layouts if none is named; and whether a list is ever refused whole."""
    given = real_tools("Glaiveai2K", "BFCL", servers=True)
    report = {name: enforced(name, given) for name in names or Layout.names()}
    invalid = set.intersection(*(set(found["not enforced"]) for found in report.values()))
    print(f"{len(given)} tools; {len(invalid)} are enforced in no layout")
    for name, found in report.items():
        own = {tool: reason for tool, reason in found["not enforced"].items() if tool not in invalid}
        valid = len(given) - len(invalid)
        print(f"{name}: {valid - len(own)} of {valid} enforced; {found['lists refused']} lists refused")
        for tool, reason in list(own.items())[:6]:
            print("   ", tool, reason[:160])
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("of", choices=["templates", "tools"])
    parser.add_argument("names", nargs="*", help="folders of templates; layouts")
    parser.add_argument("--output", type=Path, help="a JSON file for the results")
    options = parser.parse_args()
    report = (survey_templates if options.of == "templates" else survey_tools)(options.names)
    if options.output is not None:
        options.output.write_text(json.dumps(report, indent=1, ensure_ascii=False), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
