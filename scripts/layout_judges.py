"""Wrap other projects' parsers for the layouts of chat models, each as a function of a text and its tools."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from formatter_core import Layout

__all__ = ["TEMPLATES", "Incomparable", "Judge", "Reading", "judges_of", "module_of", "templates_of"]


def _hide_broken_packages() -> None:
    """Hide companions of torch that were built for another torch, and let vLLM's repack be found by its name."""
    for name in ("torchvision", "torchaudio", "torchcodec"):
        if name not in sys.modules:
            try:
                importlib.import_module(name)
            except Exception:  # noqa: BLE001 - however it fails, it is of no use
                sys.modules[name] = None  # type: ignore[assignment]
    try:
        version("vllm")
    except PackageNotFoundError:
        sys.path.append(str(Path(__file__).resolve().parents[1] / "tests/engines_real/vllm_site/repack"))


if importlib.util.find_spec("vllm") is not None:
    _hide_broken_packages()  # before anything imports transformers, which asks once what there is


class Reading(NamedTuple):
    """Hold what a judge found in a text: the names and arguments of calls, and the reasoning if it reads that too."""

    calls: list[tuple[str, Any]]
    reasoning: str | None = None


class Incomparable(Exception):
    """Say that a judge cannot be asked about a text: it refuses the tools, or its prompt does not lead to the text."""


