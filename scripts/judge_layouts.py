#!/usr/bin/env python3
"""Answers drawn at random from each layout's masks, read by our parser and by the parsers that others have for it.

python3.11 dev.py run dev scripts/judge_layouts.py --trl FOLDER --mlx FOLDER --answers 2000 --output layouts.json

FOLDER is an unpacked wheel: `trl` for the response templates that transformers reads, `mlx-lm` for its tool parsers.
Tools are drawn from the function-call schemas of maskbench where the folder of shared data is there.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import importlib.util
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from formatter_core import ChatAnswer, Compiler, Formatter, Layout, ToolCall, Vocabulary, formats, parse
from formatter_core.errors import FormatterError, InvalidValue

ROOT = Path(__file__).resolve().parents[1]
END = 256
COMMON = set(b'abcdefgh <>/{}[]":,\n=_0123456789.-')

#: By layout: the response template in TRL, and the prompt's end that it looks for.
TEMPLATES = {
    "hermes": ("qwen3_template", "<|im_start|>assistant\n"),
    "qwen3": ("qwen3_template", "<|im_start|>assistant\n"),
    "qwen3.5": ("qwen3_5_template", "<|im_start|>assistant\n"),
    "qwen3-coder": ("qwen3_5_template", "<|im_start|>assistant\n"),
    "nemotron-3": ("nemotron_3_template", "<|im_start|>assistant\n"),
    "glm-4.5": ("glm4moe_template", "<|assistant|>"),
    "llama3-json": ("llama3_template", "<|start_header_id|>assistant<|end_header_id|>\n\n"),
    "harmony": ("gptoss_template", "<|start|>assistant"),
    "gemma4": ("gemma4_template", "<|turn>model\n"),
}
#: What ends a turn, for those whose templates look for it.
ENDS = {"llama3-json": "<|eot_id|>", "harmony": "<|call|>", "gemma4": "<turn|>"}
#: By layout: the module of mlx-lm.
MODULES = {
    "hermes": "json_tools",
    "qwen3": "json_tools",
    "qwen3-coder": "qwen3_coder",
    "qwen3.5": "qwen3_coder",
    "kimi-k2": "kimi_k2",
    "mistral-v11": "mistral",
    "minimax-m2": "minimax_m2",
    "glm-4.5": "glm47",
    "gemma4": "gemma4",
    "llama4-pythonic": "pythonic",
}

Judge = Callable[[str, list[Any]], list[tuple[str, Any]]]


def tools_of_maskbench(shared: Path) -> list[dict[str, Any]]:
    """Tools whose parameters are the function-call schemas of maskbench."""
    tools: list[dict[str, Any]] = []
    with gzip.open(shared / "maskbench" / "maskbench_dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            if entry["id"].startswith("Glaiveai2K") and entry["schema"].get("type") == "object":
                name = f"tool_{len(tools)}"
                tools.append({"type": "function", "function": {"name": name, "parameters": entry["schema"]}})
    return tools


def closings(layout: Layout) -> list[list[int]]:
    """What ends a region or a value: without a hint, a random walk hardly ever writes it."""
    calls = layout.calls
    texts = ['"', '"}', "]", "}"]
    if layout.reasoning is not None:
        texts.append(layout.reasoning.close)
    if calls is not None:
        texts += [calls.before + calls.open, calls.close, calls.separator]
        for template in (*calls.templates, calls.text_parameter):
            texts += [piece for piece in template if isinstance(piece, str)]
    return [list(text.encode()) for text in texts if text]


def walk(formatter: Formatter, rng: random.Random, hints: list[list[int]]) -> str | None:
    """A random text through the masks; None where it grows long."""
    for _ in range(2_000):
        if rng.random() < 0.2 and formatter.count_valid(hint := rng.choice(hints)) == len(hint):
            formatter.accept_tokens(hint)
            continue
        allowed = formatter.allowed_tokens()
        if END in allowed and (len(allowed) == 1 or rng.random() < 0.1):
            return str(formatter.text)
        text = [token for token in allowed if token != END]
        common = [token for token in text if token in COMMON]
        formatter.accept_token(rng.choice(common if common and rng.random() < 0.98 else text))
    return None


def transformers_judge(trl: Path, layout: str) -> Judge | None:
    """transformers' `parse_response` with the template that TRL has for the layout."""
    if layout not in TEMPLATES or importlib.util.find_spec("transformers.utils.chat_parsing") is None:
        return None
    from transformers.utils.chat_parsing.response_parser import parse_response

    name, prefix = TEMPLATES[layout]
    template = templates_of(trl)[name]

    def judge(text: str, tools: list[Any]) -> list[tuple[str, Any]]:
        message = parse_response(text + ENDS.get(layout, "<|im_end|>"), template, prefix=prefix, tools=tools)
        functions = [call["function"] for call in message.get("tool_calls") or []]
        return [(function["name"], function["arguments"]) for function in functions]

    return judge


