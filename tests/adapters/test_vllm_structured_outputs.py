"""The structured-outputs backend on stand-ins of vLLM's internals; the tests on vLLM itself are in engines_real."""

from __future__ import annotations

import enum
import json
import sys
import types
from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the bitmask is a tensor")

from formatter_core import Compiler, Vocabulary, bitmask, formats  # noqa: E402
from formatter_core.errors import UnsupportedEngineVersion  # noqa: E402
from formatter_vllm.structured_outputs import VARIABLE, FormatterGrammar  # noqa: E402
from tests.adapters.vllm_stand_ins import vllm_of  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_error_says_anything_twice")

END = 256
VOCABULARY = Vocabulary.of_bytes()


def grammar_of(format: Any) -> FormatterGrammar:
    return FormatterGrammar(Compiler(VOCABULARY).compile(format).formatter())


def allowed(grammar: FormatterGrammar) -> list[int]:
    rows = torch.from_numpy(np.full((2, 12), -1, dtype=np.int32))
    grammar.fill_bitmask(rows, 1)
    assert (rows[0] == -1).all()
    return bitmask.allowed_ids(rows[1].numpy())


class TestGrammar:
    def test_masks_and_steps(self) -> None:
        grammar = grammar_of(formats.regex("ab?"))
        assert allowed(grammar) == [ord("a")]
        assert grammar.accept_tokens("r", [ord("a")])
        assert allowed(grammar) == [ord("b"), END]

    def test_drafts_are_validated_without_a_change_and_taken_back(self) -> None:
        grammar = grammar_of(formats.regex("abc"))
        assert grammar.validate_tokens(list(b"abx")) == list(b"ab")
        assert grammar.validate_tokens([ord("a"), -1]) == [ord("a")]
        assert grammar.accept_tokens("r", list(b"ab"))
        grammar.rollback(2)
        assert allowed(grammar) == [ord("a")]

    def test_after_the_end_there_are_only_ends(self) -> None:
        grammar = grammar_of(formats.regex("a"))
        assert grammar.accept_tokens("r", [ord("a"), END])
        assert allowed(grammar) == [END]
        assert not grammar.is_terminated()
        assert grammar.accept_tokens("r", [END])
        assert not grammar.accept_tokens("r", [ord("a")])

    def test_a_mask_that_cannot_be_made_ends_the_request_with_an_error(self, monkeypatch) -> None:
        grammar = grammar_of(formats.regex("a{9}"))

        def broken(*_):
            raise MemoryError("no more")

        monkeypatch.setattr(grammar.cursor.formatter, "fill_bitmask", broken)
        assert allowed(grammar) == [END]
        assert not grammar.accept_tokens("r", [END])

    def test_a_draft_that_is_refused_changes_nothing(self) -> None:
        grammar = grammar_of(formats.regex("ab"))
        assert grammar.accept_tokens("r", [ord("a")])
        assert not grammar.accept_tokens("r", [ord("x")])
        assert allowed(grammar) == [ord("b")]

    @pytest.mark.parametrize("can_be_empty", [False, True])
    def test_a_model_that_reasons_ends_only_where_the_format_may_be_empty(self, can_be_empty) -> None:
        grammar = grammar_of(formats.regex("a*" if can_be_empty else "a+"))
        row = np.zeros(12, dtype=np.int32)
        grammar.fill_reasoning(row)
        assert bool(bitmask.get(row, END)) is can_be_empty
        assert bitmask.unpack(row)[:END].all()
        assert len(allowed(grammar)) == 1 + can_be_empty

    def test_reset(self) -> None:
        grammar = grammar_of(formats.regex("ab"))
        grammar.accept_tokens("r", [ord("a")])
        grammar.reset()
        assert allowed(grammar) == [ord("a")]


class Options(enum.Enum):
    JSON = 1
    JSON_OBJECT = 2
    REGEX = 3
    GRAMMAR = 4
    CHOICE = 5
    STRUCTURAL_TAG = 6


@dataclass
class Backend(ABC):
    vllm_config: Any
    tokenizer: Any
    vocab_size: int

    @abstractmethod
    def compile_grammar(self, request_type, grammar_spec, stop_token_ids=None): ...

    @abstractmethod
    def allocate_token_bitmask(self, max_num_seqs): ...

    @abstractmethod
    def destroy(self): ...


class Grammar(ABC):
    @abstractmethod
    def accept_tokens(self, request_id, tokens): ...

    @abstractmethod
    def validate_tokens(self, tokens): ...

    @abstractmethod
    def rollback(self, num_tokens): ...

    @abstractmethod
    def fill_bitmask(self, bitmask, batch_index): ...

    @abstractmethod
    def is_terminated(self): ...

    @abstractmethod
    def reset(self): ...