#: Text, tools, and whether the turn was asked to reason.
Judge = Callable[[str, "list[Any]", bool], Reading]

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
#: Ends of turns, for layouts whose readers look for them.
ENDS = {"llama3-json": "<|eot_id|>", "harmony": "<|call|>", "gemma4": "<turn|>"}
#: Who reads each layout: vLLM's parsers of tool calls and of reasoning, the module of mlx-lm, and the chat template in
#: llama.cpp. A dash: none.
READERS = """
layout             vLLM:calls      vLLM:reasoning  mlx-lm      llama.cpp
hermes             hermes          -               json_tools  Qwen-Qwen2.5-7B-Instruct
qwen3              hermes          qwen3           json_tools  Qwen-Qwen3-0.6B
qwen3-coder        qwen3_coder     -               qwen3_coder Qwen3-Coder
qwen3.5            qwen3_coder     qwen3           qwen3_coder Qwen3.5-4B
nemotron-3         qwen3_coder     nemotron_v3     -           NVIDIA-Nemotron-3-Nano-30B-A3B-BF16
llama3-json        llama3_json     -               -           meta-llama-Llama-3.1-8B-Instruct
llama4-pythonic    llama4_pythonic -               pythonic    -
mistral-v11        mistral         mistral         mistral     mistralai-Ministral-3-14B-Reasoning-2512
deepseek-v3        deepseek_v3     -               -           -
deepseek-r1        deepseek_v3     deepseek_r1     -           llama-cpp-deepseek-r1
deepseek-v3.1      deepseek_v31    deepseek_r1     -           deepseek-ai-DeepSeek-V3.1
deepseek-v3.2      deepseek_v32    deepseek_v3     -           deepseek-ai-DeepSeek-V3.2
harmony            openai          openai_gptoss   -           openai-gpt-oss-120b
kimi-k2            kimi_k2         kimi_k2         kimi_k2     Kimi-K2-Instruct
glm-4.5            glm45           glm45           glm47       GLM-4.6
minimax-m2         minimax_m2      minimax_m2      minimax_m2  MiniMax-M2
gemma4             gemma4          gemma4          gemma4      google-gemma-4-31B-it
nemotron-3-ultra   qwen3_coder     nemotron_v3     -           -
glm-4.7            glm47           glm47           glm47       GLM-4.7-Flash
deepseek-v4        deepseek_v4     deepseek_v4     -           deepseek-ai-DeepSeek-V4
seed-oss           seed_oss        seed_oss        -           ByteDance-Seed-OSS
deepseek-v4.1      deepseek_v41    deepseek_v41    -           -
minimax-m3         minimax_m3      minimax_m3      -           MiniMax-M3
mistral-small-3.2  mistral         mistral         -           Mistral-Small-3.2-24B-Instruct-2506
mistral-nemo       mistral         -               -           mistralai-Mistral-Nemo-Instruct-2407
lfm2               lfm2            -               -           LFM2-8B-A1B
lfm2.5             lfm2            -               -           LFM2.5-8B-A1B
granite-3          granite         -               -           -
granite-3.1        granite         -               -           -
kimi-k3            kimi_k3         kimi_k3         kimi_k3     Kimi-K3
step-3.5           step3p5         step3p5         -           StepFun3.5-Flash
ling-3             ling3           ling3           -           inclusionai-ling-3.0-flash
olmo-3             olmo3           -               -           -
internlm2          internlm        -               -           -
phi-4-mini         phi4_mini_json  -               -           -
hunyuan-a13b       hunyuan_a13b    -               -           -
hy3                hy_v3           hy_v3           -           tencent-Hy3
apertus            apertus         -               -           Apertus-8B-Instruct
gigachat-3         gigachat3       -               -           GigaChat3-10B-A1.8B
gigachat-3.1       gigachat3       -               -           GigaChat3.1-10B-A1.8B
minicpm5           minicpm5        -               -           openbmb-MiniCPM5-1B
exaone-4           hermes          -               -           -
command-r7b        cohere_command3 cohere_command3 -           CohereForAI-c4ai-command-r7b-12-2024-tool_use
cohere2-moe        cohere_command4 cohere_command4 -           Cohere2MoE
gemma4-interleaved gemma4          gemma4          -           google-gemma-4-31B-it-interleaved
reka-edge          hermes          qwen3           -           Reka-Edge
granite-3.2        granite         granite         -           -
granite-3.3        granite         -               -           -
step-3             step3           step3           -           -
apriel             -               -               -           Apriel-1.6-15b-Thinker-fixed
nemotron-nano-v2   -               -               -           NVIDIA-Nemotron-Nano-v2
"""
_ROWS = [line.split() for line in READERS.strip().splitlines()[1:]]
PARSERS = {
    layout: (calls, None if thoughts == "-" else thoughts) for layout, calls, thoughts, *_ in _ROWS if calls != "-"
}
MODULES = {layout: module for layout, _, _, module, _ in _ROWS if module != "-"}
LLAMA_CPP = {layout: template for layout, *_, template in _ROWS if template != "-"}
#: Layouts whose reasoning is always opened by the prompt, so that vLLM's parser takes the opening for a part of it.
OPENED = ("step-3",)


def judges_of(layout: Layout, trl: Path | None, mlx: Path | None, llama_cpp: Path | None = None) -> dict[str, Judge]:
    """Return the judges that are there, by name; the folders are unpacked packages."""
    found = {
        "transformers": trl and _transformers(trl, layout.name),
        "mlx-lm": mlx and _mlx(mlx, layout.name),
        "vLLM": _vllm(layout),
        "llama.cpp": llama_cpp and _llama_cpp(layout, llama_cpp),
    }
    return {name: judge for name, judge in found.items() if judge}


def _transformers(trl: Path, layout: str) -> Judge | None:
    """Judge by transformers' `parse_response` with the template that TRL has for the layout."""
    if layout not in TEMPLATES or importlib.util.find_spec("transformers.utils.chat_parsing") is None:
        return None
    from transformers.utils.chat_parsing.response_parser import parse_response

    name, prefix = TEMPLATES[layout]
    template = templates_of(trl)[name]

    def judge(text: str, tools: list[Any], reasons: bool) -> Reading:
        message = parse_response(text + ENDS.get(layout, "<|im_end|>"), template, prefix=prefix, tools=tools)
        functions = [call["function"] for call in message.get("tool_calls") or []]
        return Reading([(function["name"], function["arguments"]) for function in functions])

    return judge


