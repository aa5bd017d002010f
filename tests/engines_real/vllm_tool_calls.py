"""Read tool calls that vLLM writes through our backend by vLLM's own tool parsers and by our layouts.

    python3.11 dev.py run vllm -m tests.engines_real.vllm_tool_calls --model FOLDER --requests 500 OUTPUT

FOLDER is a model as `vllm_models.py` makes them. For each `tool_choice` there are as many requests as `--requests`
says, shared by the layouts. Tools are strict, not strict, or do not say. `--all-parsers` asks no model: it says for
every tool parser of the release what becomes of each way to ask for a tool, by `strict`, `tool_choice` and
`parallel_tool_calls`, and whether a call that writes numbers beyond a double wherever it may reaches clients as
`Infinity`.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
from collections import Counter
from contextlib import suppress
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from formatter_core.errors import FormatterError

#: vLLM's parsers, and the layouts that write what they read.
PARSERS = {"hermes": "hermes", "qwen3_coder": "qwen3-coder", "llama3_json": "llama3-json"}
#: Beginnings of calls that do not begin with a marker of their own.
BEGINS = {"llama3_json": '{"name": "tool_0", "parameters": '}
CHOICES = ("auto", "required", "named", "strict")
VALUES: list[dict[str, Any]] = [
    {"type": "string", "maxLength": 12},
    {"type": "integer", "minimum": -99, "maximum": 9999},
    {"type": "boolean"},
    {"enum": ["red", "</tool_call>", "été 日本"]},
    {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "maxItems": 3},
    {"type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"], "additionalProperties": False},
]


def tool_of(rng: random.Random, name: str, layout: str) -> dict[str, Any]:
    """Draw a tool whose arguments can be written in every layout."""
    values = [value for value in VALUES if layout != "qwen3-coder" or "enum" not in value]
    properties = {f"key_{index}": rng.choice(values) for index in range(rng.randint(1, 3))}
    required = [key for key in properties if rng.random() < 0.7]
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def requests_of(choice: str, parser: str, count: int) -> list[dict[str, Any]]:
    """Draw chat requests with this way to choose tools."""
    rng = random.Random(f"{choice} {parser}")
    made = []
    for _ in range(count):
        tools = [tool_of(rng, f"tool_{index}", PARSERS[parser]) for index in range(rng.randint(1, 3))]
        chosen: Any = {"named": {"type": "function", "function": {"name": tools[-1]["function"]["name"]}}}.get(
            choice, "required" if choice == "strict" else choice
        )
        for tool in tools:
            how = True if choice == "strict" else rng.choice([True, True, False, None])
            if how is not None:
                tool["function"]["strict"] = how
        messages = [{"role": "user", "content": "".join(rng.choices("abcdefghij ", k=12))}]
        made.append({"messages": messages, "tools": tools, "tool_choice": chosen, "temperature": 1.0,
                     "parallel_tool_calls": rng.random() < 0.5})  # fmt: skip
    return made


def judged(llm: Any, parser_name: str, choice: str, count: int) -> tuple[Counter[str], list[Any]]:
    """Count the outcomes of requests, with examples that vLLM's parser reads differently from us."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser.parser_manager import ParserManager

    tokenizer = llm.get_tokenizer()
    kind = ParserManager.get_parser(tool_parser_name=parser_name, enable_auto_tools=True, tokenizer=tokenizer)
    begins = tokenizer.encode(BEGINS.get(parser_name, "<tool_call>"), add_special_tokens=False)
    prompts: list[str] = []
    parameters: list[Any] = []
    asked: list[tuple[dict[str, Any], Any, Any]] = []
    for data in requests_of(choice, parser_name, count):
        request = ChatCompletionRequest(model="small", **data)
        parser = kind(tokenizer, request.tools)
        request = parser.adjust_request(request)
        sampling = request.to_sampling_params(200, {})
        if choice == "auto" and len(asked) % 5:  # a random model calls hardly ever
            sampling.extra_args = {**(sampling.extra_args or {}), "begins": begins}
        prompts.append(data["messages"][0]["content"])
        parameters.append(sampling)
        asked.append((data, request, parser))
    counts: Counter[str] = Counter()
    differences: list[Any] = []
    for (data, request, parser), output in zip(asked, llm.generate(prompts, parameters, use_tqdm=False), strict=True):
        one = output.outputs[0]
        outcome, detail = compared(parser_name, data, request, parser, one)
        counts[outcome] += 1
        if detail is not None and len(differences) < 10:
            differences.append(detail)
    return counts, differences


def pushing_processor() -> type:
    """Make a logits processor that lets an output begin with the tokens that its request names, if they are allowed."""
    from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

    class PushingLogitsProcessor(AdapterLogitsProcessor):  # type: ignore[misc]
        def is_argmax_invariant(self) -> bool:
            return False

        def new_req_logits_processor(self, params: Any) -> Any:
            begins = (params.extra_args or {}).get("begins", [])

            def push(output_ids: list[int], logits: Any) -> Any:
                count = len(output_ids)
                if count < len(begins) and output_ids == begins[:count]:
                    logits[begins[count]] += 50.0
                return logits

            return push if begins else None

    return PushingLogitsProcessor