def templates_of(trl: Path) -> dict[str, Any]:
    """The response templates of TRL; the module itself imports more than is needed here."""
    path = trl / "trl" / "chat_template_utils.py"
    names: dict[str, Any] = {"_SUPPORTS_PARSE_RESPONSE_TOOLS": True}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if (
            isinstance(target, ast.Name)
            and target.id.endswith(("3_template", "4_template", "5_template", "moe_template", "oss_template"))
        ) or (isinstance(target, ast.Name) and target.id.startswith(("_XML", "_LFM2"))):
            exec(compile(ast.Module([node], []), str(path), "exec"), names)
    return names


def mlx_judge(mlx: Path, layout: str) -> Judge | None:
    """mlx-lm's parser, which is handed what stands between its two markers."""
    if layout not in MODULES:
        return None
    path = mlx / "mlx_lm" / "tool_parsers" / f"{MODULES[layout]}.py"
    specification = importlib.util.spec_from_file_location(path.stem, path)
    if specification is None or specification.loader is None:
        return None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)

    def judge(text: str, tools: list[Any]) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        if layout == "llama4-pythonic":  # its markers are those of another model
            pieces = [text] if text.startswith("[") else []
        else:
            pieces = text.split(module.tool_call_start)[1:]
        for piece in pieces:
            body = piece.split(module.tool_call_end)[0] if module.tool_call_end else piece
            calls = module.parse_tool_call(body, tools)
            for call in calls if isinstance(calls, list) else [calls]:
                found.append((call["name"], call["arguments"]))
        return found

    return judge


def judged(layout: Layout, judges: dict[str, Judge], tools: list[Any], answers: int, seed: int) -> dict[str, Any]:
    """How many answers each judge read as we do, with examples of those that it did not."""
    rng = random.Random(f"{layout.name} {seed}")
    compiler = Compiler(Vocabulary.of_bytes(), cache_bytes=0)
    hints = closings(layout)
    counts: Counter[str] = Counter()
    differences: dict[str, list[Any]] = {}
    while counts["answers"] < answers and counts["tried"] < 3 * answers:
        some = rng.sample(tools, rng.randint(1, 4))
        names = [tool["function"]["name"] for tool in some]
        choice = rng.choice(["auto", "required", "required", "none", rng.choice(names)])
        reasoning: Any = "off" if layout.reasoning is None else rng.choice(["auto", "required", "off"])
        format = formats.chat_answer(
            layout, tools=some, tool_choice=choice, parallel=rng.random() < 0.5, reasoning=reasoning
        )
        try:
            compiled = compiler.compile(format)
        except FormatterError:
            counts["tried"] += 1
            counts["refused"] += 1
            continue
        for _ in range(10):
            counts["tried"] += 1
            text = walk(compiled.formatter(), rng, hints)
            if text is None:
                counts["unfinished"] += 1
                continue
            try:
                ours = parse(format, text).value
            except InvalidValue:  # a number that even a Decimal cannot hold
                ours = None
            if ours is None or "Decimal" in repr(ours.tool_calls):  # judges read floats
                counts["with a number that is no float"] += 1
                continue
            counts["answers"] += 1
            counts["calls"] += len(ours.tool_calls)
            for name, judge in judges.items():
                difference = compared(ours, judge, text, some)
                counts[f"{name}: {'agrees' if difference is None else 'differs'}"] += 1
                if difference is not None and len(differences.setdefault(name, [])) < 20:
                    differences[name].append(difference)
    return {"counts": dict(counts), "differences": differences}