def templates_of(trl: Path) -> dict[str, Any]:
    """Read the response templates of TRL; the module itself imports more than is needed here."""
    path = trl / "trl" / "chat_template_utils.py"
    names: dict[str, Any] = {"_SUPPORTS_PARSE_RESPONSE_TOOLS": True}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Name) and re.search(r"([345]|moe|oss)_template$|^_XML|^_LFM2", target.id):
            exec(compile(ast.Module([node], []), str(path), "exec"), names)
    return names


def module_of(path: Path) -> Any:
    """Import a file of an unpacked wheel by itself."""
    specification = importlib.util.spec_from_file_location(path.stem, path)
    if specification is None or specification.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def _mlx(mlx: Path, layout: str) -> Judge | None:
    """Judge by mlx-lm's parser, which gets the text between its two markers."""
    if layout not in MODULES:
        return None
    module = module_of(mlx / "mlx_lm" / "tool_parsers" / f"{MODULES[layout]}.py")

    def judge(text: str, tools: list[Any], reasons: bool) -> Reading:
        found: list[tuple[str, Any]] = []
        if layout == "llama4-pythonic":  # its markers are those of another model
            pieces = [text] if text.startswith("[") else []
        else:
            pieces = text.split(module.tool_call_start)[1:]
        for piece in pieces:
            body = piece.split(module.tool_call_end)[0] if module.tool_call_end else piece
            calls = module.parse_tool_call(body, tools)
            found += [(call["name"], call["arguments"]) for call in (calls if isinstance(calls, list) else [calls])]
        return Reading(found)

    return judge


