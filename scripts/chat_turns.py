"""Make turns of chat models: as chat templates write them, and calls with one fault, which no mask may allow."""

from __future__ import annotations

import importlib.util
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from formatter_core import ChatAnswer, Layout, ToolCall, formats
from scripts.layout_judges import TEMPLATES, module_of, templates_of
from scripts.layout_walks import Walker, walkers

__all__ = ["CHAT_TEMPLATES", "Checkpoint", "compiled_template", "mutated", "random_tool", "rendered"]

#: By layout: the chat templates that write it, in TRL or in mlx-lm.
CHAT_TEMPLATES = {
    "hermes": ("qwen2_5",),
    "qwen3": ("qwen3", "qwen3_instruct_2507"),
    "qwen3.5": ("qwen3_5_think", "qwen3_5_nothink", "qwen3_6"),
    "nemotron-3": ("nemotron_3_nano", "nemotron_3_super"),
    "glm-4.5": ("glm4moe",),
    "llama3-json": ("llama3_1", "llama3_2"),
    "harmony": ("gptoss",),
    "deepseek-v3": ("deepseekv3",),
    "gemma4": ("gemma4", "gemma4_v2", "gemma4_v3", "gemma4_v4", "gemma4_v5"),
    "deepseek-v3.2": ("mlx-lm/deepseek_v32",),
}
#: By layout: XGrammar's name for the model that writes it.
_XGRAMMAR = {
    "qwen3": "qwen_3",
    "qwen3.5": "qwen_3_5",
    "qwen3-coder": "qwen_3_coder",
    "llama3-json": "llama",
    "kimi-k2": "kimi",
    "deepseek-r1": "deepseek_r1",
    "deepseek-v3.1": "deepseek_v3_1",
    "deepseek-v3.2": "deepseek_v3_2",
    "harmony": "harmony",
    "minimax-m2": "minimax",
    "glm-4.5": "glm_4_7",
}
#: Chat templates that write no reasoning, though their layout has a place for it.
_WITHOUT_REASONING = {"qwen3_instruct_2507", "qwen3_5_nothink", "gemma4_v2"}
#: Texts that end a turn in the templates.
_ENDS = ("<|im_end|>", "<|eot_id|>", "<|call|>", "<|return|>", "<｜end▁of▁sentence｜>", "<turn|>", "<|tool_resp")
_WORDS = ["Paris", "a < b", "two\nlines", "3", "null", "{}", "it's", 'say "hi"', "日本", "x=1"]


def compiled_template(path: Path) -> Any:
    """Compile a chat template as transformers does, but for the lists that some of them append to."""
    from jinja2 import nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import SandboxedEnvironment

    class Generation(Extension):
        """Render the block around the text that is trained on as it is."""

        tags = {"generation"}  # noqa: RUF012 - jinja2 has it so

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)

    environment = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation])
    environment.filters["tojson"] = _to_json
    environment.globals["strftime_now"] = lambda format: "2026-01-01"
    environment.globals["raise_exception"] = _refuse
    return environment.from_string(path.read_text(encoding="utf-8"))


def _to_json(value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, default=list)


def _chat_template(trl: Path, name: str) -> Any:
    """Compile a chat template of TRL."""
    return compiled_template(trl / "trl" / "chat_templates" / f"{name}.jinja")


class _ByMlx:
    """Render by a chat template of mlx-lm, which is a module."""

    def __init__(self, mlx: Path, name: str) -> None:
        self._module = module_of(mlx / "mlx_lm" / "chat_templates" / f"{name}.py")

    def render(self, messages: list[Any], mode: str, **options: Any) -> str:
        return str(self._module.encode_messages(messages, mode))


class Checkpoint:
    """Stand for a tokenizer whose checkpoint publishes its response template, as `Layout.from_tokenizer` asks it."""

    def __init__(self, trl: Path, layout: str) -> None:
        self.response_template = templates_of(trl)[TEMPLATES[layout][0]]
        self._template = _chat_template(trl, CHAT_TEMPLATES[layout][0])

    def apply_chat_template(self, messages: list[Any], *, tools: list[Any], tokenize: bool, **options: Any) -> str:
        return str(self._template.render(messages=messages, tools=tools, bos_token="", eos_token="", **options))