def compared(parser_name: str, data: dict[str, Any], request: Any, parser: Any, output: Any) -> tuple[str, Any]:
    """Return the outcome of one request, and the facts if vLLM's parser reads it differently from our layout."""
    from formatter_core import formats, parse
    from formatter_core.errors import InvalidValue

    if output.finish_reason != "stop":
        return output.finish_reason, None
    choice = data["tool_choice"]
    named = choice["function"]["name"] if isinstance(choice, dict) else choice
    functions = [tool["function"] for tool in data["tools"]]
    is_strict = [function.get("strict") is True for function in functions]
    if request.structured_outputs is None:
        return "left free by vLLM", None  # `auto`, and no tool is strict
    if parser_name == "qwen3_coder" and not all(is_strict):
        return compared_by_names(data, request, parser, output)
    kept = [one if strict else {"name": one["name"]} for one, strict in zip(functions, is_strict, strict=True)]
    format = formats.chat_answer(
        PARSERS[parser_name], tools=[{"type": "function", "function": one} for one in kept], tool_choice=named,
        parallel=data["parallel_tool_calls"], reasoning="off",
    )  # fmt: skip
    ours = parse(format, output.text)
    _, content, calls = parser.parse(
        output.text, request, enable_auto_tools=True, model_output_token_ids=list(output.token_ids)
    )
    theirs = [(call.name, json.loads(call.arguments)) for call in calls or ()]
    facts = {"text": output.text, "choice": choice, "theirs": theirs, "content": content}
    if not ours.is_complete:
        return "not in the layout", {**facts, "missing": ours.missing}
    try:
        expected = [(call.name, call.arguments) for call in ours.value.tool_calls]
    except InvalidValue:
        return "a number that is none in Python", None
    if json.dumps(theirs, sort_keys=True) != json.dumps(expected, sort_keys=True, default=float):
        return "read otherwise", {**facts, "ours": repr(expected)}
    return f"the same {'calls' if expected else 'text'}", None


def compared_by_names(data: dict[str, Any], request: Any, parser: Any, output: Any) -> tuple[str, Any]:
    """Compare the names of tools and arguments, in the notation of qwen3_coder, if arguments are free."""
    expected = []
    for name, arguments in re.findall(r"<tool_call>\n<function=([^>]*)>\n(.*?)\n?</function>", output.text, re.DOTALL):
        expected.append((name, re.findall(r"<parameter=([^>]*)>", arguments)))
    _, content, calls = parser.parse(
        output.text, request, enable_auto_tools=True, model_output_token_ids=list(output.token_ids)
    )
    theirs = [(call.name, [*json.loads(call.arguments)]) for call in calls or ()]
    if [(name, sorted({*keys})) for name, keys in expected] != [(name, sorted(keys)) for name, keys in theirs]:
        return "read otherwise", {"text": output.text, "theirs": theirs, "content": content, "ours": repr(expected)}
    return f"the same {'names' if expected else 'text'}", None


class _Marked(dict):  # type: ignore[type-arg]
    """Give every text a token id, so that the parser of any model can be made."""

    def __missing__(self, text: str) -> int:
        return hash(text) % len(self)

    def __contains__(self, text: object) -> bool:
        return True

    def get(self, text: str, default: Any = None) -> int:
        return int(self[text])


#: Numbers that clients of JSON cannot read.
NOT_FINITE = (b"1e999", b"-1E+400", b"9" * 400, b"Infinity", b"-inf", b"nan")


def with_large_numbers(compiled: Any, rng: random.Random, max_tokens: int = 600) -> str:
    """Write a text of a format for bytes, with a number beyond a double wherever a value may be one."""
    state = compiled.formatter(max_tokens=max_tokens)
    while True:
        for number in rng.sample(NOT_FINITE, 2):
            fork = state.fork()
            behind = fork.allowed_tokens() if fork.accept_tokens([*number]) == len(number) else ()
            if not {*b"0aA"} >= {*behind} and {*behind} & {*b",}]<\n "} and rng.random() < 0.7:
                state = fork
                break
        allowed = state.allowed_tokens()
        if state.can_stop and (rng.random() < 0.5 or {*allowed} <= {*state.end_ids}):
            return bytes(state.bytes).decode("utf-8", "replace")
        letters = [one for one in allowed if one < 256 and one in b'<>{}[]:,"/= \nabpt01']
        state.accept_token(rng.choice(letters or [one for one in allowed if one not in state.end_ids]))


def is_finite(arguments: str) -> bool:
    """Tell whether every client of JSON can read the numbers in the arguments of a call."""
    found: list[str] = []
    numbers: list[float] = []

    def number(text: str) -> float:
        numbers.append(float(text))
        return numbers[-1]

    with suppress(json.JSONDecodeError):  # of a call that was cut
        json.loads(arguments, parse_constant=found.append, parse_float=number, parse_int=number)
    return not found and all(map(math.isfinite, numbers))


