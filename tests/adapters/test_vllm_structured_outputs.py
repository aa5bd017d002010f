"""The structured-outputs backend on stand-ins of vLLM's internals; the tests on vLLM itself are in engines_real."""

from __future__ import annotations

import enum
import json
import types
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the bitmask is a tensor")

from formatter_core import Compiler, Vocabulary, bitmask, formats  # noqa: E402
from formatter_core.errors import UnsupportedFormat  # noqa: E402
from formatter_vllm.backend import FormatterGrammar  # noqa: E402
from formatter_vllm.structured_outputs import VARIABLE  # noqa: E402
from tests.adapters.vllm_stand_ins import patchable, vllm_of  # noqa: E402

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
        row = np.full(12, -1, dtype=np.int32)
        grammar.mask_reasoning(row)
        assert bool(bitmask.get(row, END)) is can_be_empty
        assert bitmask.unpack(row)[:END].all()
        assert len(allowed(grammar)) == 1 + can_be_empty

    def test_what_ends_reasoning_is_kept_out_where_the_format_does_not_begin_so(self) -> None:
        """And what vLLM has masked stays masked."""
        grammar = FormatterGrammar(
            Compiler(VOCABULARY).compile(formats.regex("<a+")).formatter(), [ord("<"), ord("x"), ord("y")]
        )
        for _ in range(2):
            row = np.full(12, -1, dtype=np.int32)
            bitmask.clear_ids(row, [ord("z")])
            grammar.mask_reasoning(row)
            assert [chr(one) for one in range(END) if not bitmask.get(row, one)] == ["x", "y", "z"]
            assert not bitmask.get(row, END)

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
    """vLLM's manager of structured outputs, as far as the adapter wraps it, by default that of 0.32.

    Attributes:
        has_blocks: whether each request has a row for each draft that it may have, as from 0.33 on.
        masked_ids: what 0.33 appends to each entry of a batch.
    """

    has_blocks = False
    masked_ids: tuple[Any, ...] = ()

    def __init__(self, config: Any, tokenizer: Any = None) -> None:
        self.vllm_config, self.tokenizer = config, tokenizer
        self.backend: Any = None
        self.backend_name: str | None = None
        self.reasoner_cls: Any = None
        self._grammar_bitmask: Any = None

    def grammar_init(self, request):
        wanted = request.sampling_params.structured_outputs
        self.backend = self.backend or "built in"
        if self.backend != "built in":
            made = self.backend.compile_grammar(*wanted.key)
            request.structured_output_request = types.SimpleNamespace(grammar=made)
        return self.backend

    def grammar_bitmask(self, requests, structured_output_request_ids, scheduled_spec_decode_tokens):
        number, most = 0, self.vllm_config.num_speculative_tokens
        if self._grammar_bitmask is None:
            self._grammar_bitmask = self.backend.allocate_token_bitmask(
                self.vllm_config.scheduler_config.max_num_seqs * (1 + most)
            )
        for place, name in enumerate(structured_output_request_ids):
            number = place * (1 + most) if self.has_blocks else number
            grammar = requests[name].structured_output_request.grammar
            is_free = self.reasoner_cls is not None and not self.reasoner_cls().is_reasoning_end([])
            taken = 0
            for token in scheduled_spec_decode_tokens.get(name, ()):
                is_free = is_free or token < 0
                self._fill_bitmasks(((grammar, number, not is_free, *self.masked_ids),))
                if not is_free:
                    taken += grammar.accept_tokens(name, [token])
                number += 1
            self._fill_bitmasks(((grammar, number, not is_free, *self.masked_ids),))
            number += 1
            grammar.rollback(taken)
        count = len(structured_output_request_ids) * (1 + most) if self.has_blocks else number
        return self._grammar_bitmask[:count].numpy()

    def _fill_bitmasks(self, batch):
        for grammar, number, is_constrained, *masked in batch:
            if is_constrained:
                grammar.fill_bitmask(self._grammar_bitmask, number)
            else:
                self._grammar_bitmask[number].fill_(-1)
                for ids in masked:
                    bitmask.clear_ids(self._grammar_bitmask[number].numpy(), list(ids))


class Request:
    """vLLM's request."""

    def __init__(self, request_id, prompt_token_ids, sampling_params, pooling_params):
        self.sampling_params = sampling_params
        self.structured_output_request = None


class Wanted:
    """vLLM's `StructuredOutputsParams`."""

    def __init__(self, regex):
        self.key, self._backend = (Options.REGEX, regex), None


@dataclass
class Parameters:
    """The parameters of a request; how it was validated."""

    structured_outputs: Any = None
    max_tokens: int = 16
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
        "vllm.sampling_params": {"SamplingParams": patchable(Parameters), "StructuredOutputsParams": Wanted},
        "vllm.v1.structured_output": {"StructuredOutputManager": patchable(Manager)},
        "vllm.v1.structured_output.backend_types": {
            "StructuredOutputBackend": Backend,
            "StructuredOutputGrammar": Grammar,
        },
        "vllm.v1.structured_output.request": {"get_structured_output_key": key_of},
        "vllm.v1.request": {"Request": Request},
    }
    monkeypatch.setenv(VARIABLE, "1")
    with vllm_of("0.31", contents) as made:
        yield made