def rendered(
    folder: Path, layout: Layout, name: str, count: int, seed: int, tokenizers: Path | None = None
) -> dict[str, Any]:
    """Read random turns of a chat template token by token by the layout's format."""
    by_mlx = name.startswith("mlx-lm/")
    template = _ByMlx(folder, name.removeprefix("mlx-lm/")) if by_mlx else _chat_template(folder, name)
    rng = random.Random(f"rendered {name} {seed}")
    sides = walkers(layout, tokenizers)
    counts: Counter[str] = Counter()
    differences: list[Any] = []
    while counts["turns"] < count:
        tool, answer = _random_answer(layout, rng)
        if name in _WITHOUT_REASONING:
            answer = replace(answer, reasoning=None)
        messages = [{"role": "user", "content": "Question."}]
        mode = "chat" if answer.reasoning is None else "thinking"
        given: dict[str, Any] = {"tools": [tool], "bos_token": "", "eos_token": "", "mode": mode}
        prompt = template.render(messages=messages, add_generation_prompt=True, **given)
        whole = template.render(messages=[*messages, _turn(layout, answer)], add_generation_prompt=False, **given)
        if not whole.startswith(prompt):  # some open the reasoning in prompts and leave it out of earlier turns
            prompt = prompt.removesuffix("<think>\n")
        is_open = layout.opens_reasoning(prompt)
        if is_open and answer.reasoning is None:
            continue
        text = whole[len(prompt) :]
        for end in _ENDS:
            text = text.split(end)[0]
        counts["turns"] += 1
        format = formats.chat_answer(layout, tools=[tool], reasoning_is_open=is_open)
        read = [_read(walker, format, text) for walker in sides]
        if read == [answer] * len(sides):
            counts["read as it was meant"] += 1
        elif len(differences) < 20:
            differences.append(
                {"text": text, "prompt": prompt[-40:], "meant": str(answer), "read": list(map(str, read))}
            )
    return {"counts": dict(counts), "differences": differences}


def _turn(layout: Layout, answer: ChatAnswer) -> dict[str, Any]:
    """Return an answer as chat templates take it."""
    turn: dict[str, Any] = {"role": "assistant", "content": answer.content or ""}
    if answer.reasoning is not None:
        turn.update(reasoning_content=answer.reasoning, thinking=answer.reasoning)
    if answer.tool_calls:
        as_text = layout.name.startswith("deepseek")
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
    return turn


def _read(walker: Walker, format: Any, text: str) -> Any:
    """Read a text token by token; return its value, or the rest from the first refused token on."""
    formatter = walker.compiler.compile(format).formatter()
    tokens = walker.tokens(text)
    taken = formatter.accept_tokens(tokens)
    if taken < len(tokens) or not formatter.can_stop:
        return f"refused: {walker.text(tokens[taken:])!r}"
    formatter.accept_token(next(iter(formatter.end_ids)))
    return formatter.result("end").value


def mutated(layout: Layout, count: int, seed: int, tokenizers: Path | None = None) -> dict[str, Any]:
    """Count the calls with one fault that our masks allow, and XGrammar's tags for the same model."""
    rng = random.Random(f"mutated {layout.name} {seed}")
    sides = walkers(layout, tokenizers)
    counts: Counter[str] = Counter()
    accepted: list[Any] = []
    for number in range(count):
        tool, call = random_tool(layout, rng)
        choice, parallel = rng.choice(["auto", "required"]), rng.random() < 0.5
        for fault, text in _faults(layout, call()):
            single = fault == "two calls" or not parallel
            format = formats.chat_answer(layout, tools=[tool], tool_choice=choice, parallel=not single, reasoning="off")
            ours = isinstance(_read(sides[number % len(sides)], format, text), ChatAnswer)
            theirs = _xgrammar_accepts(layout, tool, choice, not single, text)
            counts[f"{fault}: tried"] += 1
            counts[f"{fault}: ours accepts"] += ours
            if theirs is not None:
                counts[f"{fault}: XGrammar accepts"] += theirs
            if ours != (fault == "none") and len(accepted) < 20:
                accepted.append({"fault": fault, "text": text, "ours": ours})
    return {"counts": dict(counts), "differences": accepted}


