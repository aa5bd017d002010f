"""Tool calls in vLLM's own fields: a grammar of ours where vLLM's parsers ask for a structural tag, or refuse."""

from __future__ import annotations

import json
import types
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pytest

pytest.importorskip("torch", reason="the vLLM adapter needs torch")

from formatter_core import Layout
from formatter_vllm.requests import content_of_structured_outputs, read_format
from tests.adapters.vllm_stand_ins import patchable, vllm_of

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

PARAMETERS = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TAG = '{"type": "structural_tag"}'


@dataclass
class Outputs:
    grammar: str | None = None
    structural_tag: str | None = None


class Refused(ValueError):
    def __init__(self, message: str, parameter: str = "tools") -> None:
        super().__init__(message)
        self.parameter = parameter


class Parser:
    """vLLM's `DelegatingParser`, as far as it is needed here."""

    tool_strict_level = 0

    def __init__(self, model: str) -> None:
        self.tool_parser = types.SimpleNamespace(structural_tag_model=model)

    def _apply_structural_tag(self, request: Any) -> Any:
        request.structured_outputs = Outputs(structural_tag=TAG)
        return request


class DescribedParser:
    def __init__(self, tokenizer: Any) -> None:
        self.model_tokenizer = tokenizer

    def adjust_request(self, request: Any) -> Any:
        if request.tool_choice == "required":
            raise Refused("cannot guarantee required tool choice", "tool_choice")
        if request.tool_choice == "broken":
            raise Refused("the messages are empty", "messages")
        return request


def request_of(choice: Any = "required", *, strict: bool = True, format: Any = None, parallel: bool = True) -> Any:
    function = types.SimpleNamespace(name="count", parameters=PARAMETERS, strict=strict)
    tools = [types.SimpleNamespace(type="function", function=function)]
    return types.SimpleNamespace(
        tools=tools, tool_choice=choice, parallel_tool_calls=parallel, structured_outputs=format,
        response_format=None, extract_structured_outputs=lambda: format,
    )  # fmt: skip


@pytest.fixture
def patched():
    """Put the classes above into vLLM's modules, and wrap them twice, as plugins are loaded."""
    kinds, described = patchable(Parser), patchable(DescribedParser)
    contents = {
        "vllm.exceptions": {"VLLMValidationError": Refused},
        "vllm.parser.abstract_parser": {"DelegatingParser": kinds},
        "vllm.parser.response_template": {"ResponseTemplateParser": described},
        "vllm.sampling_params": {"StructuredOutputsParams": Outputs},
    }
    with vllm_of("0.31", contents):
        tools = import_module("formatter_vllm.tools")
        tools.install()
        tools.install()
        yield kinds, described


def accepts(outputs: Outputs, text: str) -> bool:
    from formatter_core import parse

    return parse(read_format(content_of_structured_outputs("GRAMMAR", outputs.grammar or "")), text).is_complete


def call(name: str = "count", **arguments: Any) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


def test_a_structural_tag_becomes_the_grammar_of_a_layout(patched) -> None:
    made = patched[0]("hermes")._apply_structural_tag(request_of()).structured_outputs
    assert made.structural_tag is None
    assert accepts(made, call(n=1))
    assert accepts(made, call(n=1) + "\n" + call(n=2))
    assert not accepts(made, call(n="x"))
    assert not accepts(made, "Hi")


@pytest.mark.parametrize(
    ("choice", "texts"),
    [
        ("auto", ["Hi", call(n=1)]),
        (types.SimpleNamespace(function=types.SimpleNamespace(name="count")), [call(n=1)]),
    ],
)
def test_choices(patched, choice, texts) -> None:
    made = patched[0]("hermes")._apply_structural_tag(request_of(choice, parallel=False)).structured_outputs
    assert all(accepts(made, text) for text in texts)
    assert not accepts(made, call(n=1) + "\n" + call(n=2))


def test_tools_that_are_not_strict_keep_only_the_envelope(patched) -> None:
    made = patched[0]("hermes")._apply_structural_tag(request_of(strict=False)).structured_outputs
    assert accepts(made, call(n="x"))
    made = patched[0]("qwen_3_coder")._apply_structural_tag(request_of(strict=False)).structured_outputs
    assert made == Outputs(structural_tag=TAG)  # that layout has no place for arguments without names


@pytest.mark.parametrize(
    ("own", "default", "is_strict"),
    [(None, 0, False), (None, 2, True), (0, None, False), (2, None, True), (1, 0, False)],
)
def test_the_server_may_make_all_tools_strict(patched, own, default, is_strict) -> None:
    """From 0.33 on the level is not set unless an operator sets it, and each tool parser has a default."""
    parser = patched[0]("hermes")
    parser.tool_strict_level, parser.tool_parser.default_tool_strict_level = own, default
    made = parser._apply_structural_tag(request_of(strict=False)).structured_outputs
    assert accepts(made, call(n="x")) is not is_strict


def test_what_stays_as_vllm_makes_it(patched) -> None:
    for parser, request in (
        ("mimo", request_of()),
        ("hermes", request_of("auto", format=Outputs(grammar="root ::= 'a'"))),
        ("hermes", request_of(types.SimpleNamespace(mode="auto"))),
    ):
        made = patched[0](parser)._apply_structural_tag(request).structured_outputs
        assert made == Outputs(structural_tag=TAG)


def test_a_tool_that_cannot_be_used_is_refused(patched) -> None:
    request = request_of()
    request.tools[0].function.name = "a b"
    with pytest.raises(Refused, match="a b"):
        patched[0]("hermes")._apply_structural_tag(request)


def test_a_checkpoint_that_describes_its_turns(patched, monkeypatch) -> None:
    monkeypatch.setattr(Layout, "from_tokenizer", staticmethod(Layout.named))
    parser = patched[1]("hermes")
    assert accepts(parser.adjust_request(request_of()).structured_outputs, call(n=1))
    assert parser.adjust_request(request_of("auto")).structured_outputs is None
    with pytest.raises(Refused, match="messages"):
        parser.adjust_request(request_of("broken"))
    with pytest.raises(Refused, match="required"):  # no layout: as vLLM has it
        patched[1]("no such layout").adjust_request(request_of())