class Manager:
    """vLLM's manager of structured outputs, as far as the adapter wraps it."""

    def __init__(self, config: Any, tokenizer: Any) -> None:
        self.vllm_config, self.tokenizer = config, tokenizer
        self.backend: Any = None
        self.reasoner_cls: Any = None
        self._grammar_bitmask: Any = None

    def grammar_init(self, request):
        self.backend = self.backend or "built in"
        return self.backend

    def grammar_bitmask(self, requests, structured_output_request_ids, scheduled_spec_decode_tokens):
        return "one by one"

    def _fill_bitmasks(self, batch):
        for grammar, number, is_constrained in batch:
            if is_constrained:
                grammar.fill_bitmask(self._grammar_bitmask, number)
            else:
                self._grammar_bitmask[number].fill_(-1)

    def _get_constraint_bounds(self, request, spec_tokens, spec_tokens_committed=False):
        return types.SimpleNamespace(constraint_start=int(request.is_reasoning))


@dataclass
class Parameters:
    """The parameters of a request; how it was validated."""

    structured_outputs: Any = None
    min_tokens: int = 0
    thinking_token_budget: int | None = None
    validated: bool = False

    def _validate_structured_outputs(self, model_config, structured_outputs_config, tokenizer):
        self.validated = True


def wanted(kind: str, specification: str, **options: Any) -> Any:
    return types.SimpleNamespace(key=(Options[kind], specification), _backend=None, **options)


def key_of(params):
    return params.key


@pytest.fixture
def internals(monkeypatch):
    """vLLM's internal names, as the backend expects them, and the backend imported anew on them."""
    contents = {
        "vllm.exceptions": {"VLLMValidationError": type("VLLMValidationError", (Exception,), {})},
        "vllm.sampling_params": {"SamplingParams": type("SamplingParams", (Parameters,), dict(vars(Parameters)))},
        "vllm.v1.structured_output": {
            "__path__": [],
            "StructuredOutputManager": type("StructuredOutputManager", (Manager,), dict(vars(Manager))),
        },
        "vllm.v1.structured_output.backend_types": {
            "StructuredOutputBackend": Backend,
            "StructuredOutputGrammar": Grammar,
        },
        "vllm.v1.structured_output.request": {"get_structured_output_key": key_of},
    }
    with vllm_of("0.31"):
        for name, content in contents.items():
            sys.modules[name] = types.ModuleType(name)
            vars(sys.modules[name]).update(content)
        monkeypatch.setenv(VARIABLE, "1")
        yield {name: sys.modules[name] for name in contents}


def register() -> None:
    import_module("formatter_vllm.structured_outputs").register()


def validated(internals, structured_outputs: Any, backend: str = "auto", **parameters: Any) -> Any:
    """The parameters of a request after vLLM has validated them."""
    made = internals["vllm.sampling_params"].SamplingParams(structured_outputs, **parameters)
    made._validate_structured_outputs(object(), types.SimpleNamespace(backend=backend), "tokenizer")
    return made