def all_parsers(tokenizer: Any) -> dict[str, dict[str, int]]:
    """Count what becomes of the 18 ways to ask for a tool, for every tool parser that vLLM has."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser.parser_manager import ParserManager
    from vllm.tool_parsers import ToolParserManager

    from formatter_core import Compiler, Vocabulary
    from formatter_vllm import _compat_structured_outputs as compat
    from formatter_vllm.compilers import check_content
    from formatter_vllm.requests import content_of_structured_outputs, read_format

    known = _Marked(tokenizer.get_vocab())
    kind = type(tokenizer)
    marked = type("MarkedTokenizer", (kind,), {"get_vocab": lambda self: known, "vocab": property(lambda self: known)})
    tokenizer.__class__ = marked
    config = SimpleNamespace(backend="auto", reasoning_parser="")
    tools = [tool_of(random.Random(0), name, "qwen3-coder") for name in ("tool_0", "tool_1")]
    for tool in tools:
        tool["function"]["parameters"]["properties"] |= {"amount": {"type": "number"}, "list": {"type": "array"}}
    compiler, rng = Compiler(Vocabulary.of_bytes()), random.Random(0)
    read: Counter[str] = Counter()
    found: dict[str, dict[str, int]] = {}
    for name in ToolParserManager.list_registered():
        outcomes: Counter[str] = Counter()
        for strict, choice, parallel in product((None, False, True), ("auto", "required", "named"), (True, False)):
            asked = json.loads(json.dumps(tools))
            if strict is not None:
                asked[0]["function"]["strict"] = strict
            chosen = {"type": "function", "function": {"name": "tool_0"}} if choice == "named" else choice
            data = {"messages": [{"role": "user", "content": "x"}], "tools": asked, "tool_choice": chosen,
                    "parallel_tool_calls": parallel}  # fmt: skip
            try:
                parser = ParserManager.get_parser(tool_parser_name=name, enable_auto_tools=True)
                assert parser is not None
                request = ChatCompletionRequest(model="small", **data)
                reader = parser(tokenizer, request.tools)
                request = reader.adjust_request(request)
                sampling = request.to_sampling_params(50, {})
            except Exception as error:  # noqa: BLE001 - whatever vLLM itself raises
                outcomes[f"vLLM: {type(error).__name__}: {error}"[:160]] += 1
                continue
            wanted = compat.structured_outputs_of(config, sampling)
            try:
                if wanted is None:
                    outcomes["free"] += 1
                    continue
                content = content_of_structured_outputs(*wanted)
                check_content(content)
                outcomes["enforced"] += 1
            except FormatterError as error:
                outcomes[f"refused: {error}"[:300]] += 1
                continue
            try:
                text = with_large_numbers(compiler.compile(read_format(content)), rng)
            except FormatterError as error:  # it names special tokens, of which this vocabulary has none
                read[f"{name}: not written: {type(error).__name__}"] += 1
                continue
            try:
                ids = tokenizer.encode(text, add_special_tokens=False)
                _, _, calls = reader.parse(text, request, enable_auto_tools=True, model_output_token_ids=ids)
            except Exception as error:  # noqa: BLE001 - by this tokenizer
                read[f"{name}: not read: {type(error).__name__}"] += 1
                continue
            given = [call.arguments for call in calls or ()]
            if not all(map(is_finite, given)):
                outcomes[f"not finite: {text!r}: {given}"[:500]] += 1
            read[
                f"{name}: {'no calls' if not given else 'finite' if all(map(is_finite, given)) else 'NOT FINITE'}"
            ] += 1
        found[name] = dict(outcomes)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="a JSON file for the outcomes")
    parser.add_argument("--model", required=True)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--all-parsers", action="store_true")
    options = parser.parse_args()
    # The logits processor that makes outputs begin with calls is no module's, so no other process can import it.
    os.environ |= {"FORMATTER_VLLM_STRUCTURED_OUTPUTS": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    from vllm import LLM

    from formatter_vllm.structured_outputs import register

    register()
    if options.all_parsers:
        from transformers import AutoTokenizer

        found: dict[str, Any] = all_parsers(AutoTokenizer.from_pretrained(options.model))
    else:
        llm = LLM(
            model=options.model,
            dtype="float32",
            enforce_eager=True,
            max_model_len=512,
            max_num_seqs=32,
            logits_processors=[pushing_processor()],
        )
        found = {"counts": {}, "differences": {}}
        for choice, (index, name) in product(CHOICES, enumerate(PARSERS)):
            counts, some = judged(llm, name, choice, (options.requests + index) // len(PARSERS))
            found["counts"][f"{choice} {name}"] = dict(counts)
            found["differences"] |= {f"{choice} {name}": some} if some else {}
    options.output.write_text(json.dumps(found, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