def compared(ours: ChatAnswer, judge: Judge, text: str, tools: list[Any]) -> Any:
    """None where the judge reads the same calls."""
    expected = [(call.name, call.arguments) for call in ours.tool_calls]
    try:
        theirs = judge(text, tools)
    except Exception as error:  # noqa: BLE001 - whatever a judge raises is its answer
        return {"text": text, "ours": expected, "theirs": repr(error)[:300]}
    if [(name, plain(arguments)) for name, arguments in theirs] == [(name, plain(given)) for name, given in expected]:
        return None
    return {"text": text, "ours": expected, "theirs": theirs}


#: By layout: the chat template in TRL that writes it.
CHAT_TEMPLATES = {
    "hermes": "qwen2_5",
    "qwen3": "qwen3",
    "qwen3.5": "qwen3_5_think",
    "nemotron-3": "nemotron_3_nano",
    "glm-4.5": "glm4moe",
    "llama3-json": "llama3_1",
    "harmony": "gptoss",
    "deepseek-v3": "deepseekv3",
    "gemma4": "gemma4",
}
WORDS = ["Paris", "a < b", "two\nlines", "3", "null", "{}", "it's", 'say "hi"', "日本", "x=1"]


def chat_template(trl: Path, layout: str) -> Any:
    """The chat template that TRL has for a layout, compiled."""
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False)
    environment.globals["strftime_now"] = lambda format: "2026-01-01"
    environment.globals["raise_exception"] = _refuse
    path = trl / "trl" / "chat_templates" / f"{CHAT_TEMPLATES[layout]}.jinja"
    return environment.from_string(path.read_text(encoding="utf-8"))


class Checkpoint:
    """What `Layout.from_tokenizer` asks of a tokenizer whose checkpoint publishes its response template."""

    def __init__(self, trl: Path, layout: str) -> None:
        self.response_template = templates_of(trl)[TEMPLATES[layout][0]]
        self._template = chat_template(trl, layout)

    def apply_chat_template(self, messages: list[Any], *, tools: list[Any], tokenize: bool, **options: Any) -> str:
        return str(self._template.render(messages=messages, tools=tools, bos_token="", eos_token="", **options))


def rendered(trl: Path, layout: Layout, count: int, seed: int) -> dict[str, Any]:
    """Random turns as a chat template writes them, read by the layout's format."""
    template = chat_template(trl, layout.name)
    rng = random.Random(f"rendered {layout.name} {seed}")
    counts: Counter[str] = Counter()
    differences: list[Any] = []
    while counts["turns"] < count:
        tool, answer = _random_answer(layout, rng)
        turn: dict[str, Any] = {"role": "assistant", "content": answer.content or ""}
        if answer.reasoning is not None:
            turn.update(reasoning_content=answer.reasoning, thinking=answer.reasoning)
        as_text = layout.name.startswith("deepseek")
        if answer.tool_calls:
            turn["content"] = answer.content or (None if as_text else "")
            turn["tool_calls"] = [
                {
                    "type": "function",
                    "id": f"call_{index}",
                    "function": {
                        "name": call.name,
                        "arguments": json.dumps(call.arguments) if as_text else call.arguments,
                    },
                }
                for index, call in enumerate(answer.tool_calls)
            ]
        messages = [{"role": "user", "content": "Question."}]
        given = {"tools": [tool], "bos_token": "", "eos_token": ""}
        prompt = template.render(messages=messages, add_generation_prompt=True, **given)
        whole = template.render(messages=[*messages, turn], add_generation_prompt=False, **given)
        if not whole.startswith(prompt):  # some open the reasoning in prompts and leave it out of earlier turns
            prompt = prompt.removesuffix("<think>\n")
        is_open = layout.opens_reasoning(prompt)
        if is_open and answer.reasoning is None:
            continue
        text = whole[len(prompt) :]
        for end in (
            "<|im_end|>",
            "<|eot_id|>",
            "<|call|>",
            "<|return|>",
            "<｜end▁of▁sentence｜>",
            "<turn|>",
            "<|tool_resp",
        ):
            text = text.split(end)[0]
        counts["turns"] += 1
        format = formats.chat_answer(layout, tools=[tool], reasoning_is_open=is_open)
        result = parse(format, text)
        if result.is_complete and result.value == answer:
            counts["read as it was meant"] += 1
        elif len(differences) < 20:
            read = str(result.value) if result.is_complete else result.missing
            differences.append({"text": text, "meant": str(answer), "read": read})
    return {"counts": dict(counts), "differences": differences}


