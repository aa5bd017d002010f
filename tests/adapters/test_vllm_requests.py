"""Requests for vLLM are checked, their answers are read, and vLLM finds and loads the hook."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import types
from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the vLLM adapter needs torch")
pytest.importorskip("tokenizers", reason="makes a tokenizer")

from formatter_core import Compiler, FormatterBuilder, Vocabulary, formats, parse  # noqa: E402
from formatter_core.errors import IncompleteResult, InvalidArgument, InvalidFormat, UnsupportedEngineVersion  # noqa: E402
from formatter_vllm import result, results  # noqa: E402
from tests.adapters.vllm_engines import ENDS, NUMBER, WORD, engine_of, mixed  # noqa: E402
from tests.adapters.vllm_stand_ins import BatchUpdate, parameters_of  # noqa: E402
from tests.schemas import closed  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

SCHEMA = closed({"a": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"enum": ["é", True, None]}})


OBJECT = {"type": "object", "properties": {"a": {"enum": ["x"]}, "b": {"type": "null"}}, "required": ["a", "b"]}
#: An option of JSON, and a document of OBJECT that it allows or forbids, unlike the default.
OPTIONS_OF_JSON = [
    ("spelling", "any", '{"a": "\\u0078", "b": null}', True),
    ("whitespace", "compact", '{"a": "x", "b": null}', False),
    ("key_order", "any", '{"b": null, "a": "x"}', True),
]


@pytest.mark.usefixtures("new_vllm")
@pytest.mark.parametrize(("option", "value", "document", "is_allowed"), OPTIONS_OF_JSON)
class TestOptionsOfJson:
    """By the same name wherever a format is asked for."""

    def test_in_the_requests_own_arguments(self, option, value, document, is_allowed) -> None:
        from formatter_vllm.requests import read_format

        for given, expected in (({}, not is_allowed), ({option: value}, is_allowed)):
            format = read_format(json.dumps({"json_schema": OBJECT, **given}))
            assert parse(format, document).is_complete is expected
        with pytest.raises(InvalidFormat, match=f"{option}. goes with json_schema"):
            read_format(json.dumps({"regex": "a", option: value}))
        with pytest.raises(InvalidArgument, match=r'give one of|give "flexible"'):
            read_format(json.dumps({"json_schema": OBJECT, option: "other"}))

    def test_of_vllms_own_fields(self, monkeypatch, option, value, document, is_allowed) -> None:
        from formatter_vllm.requests import content_of_structured_outputs, read_format
        from formatter_vllm.settings import VARIABLE

        monkeypatch.setenv(VARIABLE, json.dumps({option: value}))
        for kind, is_behind_reasoning in (("JSON", False), ("JSON", True)):
            content = content_of_structured_outputs(kind, json.dumps(OBJECT), is_behind_reasoning)
            assert parse(read_format(content), document).is_complete is is_allowed
        read_format(content_of_structured_outputs("CHOICE", '["a"]'))
        assert json.loads(content_of_structured_outputs("JSON_OBJECT", ""))[option] == value


class TestValidation:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"formatter": {"regex": "a("}}, "position 1"),
            ({"formatter": {"json_schema": {"type": "strin"}}}, "type"),
            ({"formatter": {"json_schema": {"properties": {"x": {"$ref": "#/nowhere"}}}}}, "/properties/x"),
            ({"formatter": {"json_schema": {"type": "integer", "minimum": 3, "maximum": 1}}}, "no document"),
            ({"formatter": {"kbnf": "start ::= other;"}}, "other"),
            ({"formatter": {"choice": []}}, "choice"),
            ({"formatter": {"choice": "abc"}}, "list"),
            ({"formatter": {"format": {"type": "nothing"}}}, "type"),
            ({"formatter": {"format": {"type": "json_schema", "schema": {}}}}, "json_schema"),
            ({"formatter": {}}, "exactly one"),
            ({"formater": {"regex": "a"}}, "did you mean 'formatter'"),
            ({"Formatter": {"regex": "a"}}, "did you mean 'formatter'"),
            ({"FORMATTER": {"regex": "a"}}, "did you mean 'formatter'"),
            ({"formatter_vllm": {"regex": "a"}}, "did you mean 'formatter'"),
            ({5: 6, "formatter-core": {"regex": "a"}}, "did you mean 'formatter'"),
            ({"formatter": {"ebnf": "root ::= other"}}, "other"),
            ({"formatter": {"structural_tag": {}}}, "missing"),
            ({"formatter": None}, "NoneType"),
            ({"formatter": "regex"}, "JSON text"),
            ({"formatter": "[" * 100_000}, "JSON text"),
            ({"formatter": {"regex": "[a-z]{10000000}"}}, "Limits.repeat"),
        ],
    )
    def test_a_fault_is_told_when_the_request_comes_in(self, new_vllm, arguments, message) -> None:
        from formatter_vllm import FormatterLogitsProcessor

        with pytest.raises(ValueError, match=re.escape(message)):
            FormatterLogitsProcessor.validate_params(parameters_of(arguments))

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"min_tokens": 3}, "min_tokens"),
            ({"structured_outputs": object()}, "structured_outputs"),
            ({"guided_decoding": object()}, "guided_decoding"),
            ({"thinking_token_budget": 5}, "thinking_token_budget"),
            ({"thinking_token_budget": 0}, "thinking_token_budget"),
            ({"trace_decode_token_ids": [1]}, "trace_decode_token_ids"),
        ],
    )
    def test_parameters_that_cannot_hold_together(self, new_vllm, parameters, message) -> None:
        from formatter_vllm import FormatterLogitsProcessor

        FormatterLogitsProcessor.validate_params(parameters_of(None, **parameters))
        with pytest.raises(ValueError, match=message):
            FormatterLogitsProcessor.validate_params(parameters_of({"formatter": {"regex": "a"}}, **parameters))

    @pytest.mark.parametrize("arguments", [None, {}, {"other": 1}])
    def test_requests_without_a_format_are_none_of_our_business(self, new_vllm, arguments) -> None:
        from formatter_vllm import FormatterLogitsProcessor

        FormatterLogitsProcessor.validate_params(parameters_of(arguments, min_tokens=2))

    def test_special_tokens_are_checked_where_the_tokenizer_is_known(self, new_vllm, tokenizer) -> None:
        from formatter_vllm import FormatterLogitsProcessor, create_extra_args

        call, text = tokenizer.token_to_id("<|call|>"), tokenizer.token_to_id("a")
        for token_id in (call, text):
            arguments = create_extra_args(formats.token(token_id))
            FormatterLogitsProcessor.validate_params(parameters_of(arguments))
        engine = engine_of(tokenizer)
        processor = engine.hook(engine.config, torch.device("cpu"), False)
        processor.validate_params(parameters_of(create_extra_args(formats.token(call))))
        with pytest.raises(ValueError, match="is text"):
            processor.validate_params(parameters_of(create_extra_args(formats.token(text))))


def card() -> FormatterBuilder:
    b = FormatterBuilder()
    return b.append("n=", b.integer(minimum=0, maximum=120, name="n"), "; ", b.regex("[ab]{1,6}", name="w"), ".")


@dataclass
class Point:
    a: int
    b: str


class TestRequests:
    @pytest.mark.parametrize("format", [formats.regex(NUMBER), SCHEMA, Point, card(), formats.choice(["a", "é"])])
    def test_whatever_compile_takes_goes_there_and_back(self, format) -> None:
        from formatter_vllm import create_extra_args
        from formatter_vllm.requests import content_of, read_format

        made = create_extra_args(format)
        assert all(isinstance(value, str) for value in made.values())
        for arguments in (made, json.loads(json.dumps(made))):
            plain = formats.from_json(formats.as_format(format).to_json(), type=Any)
            assert read_format(content_of(arguments)).key() == plain.key()

    def test_the_short_keys(self) -> None:
        from formatter_vllm import create_extra_args
        from formatter_vllm.requests import content_of, is_to_fit, read_format

        assert read_format(content_of({"formatter": {"regex": NUMBER}})).key() == formats.regex(NUMBER).key()
        assert read_format(content_of({"formatter": {"choice": ["a", "b"]}})).key() == formats.choice(["a", "b"]).key()
        text = json.dumps({"json_schema": SCHEMA})
        assert read_format(content_of({"formatter": text})).key() == formats.json_schema(SCHEMA).key()
        wanted = read_format(content_of({"formatter": {"kbnf": 'start ::= "a";'}}))
        assert wanted.key() == formats.kbnf('start ::= "a";').key()
        assert not is_to_fit(content_of({"formatter": {"kbnf": 'start ::= "a";'}}))
        assert is_to_fit(content_of({"formatter": {"regex": NUMBER, "fit": True}}))
        assert is_to_fit(content_of(create_extra_args(formats.regex(NUMBER), fit=True)))

    def test_whether_an_output_is_to_fit_is_found_without_reading_other_escapes(self, monkeypatch) -> None:
        """It is asked on the event loop, where reading a schema of megabytes would delay every request."""
        from formatter_vllm import requests

        for letters in itertools.product(*((letter, f"\\u{ord(letter):04x}") for letter in "fit")):
            assert requests.is_to_fit(f'{{"regex": "a", "{"".join(letters)}": true}}')
        monkeypatch.setattr(requests, "_read_json", None)
        assert not requests.is_to_fit(json.dumps({"json_schema": {"properties": {"é": {"type": "integer"}}}}))

    @pytest.mark.parametrize(
        ("of_server", "of_request", "expected"),
        [
            ("exact", None, {"1", "12", "123"}),
            ("exact", "longest", {"123"}),
            ("longest", None, {"123"}),
            ("longest", "exact", {"1", "12", "123"}),
        ],
    )
    def test_masks_may_hold_only_the_longest_tokens_of_certain_text(
        self, new_vllm, tokenizer, of_server, of_request, expected
    ) -> None:
        from formatter_vllm import create_extra_args
        from formatter_vllm.compilers import RequestCompiler
        from formatter_vllm.constraints import Constraints
        from formatter_vllm.settings import Settings

        vocabulary = Vocabulary([b"1", b"2", b"12", b"3", b"123", None], end_ids=[5])
        constraints = Constraints(RequestCompiler(Compiler(vocabulary), Settings(forced_text=of_server)), None)
        arguments = create_extra_args(formats.choice(["123"]), forced_text=of_request)
        formatter = constraints.of_request(parameters_of(arguments)).cursor.formatter
        assert {vocabulary.tokens[i].decode() for i in formatter.allowed_tokens()} == expected
        assert formatter.count_valid([0, 1, 3]) == 3, "the others are taken all the same"

    def test_an_unknown_kind_of_forced_text_is_refused(self, new_vllm) -> None:
        from formatter_vllm import FormatterLogitsProcessor, create_extra_args

        with pytest.raises(InvalidArgument, match="forced_text"):
            create_extra_args(formats.regex("a"), forced_text="shortest")
        with pytest.raises(ValueError, match="give one of exact, longest"):
            FormatterLogitsProcessor.validate_params(parameters_of({"formatter": {"regex": "a", "forced_text": ["x"]}}))

    def test_an_output_can_be_made_to_fit_into_the_request(self, new_vllm, tokenizer) -> None:
        from formatter_vllm import FormatterLogitsProcessor, create_extra_args
        from formatter_vllm.compilers import RequestCompiler
        from formatter_vllm.constraints import Constraints
        from formatter_vllm.settings import Settings

        compiler = RequestCompiler(Compiler(Vocabulary.of_bytes()), Settings())
        constraints = Constraints(compiler, None)
        arguments = create_extra_args(formats.regex("a+b"), fit=True)
        constraint = constraints.of_request(parameters_of(arguments, max_tokens=4))
        constraint.cursor.follow([ord("a")])
        assert constraint.cursor.formatter.max_tokens == 4
        assert constraint.cursor.formatter.count_valid(b"ab") == 2
        assert constraint.cursor.formatter.count_valid(b"aab") == 1
        assert "BudgetTooSmall" in repr(constraints.of_request(parameters_of(arguments, max_tokens=2)).cursor.error)
        plain = constraints.of_request(parameters_of(create_extra_args(formats.regex("a+b")), max_tokens=2))
        assert plain.cursor.formatter.max_tokens is None
        with pytest.raises(ValueError, match="give max_tokens"):
            FormatterLogitsProcessor.validate_params(parameters_of(arguments, max_tokens=None))
        with pytest.raises(ValueError, match="true or false"):
            FormatterLogitsProcessor.validate_params(parameters_of({"formatter": {"regex": "a", "fit": 1}}))

    @pytest.mark.parametrize("keyword", ["const", "minimum"])
    def test_numbers_in_a_schema_keep_their_digits(self, keyword) -> None:
        from formatter_vllm.requests import read_format

        number, below = "0.12345678901234567890123", "0.12345678901234567890122"
        schema = f'{{"type": "number", "{keyword}": {number}}}'
        compiler = Compiler(Vocabulary([*(bytes([byte]) for byte in range(256)), None], end_ids=[256]))
        whole = json.dumps({"format": formats.json_schema(schema).to_json()})
        for text in (f'{{"json_schema": {schema}}}', json.dumps({"json_schema": schema}), whole):
            compiled = compiler.compile(read_format(text))
            assert compiled.parse(number).is_complete
            assert not compiled.parse(below).is_complete


def output(text=None, ids=None, finish="stop", stop=None):
    return types.SimpleNamespace(text=text, token_ids=ids, finish_reason=finish, stop_reason=stop)


def choice(content, finish="stop", stop=None):
    message = types.SimpleNamespace(content=content)
    return types.SimpleNamespace(message=message, finish_reason=finish, stop_reason=stop)


class TestResults:
    @pytest.mark.parametrize("made", [output('{"a": 7, "b": "x"}'), choice('{"a": 7, "b": "x"}'), '{"a": 7, "b": "x"}'])
    def test_typed_values(self, made) -> None:
        point = result(made, Point)
        assert point.is_complete
        assert point.value == Point(7, "x")

    def test_captures(self) -> None:
        assert result(output("n=17; abba."), card()).captures == {"n": (17,), "w": ("abba",)}

    @pytest.mark.parametrize(
        ("text", "finish", "stop", "ended"),
        [
            ("12", "length", None, "length"),
            ("12", "stop", "9", "stop_string"),
            ("12", "abort", None, "error"),
            ("12", None, None, None),
            ("1x", "stop", None, "end"),
            ("", "stop", None, "end"),
        ],
    )
    def test_a_cut_or_broken_answer_is_never_a_good_one(self, text, finish, stop, ended) -> None:
        cut = result(output(text, finish=finish, stop=stop), formats.regex("[0-9]{1,5}"))
        assert cut.ended == ended
        assert not cut.is_complete
        with pytest.raises(IncompleteResult):
            _ = cut.value

    def test_a_text_that_nothing_may_follow_is_complete_however_it_ended(self) -> None:
        assert result(output("12", finish="length"), formats.regex("[0-9]{2}")).value == "12"

    def test_a_chat_answer_that_was_cut_before_it_began(self) -> None:
        assert not result(choice(None, finish="length"), formats.regex("a")).is_complete

    def test_by_token_ids(self, tokenizer) -> None:
        from formatter_vllm import create_vocabulary

        vocabulary = create_vocabulary(tokenizer, end_ids=ENDS)
        call, ids = tokenizer.token_to_id("<|call|>"), tokenizer.encode("abab").ids
        format = formats.sequence(formats.token(call), formats.regex(WORD))
        assert result(output("abab", [call, *ids, 1]), format, vocabulary=vocabulary).is_complete
        for broken in ([call, *ids], [*ids, 0], [call, *ids, 0, *ids]):
            finish = "length" if broken[-1] not in ENDS else "stop"
            assert not result(output("abab", broken, finish), format, vocabulary=vocabulary).is_complete

    def test_by_token_ids_with_a_stop_id_of_the_request(self, tokenizer) -> None:
        from formatter_vllm import create_vocabulary

        vocabulary = create_vocabulary(tokenizer, end_ids=ENDS)
        stop = tokenizer.token_to_id(";")
        ids = [*tokenizer.encode("abab").ids, stop]
        assert result(output("abab", ids, stop=stop), formats.regex(WORD), vocabulary=vocabulary).value == "abab"

    def test_what_is_no_output(self) -> None:
        with pytest.raises(InvalidArgument, match="outputs"):
            result(types.SimpleNamespace(outputs=[]), formats.regex("a"))

    def test_several_outputs(self) -> None:
        made = results([output("1"), output("x"), output("22", finish="length")], formats.integer())
        assert [one.value if one.is_complete else one.ended for one in made] == [1, "end", "length"]


class TestEntryPoint:
    def test_it_masks_where_the_class_was_not_named(self, any_vllm, tokenizer) -> None:
        from formatter_vllm.entry_point import EntryPointLogitsProcessor

        engine = engine_of(tokenizer, named=False)
        engine.hook = EntryPointLogitsProcessor
        requests, patterns = mixed(engine)
        engine.batch().run(requests)
        for request, pattern in zip(requests, patterns, strict=True):
            assert pattern is None or re.fullmatch(pattern, engine.text(request))

    @pytest.mark.parametrize("named", ["text", "class", "derived class"])
    def test_it_is_idle_where_the_class_was_named(self, new_vllm, tokenizer, named) -> None:
        from formatter_vllm import FormatterLogitsProcessor
        from formatter_vllm.entry_point import EntryPointLogitsProcessor

        engine = engine_of(tokenizer)
        engine.config.model_config.logits_processors = [
            {
                "text": "formatter_vllm:FormatterLogitsProcessor",
                "class": FormatterLogitsProcessor,
                "derived class": type("Own", (FormatterLogitsProcessor,), {}),
            }[named]
        ]
        processor = EntryPointLogitsProcessor(engine.config, torch.device("cpu"), False)
        parameters = parameters_of({"formatter": {"regex": "a"}}, end_ids=ENDS)
        processor.update_state(BatchUpdate(1, [], [(0, parameters, [5], [])], []))
        assert not processor.add_request(0, parameters)
        logits = torch.zeros(1, engine.width)
        assert torch.equal(processor.apply(logits.clone()), logits)
        with pytest.raises(ValueError, match="regex"):
            processor.validate_params(parameters_of({"formatter": {"regex": 1}}))

    @pytest.mark.parametrize("fault", ["no interface", "another method"])
    def test_it_never_keeps_vllm_from_starting(self, new_vllm, fault) -> None:
        names = ("vllm.v1.sample.logits_processor", "vllm.v1.worker.gpu.sample.logits_processor")
        for name in names:
            if fault == "no interface":
                del sys.modules[name].LogitsProcessor
            else:
                interface = type("LogitsProcessor", (sys.modules[name].LogitsProcessor,), {"new": abstract()})
                sys.modules[name].LogitsProcessor = interface
        from formatter_vllm.entry_point import EntryPointLogitsProcessor

        processor = EntryPointLogitsProcessor(object(), object())
        processor.update_state(None)
        assert not processor.add_request(0, parameters_of())
        assert processor.apply("logits") == "logits"
        EntryPointLogitsProcessor.validate_params(parameters_of())
        with pytest.raises(ValueError, match="cannot enforce formats"):
            EntryPointLogitsProcessor.validate_params(parameters_of({"formatter": {"regex": "a"}}))


def abstract():
    def new(self) -> None: ...

    new.__isabstractmethod__ = True
    return new


class TestImports:
    def test_a_vllm_without_an_interface_is_too_old(self, new_vllm) -> None:
        del sys.modules["vllm.v1.sample.logits_processor"], sys.modules["vllm.v1.worker.gpu.sample.logits_processor"]
        with pytest.raises(UnsupportedEngineVersion, match=r"0\.10\.1"):
            import formatter_vllm.logits_processor  # noqa: F401

    def test_clients_need_neither_vllm_nor_torch(self) -> None:
        code = (
            "import sys, formatter_vllm; formatter_vllm.create_extra_args({'type': 'null'}); "
            "assert formatter_vllm.result('null', {'type': 'null'}).value is None; "
            "sys.exit(bool({'vllm', 'torch'} & set(sys.modules)))"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