def _faults(layout: Layout, call: ToolCall) -> Iterator[tuple[str, str]]:
    """Yield a call, and calls with one fault."""
    arguments = dict(call.arguments)
    first = next(iter(arguments))

    def written(*calls: ToolCall) -> str:
        return layout.render(ChatAnswer(None, None, calls))

    def with_arguments(**others: Any) -> str:
        return written(ToolCall(call.name, {**arguments, **others}))

    yield "none", written(call)
    yield "missing argument", written(ToolCall(call.name, {key: arguments[key] for key in arguments if key != first}))
    yield "wrong type", with_arguments(number={"a": "b"} if layout.name != "gemma4" else "a")
    yield "unknown tool", written(ToolCall("other_tool", arguments))
    yield "argument twice", with_arguments(**{first + "PLACEHOLDER": arguments[first]}).replace("PLACEHOLDER", "")
    calls = layout.calls
    if calls is None:
        return
    one = written(call)
    yield "two calls", written(call, call) if calls.parallel else one + calls.separator + one
    closing = (calls.text_parameter or calls.templates[0])[-1]  # what follows the value, or the call
    ends = (closing if isinstance(closing, str) else "") + calls.close
    if layout.markers and calls.values not in ("python", "json"):
        tag = next((each for each in layout.markers if each in ends), layout.markers[0])
        yield "closing tag in a string", with_arguments(word="PLACEHOLDER").replace("PLACEHOLDER", f"a{tag}b")


def _xgrammar_accepts(layout: Layout, tool: Any, choice: str, parallel: bool, text: str) -> bool | None:
    """Tell whether XGrammar's structural tag for the model accepts a text; None if it has no such tag."""
    if layout.name not in _XGRAMMAR or importlib.util.find_spec("xgrammar") is None:
        return None
    import xgrammar

    end = 256
    words = [*(bytes([byte]) for byte in range(end)), b"</s>", *(marker.encode() for marker in layout.markers)]
    tokenizer = xgrammar.TokenizerInfo(words, xgrammar.VocabType.RAW, stop_token_ids=[end])
    tag = xgrammar.get_model_structural_tag(
        _XGRAMMAR[layout.name], [tool], choice, reasoning="disabled", parallel_tool_calls=parallel
    )
    matcher = xgrammar.GrammarMatcher(xgrammar.GrammarCompiler(tokenizer).compile_structural_tag(tag))
    tokens = walkers(layout)[-1].tokens(text) if layout.markers else text.encode()  # numbered as `words` are
    return all(matcher.accept_token(token) for token in tokens) and matcher.accept_token(end)


def _random_answer(layout: Layout, rng: random.Random) -> tuple[dict[str, Any], ChatAnswer]:
    """Draw a tool, and an answer with up to two calls of it."""
    tool, call = random_tool(layout, rng)
    assert layout.calls is not None, "every layout that ships has calls"
    count = rng.choice([0, 1, 1, 2]) if layout.calls.parallel else rng.randint(0, 1)
    made = tuple(call() for _ in range(count))
    both = layout.calls.after_text and layout.calls.preamble is None  # templates show preambles as reasoning
    content = rng.choice(_WORDS) if not made or (both and rng.random() < 0.5) else None
    shown = made or layout.name != "gemma4"  # whose template shows reasoning before calls alone
    thinks = layout.reasoning is not None and layout.name != "deepseek-v3" and shown and rng.random() < 0.7
    return tool, ChatAnswer("So: " + rng.choice(_WORDS) if thinks else None, content, made)


def random_tool(layout: Layout, rng: random.Random) -> tuple[dict[str, Any], Callable[[], ToolCall]]:
    """Draw a tool; return it, and a function that makes calls of it."""
    kinds: dict[str, Callable[[], Any]] = {
        "string": lambda: rng.choice(_WORDS),
        "integer": lambda: rng.randrange(-99, 100),
        "boolean": lambda: rng.random() < 0.5,
        "array": lambda: [rng.choice(_WORDS) for _ in range(rng.randrange(3))],
        "object": lambda: {rng.choice("ab"): rng.choice(_WORDS)},
    }
    if layout.calls is not None and layout.calls.values in ("delimited", "xml"):  # no keys that a schema does not name
        del kinds["object"]
    types = {f"key_{index}": rng.choice(list(kinds)) for index in range(rng.randint(0, 3))}
    types.update(number="integer", word="string")
    items = {"items": {"type": "string"}}
    properties = {
        key: {"type": kind, "description": "A value.", **(items if kind == "array" else {})}
        for key, kind in types.items()
    }
    parameters = {
        "type": "object", "properties": properties, "required": list(types), "additionalProperties": False,
    }  # fmt: skip
    function = {"name": "some_tool", "description": "A tool.", "parameters": parameters}
    return {"type": "function", "function": function}, lambda: ToolCall(
        "some_tool", {key: kinds[kind]() for key, kind in types.items()}
    )


def _refuse(reason: str) -> None:
    raise ValueError(reason)