class TestRegister:
    def test_nothing_happens_unasked(self, internals, monkeypatch) -> None:
        monkeypatch.delenv(VARIABLE)
        register()
        assert validated(internals, wanted("REGEX", "(")).validated

    @pytest.mark.parametrize(
        ("kind", "specification", "message"),
        [
            ("REGEX", "(?=a)", "position"),
            ("JSON", '{"type": "array", "items": {"type": "object"}, "uniqueItems": true}', "uniqueItems"),
            ("JSON", "{", "JSON"),
            ("CHOICE", "[]", "choice"),
            ("GRAMMAR", "start ::= other;", "other"),
            ("GRAMMAR", "root ::= other", "other"),
            ("GRAMMAR", '{"regex": "a", "fit": true}', "send it in `formatter`"),
            ("GRAMMAR", "start: other", "other"),
            ("STRUCTURAL_TAG", "{}", "`format` is missing"),
        ],
    )
    def test_requests_are_checked(self, internals, kind, specification, message) -> None:
        for _ in range(2):  # vLLM loads plugins once a process, or more often
            register()
        with pytest.raises(internals["vllm.exceptions"].VLLMValidationError, match=message):
            validated(internals, wanted(kind, specification))

    @pytest.mark.parametrize(
        ("parameters", "options", "message"),
        [
            ({"min_tokens": 2}, {}, "min_tokens"),
            ({"thinking_token_budget": 0}, {}, "thinking_token_budget"),
            ({}, {"whitespace_pattern": " "}, "whitespace_pattern"),
        ],
    )
    def test_what_is_not_kept_is_refused(self, internals, parameters, options, message) -> None:
        register()
        with pytest.raises(internals["vllm.exceptions"].VLLMValidationError, match=message):
            validated(internals, wanted("REGEX", "a", **options), **parameters)

    @pytest.mark.parametrize(
        ("kind", "specification"),
        [
            ("JSON", '{"type": "null"}'),
            ("JSON_OBJECT", ""),
            ("REGEX", "a"),
            ("CHOICE", '["a"]'),
            ("GRAMMAR", 'start ::= "a";'),
            ("GRAMMAR", 'root ::= "a" [b-c]*'),
            ("GRAMMAR", 'start: "a" /b+/'),
            ("STRUCTURAL_TAG", '{"type": "structural_tag", "format": {"type": "const_string", "value": "a"}}'),
        ],
    )
    def test_good_requests_are_ours(self, internals, kind, specification) -> None:
        register()
        made = validated(internals, wanted(kind, specification))
        assert not made.validated
        assert made.structured_outputs._backend == "formatter"

    def test_a_backend_that_was_chosen_by_name_stays(self, internals) -> None:
        register()
        made = validated(internals, wanted("REGEX", "("), backend="xgrammar")
        assert made.validated
        manager = internals["vllm.v1.structured_output"].StructuredOutputManager(None, None)
        manager.grammar_init(types.SimpleNamespace(sampling_params=made))
        assert manager.backend == "built in"

    def test_the_backend_compiles(self, internals) -> None:
        tokenizers = pytest.importorskip("tokenizers", reason="makes a tokenizer")
        made = tokenizers.Tokenizer(tokenizers.models.BPE())
        made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.decoder = tokenizers.decoders.ByteLevel()
        alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=258, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False
        )
        made.train_from_iterator(["ab"], trainer)
        register()
        model_config = types.SimpleNamespace(
            get_vocab_size=lambda: 300, try_get_generation_config=lambda: {"eos_token_id": 0}
        )
        config = types.SimpleNamespace(model_config=model_config)
        manager = internals["vllm.v1.structured_output"].StructuredOutputManager(config, made)
        parameters = validated(internals, wanted("CHOICE", '["a"]'))
        manager.grammar_init(types.SimpleNamespace(sampling_params=parameters))
        backend = manager.backend
        rows = backend.allocate_token_bitmask(3)
        assert rows.shape == (3, 10)
        grammar = backend.compile_grammar(Options.CHOICE, json.dumps(["a", "b"]), stop_token_ids={0, 10**6})
        assert isinstance(grammar, Grammar)
        grammar.fill_bitmask(rows, 2)
        assert bitmask.allowed_ids(rows[2].numpy()) == sorted(made.token_to_id(letter) for letter in "ab")
        rows = backend.allocate_token_bitmask(6).fill_(0)
        manager._grammar_bitmask, manager.reasoner_cls = rows, object
        requests = {
            name: types.SimpleNamespace(
                structured_output_request=types.SimpleNamespace(), is_reasoning=name == "thinks"
            )
            for name in ("thinks", "writes", "too", "three", "four")
        }
        for request in requests.values():
            request.structured_output_request.grammar = backend.compile_grammar(Options.CHOICE, json.dumps(["a", "b"]))
        masks = manager.grammar_bitmask(requests, [*requests], {})
        assert len(masks) == len(requests)
        assert bitmask.unpack(masks[0]).tolist() == [False, *[True] * 319]  # the end alone is forbidden
        for mask in masks[1:]:
            assert bitmask.allowed_ids(mask) == sorted(made.token_to_id(letter) for letter in "ab")
        assert manager.grammar_bitmask(requests, [*requests], {"writes": [1]}) == "one by one"
        alone = rows.clone().fill_(0)
        manager._grammar_bitmask = alone
        grammars = [request.structured_output_request.grammar for request in requests.values()]
        manager._fill_bitmasks([(one, number, number > 0) for number, one in enumerate(grammars)])
        assert torch.equal(alone[: len(grammars)], rows[: len(grammars)])
        backend.destroy()

    def test_another_signature_fails_the_start(self, internals) -> None:
        internals["vllm.v1.structured_output.request"].get_structured_output_key = lambda params, more: None
        with pytest.raises(UnsupportedEngineVersion, match="get_structured_output_key"):
            register()
        assert validated(internals, wanted("REGEX", "(")).validated