def _llama_cpp(layout: Layout, folder: Path) -> Judge | None:
    """Judge by llama.cpp's parser, made for a chat template and tools; `build_llama_chat_parser.py` builds it.

    It reads required arguments only before the others and in the schema's order; here its tools require none.
    """
    program = folder / "llama_chat_parser"
    if layout.name not in LLAMA_CPP or not program.exists():
        return None
    template = folder / "vendor" / "llama.cpp" / "models" / "templates" / f"{LLAMA_CPP[layout.name]}.jinja"
    process = subprocess.Popen([program, template], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(tools: list[Any], reasons: bool, **more: str) -> dict[str, Any]:
        if process.stdin is None or process.stdout is None:
            raise ValueError("a process without pipes")
        messages = [{"role": "user", "content": "Question."}]
        request = {"messages": messages, "tools": _without_required(tools), "thinking": reasons, **more}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        answer: dict[str, Any] = json.loads(process.stdout.readline())
        if "refused" in answer:
            raise Incomparable(answer["refused"])
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer

    prompts: dict[bool, str] = {}
    last: list[Any] = []  # for one list of tools, the judge is asked about several answers

    def judge(text: str, tools: list[Any], reasons: bool) -> Reading:
        if last != [tools]:
            last[:] = [tools]
            prompts.clear()
        if reasons not in prompts:
            prompts[reasons] = ask(tools, reasons)["prompt"]
        prompt = prompts[reasons]
        if layout.opens_reasoning(prompt):
            opening = layout.reasoning.open if layout.reasoning else ""
            begun = next((at for at in range(len(opening), 0, -1) if prompt.endswith(opening[:at])), 0)
            if not text.startswith(opening):
                raise Incomparable("the prompt opens the reasoning")
            text = text[begun:]
        elif layout.closes_reasoning(prompt) and reasons:
            raise Incomparable("the prompt ends the reasoning")
        found = ask(tools, reasons, text=layout.missing_blanks(prompt) + text)
        thought = found["reasoning"]
        if layout.reasoning is not None:  # some are shown with what the prompt has written of them
            thought = thought.removeprefix(layout.reasoning.open)
        return Reading([(name, json.loads(arguments)) for name, arguments in found["calls"]], thought)

    return judge


def _without_required(data: Any) -> Any:
    if isinstance(data, list):
        return [_without_required(each) for each in data]
    if not isinstance(data, dict):
        return data
    kept = {key: value for key, value in data.items() if not (key == "required" and isinstance(value, list))}
    return {key: _without_required(value) for key, value in kept.items()}


def _vllm(layout: Layout) -> Judge | None:
    """Judge by vLLM's parsers of reasoning and tool calls, put together as its server does."""
    if layout.name not in PARSERS or importlib.util.find_spec("vllm") is None:
        return None
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser.parser_manager import ParserManager

    calls, reasoning = PARSERS[layout.name]
    is_harmony = layout.name == "harmony"
    get_parser = partial(ParserManager.get_parser, enable_auto_tools=True, is_harmony=is_harmony)
    with_reasoning = get_parser(calls, reasoning)
    without = with_reasoning if is_harmony else get_parser(calls)
    tokenizer: Any = _Harmony() if is_harmony else _Tokenizer(layout)

    def judge(text: str, tools: list[Any], reasons: bool) -> Reading:
        options = {"enable_thinking": reasons, "thinking": reasons}  # as the chat template would be rendered
        if layout.name in OPENED and layout.reasoning is not None:
            text = text.removeprefix(layout.reasoning.open)
        message = [{"role": "user", "content": "Question."}]
        request = ChatCompletionRequest(messages=message, tools=tools, chat_template_kwargs=options)
        parser = (with_reasoning if reasons else without)(tokenizer, request.tools, chat_template_kwargs=options)
        ids = tokenizer.encode(text + (ENDS["harmony"] if is_harmony else ""))
        thoughts, _, found = parser.parse(text, request, enable_auto_tools=True, model_output_token_ids=ids)
        return Reading([(call.name, json.loads(call.arguments)) for call in found or []], thoughts)

    return judge


class _Tokenizer:
    """Tokenize into bytes and the special tokens that the parsers look up."""

    def __init__(self, layout: Layout) -> None:
        others = ("<think>", "</think>", "<tool_call>", "</tool_call>", "[THINK]", "[/THINK]", "<|python_tag|>")
        self.all_special_tokens = list(dict.fromkeys((*layout.markers, *others)))
        self.init_kwargs = {"token_suffix": ":opensource"} if layout.name == "hy3" else {}  # as its checkpoint says
        self._ids = {chr(byte): byte for byte in range(256)}
        self._ids.update((name, 256 + index) for index, name in enumerate(self.all_special_tokens))
        self._names = {token_id: name for name, token_id in self._ids.items()}
        self._marker = re.compile(f"({'|'.join(map(re.escape, self.all_special_tokens))})")

    def get_vocab(self) -> dict[str, int]:
        return self._ids

    def convert_tokens_to_ids(self, name: str) -> int | None:
        return self._ids.get(name)

    def encode(self, text: str, **options: Any) -> list[int]:
        ids: list[int] = []
        for piece in self._marker.split(text):
            ids += [self._ids[piece]] if piece in self.all_special_tokens else piece.encode()
        return ids

    def decode(self, ids: list[int]) -> str:
        data = b"".join(bytes([each]) if each < 256 else self._names[each].encode() for each in ids)
        return data.decode("utf-8", "replace")


class _Harmony:
    """Wrap gpt-oss's tokenizer, which its parser asks for by itself."""

    def __init__(self) -> None:
        harmony: ModuleType = importlib.import_module("vllm.entrypoints.openai.parser.harmony_utils")
        self._encoding = harmony.get_encoding()

    def get_vocab(self) -> dict[str, int]:
        return {}

    def encode(self, text: str) -> list[int]:
        return list(self._encoding.encode(text, allowed_special="all"))

    def decode(self, ids: list[int]) -> str:
        return str(self._encoding.decode(ids))