def _random_answer(layout: Layout, rng: random.Random) -> tuple[dict[str, Any], ChatAnswer]:
    kinds: dict[str, Callable[[], Any]] = {
        "string": lambda: rng.choice(WORDS),
        "integer": lambda: rng.randrange(-99, 100),
        "boolean": lambda: rng.random() < 0.5,
        "array": lambda: [rng.choice(WORDS) for _ in range(rng.randrange(3))],
        "object": lambda: {rng.choice("ab"): rng.choice(WORDS)},
    }
    calls = layout.calls
    assert calls is not None, "every layout that ships has calls"
    if calls.values == "delimited":  # which writes no keys that a schema does not name
        del kinds["object"]
    types = {f"key_{index}": rng.choice(list(kinds)) for index in range(rng.randint(1, 4))}
    items = {"items": {"type": "string"}}
    properties = {
        key: {"type": kind, "description": "A value.", **(items if kind == "array" else {})}
        for key, kind in types.items()
    }
    parameters = {"type": "object", "properties": properties, "required": list(types)}
    function = {"name": "some_tool", "description": "A tool.", "parameters": parameters}
    count = rng.choice([0, 1, 1, 2]) if calls.parallel else rng.randint(0, 1)
    made = tuple(ToolCall("some_tool", {key: kinds[kind]() for key, kind in types.items()}) for _ in range(count))
    content = rng.choice(WORDS) if not made or (calls.after_text and rng.random() < 0.5) else None
    shown = made or layout.name != "gemma4"  # whose template shows reasoning before calls alone
    thinks = layout.reasoning is not None and layout.name != "deepseek-v3" and shown and rng.random() < 0.7
    return {"type": "function", "function": function}, ChatAnswer(
        "So: " + rng.choice(WORDS) if thinks else None, content, made
    )


def _refuse(reason: str) -> None:
    raise ValueError(reason)


def plain(value: Any) -> Any:
    """Arguments as JSON text tells them: 1 and 1.0 are one number."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return value
    return json.loads(json.dumps(value, sort_keys=True, default=float), parse_int=float)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="layouts by name; all where none is given")
    parser.add_argument("--trl", type=Path, help="an unpacked wheel of trl")
    parser.add_argument("--mlx", type=Path, help="an unpacked wheel of mlx-lm")
    parser.add_argument("--answers", type=int, default=200, help="answers of each layout (default 200)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, help="a JSON file for the results")
    parser.add_argument("--learned", action="store_true", help="layouts from TRL's response and chat templates")
    options = parser.parse_args()
    shared = Path(os.environ.get("FORMATTER_SHARED") or ROOT.parent / "shared")
    tools = tools_of_maskbench(shared)
    report: dict[str, Any] = {"answers": options.answers, "seed": options.seed, "layouts": {}, "rendered": {}}
    for name in options.names or Layout.names():
        found = {
            "transformers": options.trl and transformers_judge(options.trl, name),
            "mlx-lm": options.mlx and mlx_judge(options.mlx, name),
        }
        judges = {judge: read for judge, read in found.items() if read is not None}
        if options.trl and name in CHAT_TEMPLATES:
            report["rendered"][name] = rendered(options.trl, Layout.named(name), options.answers // 4, options.seed)
            print(name, "rendered", report["rendered"][name]["counts"], file=sys.stderr, flush=True)
        layout = Layout.named(name)
        if options.learned:
            if name not in TEMPLATES or name not in CHAT_TEMPLATES:
                continue
            layout = replace(Layout.from_tokenizer(Checkpoint(options.trl, name)), name=name)
        report["layouts"][name] = judged(layout, judges, tools, options.answers, options.seed)
        print(name, report["layouts"][name]["counts"], file=sys.stderr, flush=True)
    if options.output is not None:
        options.output.write_text(json.dumps(report, indent=1, ensure_ascii=False, default=str), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