def register() -> None:
    import_module("formatter_vllm.structured_outputs").register()


def validated(internals, structured_outputs: Any, backend: str = "auto", **parameters: Any) -> Any:
    """Return the parameters of a request after vLLM has validated them."""
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
            ("REGEX", r"(a)\1", "position"),
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

    def test_a_grammar_may_be_the_format_of_a_request_with_its_options(self, internals) -> None:
        register()
        names = internals["vllm.exceptions"]
        schema = {"json_schema": {"enum": ["a"]}}
        validated(internals, wanted("GRAMMAR", json.dumps({**schema, "spelling": "any", "whitespace": "compact"})))
        with pytest.raises(names.VLLMValidationError, match="give one of 'any', 'canonical'"):
            validated(internals, wanted("GRAMMAR", json.dumps({**schema, "spelling": "wide"})))

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
        backend.destroy()

    @pytest.mark.parametrize("has_blocks", [False, True])
    @pytest.mark.parametrize("masked_ids", [(), ((7, 9),)])
    def test_releases_that_differ_in_their_data_are_served(self, internals, has_blocks, masked_ids) -> None:
        manager = internals["vllm.v1.structured_output"].StructuredOutputManager
        manager.has_blocks, manager.masked_ids = has_blocks, masked_ids
        register()
        assert import_module("formatter_vllm.structured_outputs").reason_off() is None

    @pytest.mark.parametrize(
        "at", ["grammar_init", "grammar_bitmask", "_fill_bitmasks", "_validate", "Request", "fill"]
    )
    def test_a_release_that_does_otherwise_keeps_its_own_backend(self, internals, at, caplog) -> None:
        """The server starts and says why; what only our backend can serve is refused, and nothing else."""
        kind = internals["vllm.v1.structured_output"].StructuredOutputManager
        plain = internals["vllm.sampling_params"].SamplingParams
        if at == "grammar_init":
            kind.grammar_init = lambda self, request, more: None
        elif at == "grammar_bitmask":  # the masks are copied before they are complete
            kind.grammar_bitmask = lambda self, *given: Manager.grammar_bitmask(self, *given).copy()
        elif at == "_fill_bitmasks":
            kind._fill_bitmasks = lambda self, batch: Manager._fill_bitmasks(self, [one[1:] for one in batch])
        elif at == "_validate":
            plain._validate_structured_outputs = lambda self, *others: None
            internals["vllm.v1.structured_output.request"].get_structured_output_key = lambda params, more: None
        elif at == "Request":
            internals["vllm.v1.request"].Request = type("Request", (), {})
        else:
            kind._fill_bitmasks = lambda self, batch: self._grammar_bitmask.fill_(-1)
        own = {name: getattr(kind, name) for name in ("grammar_init", "grammar_bitmask", "_fill_bitmasks")}
        register()
        line, *_ = [record.getMessage() for record in caplog.records]  # what else is said is of the server
        assert "does not fit vLLM 0.31" in line
        assert "vLLM's own backend" in line
        assert {name: getattr(kind, name) for name in own} == own
        made = validated(internals, wanted("REGEX", "("))
        assert made.structured_outputs._backend is None
        refuse = import_module("formatter_vllm.structured_outputs").refuse_what_is_off
        refuse(types.SimpleNamespace(structured_outputs=types.SimpleNamespace(grammar='root ::= "a"')))
        with pytest.raises(UnsupportedFormat, match=r"does not fit vLLM 0\.31.*vllm_xargs"):
            refuse(types.SimpleNamespace(structured_outputs=types.SimpleNamespace(grammar='{"regex": "a"}')))

    def test_rows_that_are_filled_on_other_threads_are_filled(self, internals) -> None:
        register()
        manager = reasoning_manager(internals)
        one_by_one = manager.grammar_bitmask(manager.asked, ["0", "1"], {}).copy()
        together = manager.grammar_bitmask(manager.asked, [*manager.asked], {})
        assert (together[:2] == one_by_one).all()
        with ThreadPoolExecutor(2) as pool:
            own = manager._fill_bitmasks
            manager._fill_bitmasks = lambda batch: pool.submit(own, batch).result()
            assert (manager.grammar_bitmask(manager.asked, [*manager.asked], {}) == together).all()


def reasoning_manager(internals) -> Any:
    """Make a manager with our backend and some requests."""
    module = import_module("formatter_vllm.structured_outputs")
    kind = import_module("formatter_vllm.backend").create_backend_class(Backend, Grammar, module._compiler_of_bytes)
    config = types.SimpleNamespace(
        num_speculative_tokens=0,
        scheduler_config=types.SimpleNamespace(max_num_seqs=9),
        model_config=types.SimpleNamespace(get_vocab_size=lambda: 257),
    )
    manager = internals["vllm.v1.structured_output"].StructuredOutputManager(config, VOCABULARY)
    manager.formatter_backend = kind
    manager.asked = {}
    for number in range(6):
        parameters = validated(internals, wanted("REGEX", f"[a-{'bcdefgh'[number]}]"))
        manager.asked[str(number)] = request = Request(str(number), [], parameters, None)
        manager.grammar_init(request)
    assert manager.backend_name == "formatter"
    return manager
