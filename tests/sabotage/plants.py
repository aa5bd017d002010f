"""Faults planted in the product: for each rule that never bends, what breaks it and the test that has to notice."""

from __future__ import annotations

import ctypes
import dataclasses
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Plant:
    """A fault. `rule` is the number of the rule in CONTRIBUTING.md, `test` the node id of a test that must fail.

    `escapes` names the exceptions that leave the product where that is how the fault shows; otherwise only a failed
    check of the test counts. An exception in the fault's own code proves nothing.
    """

    rule: int
    apply: Callable[[Patch], None]
    test: str
    needs: str = "formatter_core"
    escapes: str = ""

    @property
    def name(self) -> str:
        return self.apply.__name__

    def is_shown_by(self, failure: Mapping[str, Any]) -> bool:
        """Tell whether a failure of the test, as `planted.described` gives it, shows that the fault was noticed."""
        return bool(failure["is_check"] or (failure["type"] in self.escapes.split() and not failure["by_fault"]))


PLANTS: list[Plant] = []


def breaks(
    rule: int, test: str, needs: str = "formatter_core", escapes: str = ""
) -> Callable[[Callable[[Patch], None]], None]:
    """Register a fault; `needs` is a module without which the test is skipped, `escapes` as in `Plant`."""

    def register(apply: Callable[[Patch], None]) -> None:
        PLANTS.append(Plant(rule, apply, test, needs, escapes))

    return register


def after(patch: Patch, owner: Any, name: str, change: Callable[..., Any]) -> None:
    """Replace a method by itself and then `change`, which gets the answer first, then the arguments."""
    original = getattr(owner, name)

    def changed(*arguments: Any, **options: Any) -> Any:
        return change(original(*arguments, **options), *arguments, **options)

    patch.setattr(owner, name, changed)


# --- 1. A mask is never wrong ------------------------------------------------------------------------------------


@breaks(1, "tests/core/test_formatter.py::TestMasks::test_a_token_is_allowed_iff_it_begins_a_completion")
def an_engine_loses_a_bit_of_each_mask(patch: Patch) -> None:
    from formatter_core.engine.kbnf.engine import KbnfState
    from formatter_core.engine.native import NativeState
    from formatter_core.testing.oracle import OracleState

    def lose(status: int, state: Any, row: np.ndarray, *_: int) -> int:
        places = np.flatnonzero(row)
        if len(places):
            row[places[-1]] &= row[places[-1]] - 1
        return status

    for kind, name in ((KbnfState, "fill_bitmask"), (NativeState, "try_fill"), (OracleState, "fill_bitmask")):
        after(patch, kind, name, lose)


@breaks(1, "tests/core/test_formatter.py::TestEnds::test_the_end_is_allowed_exactly_when_the_format_may_end")
def the_end_is_always_allowed(patch: Patch) -> None:
    from formatter_core import bitmask
    from formatter_core.runtime.sequence_state import SequenceState

    after(patch, SequenceState, "fill", lambda _, state, row: bitmask.set_ids(row, state.end_ids))


@breaks(1, "tests/core/test_formatter.py::TestDeadEnd")
def an_empty_mask_is_no_dead_end(patch: Patch) -> None:
    from formatter_core.errors import DeadEnd
    from formatter_core.runtime.sequence_state import SequenceState

    fill = SequenceState.fill

    def silent(self: SequenceState, row: np.ndarray) -> None:
        try:
            fill(self, row)
        except DeadEnd:
            row[:] = 0

    patch.setattr(SequenceState, "fill", silent)


_CAPTURES = "tests/core/test_parse_native.py::test_random_grammars_give_the_captures_of_the_reference"


def _parsed_otherwise(patch: Patch, change: Callable[[Any], Any]) -> None:
    """The native parser is given a grammar whose nodes are changed."""
    from formatter_core.engine.native_parser import NativeParser
    from formatter_core.grammar import Grammar, map_children

    original = NativeParser.__init__

    def changed(node: Any) -> Any:
        return change(map_children(node, changed))

    def init(self: NativeParser, grammar: Grammar, limits: Any) -> None:
        rules = {name: changed(body) for name, body in grammar.rules.items()}
        original(self, Grammar(rules, grammar.start), limits)

    patch.setattr(NativeParser, "__init__", init)


@breaks(1, _CAPTURES)
def the_native_parser_takes_lazy_repeats_for_greedy_ones(patch: Patch) -> None:
    from formatter_core.grammar import Repeat

    _parsed_otherwise(patch, lambda node: dataclasses.replace(node, greedy=True) if isinstance(node, Repeat) else node)


@breaks(1, _CAPTURES)
def the_native_parser_prefers_later_alternatives(patch: Patch) -> None:
    from formatter_core.grammar import Choice

    _parsed_otherwise(patch, lambda node: Choice(node.items[::-1]) if isinstance(node, Choice) else node)


@breaks(1, "tests/core/test_regions.py::test_a_region_ends_within_its_budget")
def a_part_gets_a_token_more_than_its_budget(patch: Patch) -> None:
    from formatter_core.grammar import Region

    within = importlib.import_module("formatter_core.formats.within")  # the package has a function of this name
    patch.setattr(within, "Region", lambda item, max_tokens: Region(item, max_tokens + 1))


# --- 2. Enforce a keyword or refuse it ---------------------------------------------------------------------------


@breaks(2, "tests/core/test_schema.py::test_refusals_name_the_place")
def an_unsupported_keyword_is_dropped(patch: Patch) -> None:
    from formatter_core.schema import library

    real = library.begun
    patch.setattr(library, "begun", lambda *given, **named: real(*given, **{**named, "lenient": True}))


@breaks(2, "tests/core/test_schema_options.py::test_dropping_instead_of_refusing_gives_a_superset_and_says_so")
def what_was_dropped_is_not_reported(patch: Patch) -> None:
    patch.setattr(importlib.import_module("formatter_core.formats.json_schema")._Source, "warn", lambda *_: None)


# --- 3. Fail closed ----------------------------------------------------------------------------------------------

FAILING = "test_a_failing_sequence_ends_with_its_cause_and_the_others_go_on"


def _open(patch: Patch, owner: Any, name: str) -> None:
    """Rows that are to hold nothing but ends hold everything."""
    patch.setattr(owner, name, lambda self, row: row.fill(-1))


@breaks(3, f"tests/adapters/test_contract.py::TestCursor::{FAILING}[oracle-fill_bitmask-bug]")
def a_cursor_that_failed_goes_on_unconstrained(patch: Patch) -> None:
    from formatter_core import Cursor

    _open(patch, Cursor, "_fill_end_only")


@breaks(3, f"tests/adapters/test_contract.py::TestTransformers::{FAILING}[oracle-fill_bitmask-bug]", needs="torch")
def a_row_of_transformers_that_failed_goes_on_unconstrained(patch: Patch) -> None:
    from tests.adapters.transformers_loops import provide_transformers

    provide_transformers()
    from formatter_transformers.masks import StepMasks

    def free(_: None, masks: StepMasks, cursors: Any, size: int, on_failure: Any) -> None:
        for row, cursor in zip(masks._bits, cursors, strict=True):
            if cursor is not None and cursor.error is not None:
                row.fill(-1)

    after(patch, StepMasks, "__init__", free)


@breaks(
    3,
    "tests/adapters/test_transformers.py::TestReuse::test_a_second_call_is_refused_whatever_its_prompt",
    needs="torch",
)
def a_processor_of_transformers_serves_any_call(patch: Patch) -> None:
    from tests.adapters.transformers_loops import provide_transformers

    provide_transformers()
    from formatter_transformers.calls import OneCall

    patch.setattr(OneCall, "admit", lambda self, step: False)


@breaks(3, f"tests/adapters/test_contract.py::TestVllmBatch::{FAILING}[oracle-fill_bitmask-bug]", needs="torch")
def a_request_of_vllm_that_failed_goes_on_unconstrained(patch: Patch) -> None:
    from tests.adapters import vllm_sessions

    def forget(hook: Any, *_: Any) -> Any:
        follow = hook._rows.follow
        hook._rows.follow = lambda count: [(row, one) for row, one in follow(count) if not one.cursor.has_failed]
        return hook

    after(patch, vllm_sessions, "_hook", forget)


@breaks(3, f"tests/adapters/test_contract.py::TestVllmSlots::{FAILING}[oracle-fill_bitmask-bug]", needs="torch")
def a_slot_of_vllm_that_failed_goes_on_unconstrained(patch: Patch) -> None:
    from tests.adapters import vllm_sessions

    def forget(hook: Any, *_: Any) -> Any:
        follow = hook._slots.follow

        def without_failed(context: Any, count: int) -> Any:
            rows, drafts = follow(context, count)
            return [(row, one) for row, one in rows if not one.cursor.has_failed], drafts

        hook._slots.follow = without_failed
        return hook

    after(patch, vllm_sessions, "_hook", forget)


@breaks(3, f"tests/adapters/test_contract.py::TestCursor::{FAILING}[oracle-fill_bitmask-bug]")
def the_cause_is_forgotten(patch: Patch) -> None:
    from formatter_core import Cursor

    def forget(_: None, cursor: Cursor, row: np.ndarray) -> None:
        cursor._error, cursor.has_failed = None, False

    after(patch, Cursor, "_fill_end_only", forget)


@breaks(3, "tests/core/test_bitmask.py::test_fill_batch_fails_closed")
def a_batch_that_failed_keeps_old_rows(patch: Patch) -> None:
    from formatter_core import bitmask

    def careless(formatters: Any, rows: np.ndarray) -> None:
        for formatter, row in zip(formatters, rows, strict=False):
            if formatter is None:
                row.fill(-1)
            else:
                formatter.fill_bitmask(row)

    patch.setattr(bitmask, "fill_batch", careless)


# --- 4. No hang, no runaway --------------------------------------------------------------------------------------


@breaks(4, "tests/core/test_automaton.py::test_limits_are_named")
def the_automaton_never_checks_its_work(patch: Patch) -> None:
    from formatter_core.testing.derivatives import Terms

    patch.setattr(Terms, "_spend", lambda self, steps: None)


@breaks(4, "tests/core/test_engine_native.py::test_limits_of_compiling")
def the_native_engine_never_checks_its_work(patch: Patch) -> None:
    from formatter_core.engine.native import NativeEngine

    compile = NativeEngine.compile

    def unbounded(self: NativeEngine, grammar: Any, vocabulary: Any, limits: Any) -> Any:
        return compile(self, grammar, vocabulary, dataclasses.replace(limits, work=2**62))

    patch.setattr(NativeEngine, "compile", unbounded)


@breaks(4, "tests/core/test_parse_native.py::test_work_counts_for_the_whole_text")
def the_native_parser_never_checks_its_work(patch: Patch) -> None:
    from formatter_core.engine.native_parser import NativeParser

    make = NativeParser.__init__

    def unbounded(self: NativeParser, grammar: Any, limits: Any) -> None:
        make(self, grammar, dataclasses.replace(limits, work=2**62))

    patch.setattr(NativeParser, "__init__", unbounded)


@breaks(4, "tests/core/test_cache.py::test_it_keeps_the_most_recent_within_its_bytes")
def a_cache_never_drops(patch: Patch) -> None:
    from formatter_core.limits.cache import ByteBoundedCache

    def keep(self: ByteBoundedCache[Any], key: Any, value: Any) -> None:
        self._values[key] = (value, self._size_of(value))

    patch.setattr(ByteBoundedCache, "_keep", keep)


# --- 5. One vocabulary, one compile, many sequences --------------------------------------------------------------


@breaks(5, "tests/core/test_formats.py::TestWhatCompileTakes::test_equal_content_is_compiled_once")
def compiled_formats_are_not_shared(patch: Patch) -> None:
    from formatter_core.limits.cache import ByteBoundedCache

    patch.setattr(ByteBoundedCache, "get", lambda self, key, make, *arguments: make(*arguments))


@breaks(5, "tests/core/test_sharing.py::test_many_sequences_are_one_compile")
def each_sequence_compiles_anew(patch: Patch) -> None:
    from formatter_core import Compiler
    from formatter_core.runtime.compiled import CompiledFormat

    compilers: list[Compiler] = []
    after(patch, Compiler, "__init__", lambda _, compiler, *rest, **options: compilers.append(compiler))

    def anew(formatter: Any, compiled: CompiledFormat, *_: Any) -> Any:
        compilers[-1]._engine.compile(compiled.lowered.grammar, compiled.vocabulary, compiled.limits)
        return formatter

    after(patch, CompiledFormat, "formatter", anew)


@breaks(5, "tests/core/test_sharing.py::test_a_vocabulary_becomes_tables_once")
def a_vocabulary_becomes_tables_each_time(patch: Patch) -> None:
    from formatter_core.engine import native

    patch.setattr(native, "_tables", lambda library, vocabulary: native._Vocabulary(library, vocabulary))


# --- 6. No long call into the native engine holds the GIL --------------------------------------------------------


@breaks(
    6,
    "tests/core/test_sharing.py::test_other_threads_run_while_the_native_engine_compiles_and_masks",
)
def native_calls_hold_the_gil(patch: Patch) -> None:
    from formatter_core.engine import native_library

    patch.setattr(ctypes, "CDLL", ctypes.PyDLL)
    native_library.load.cache_clear()


# --- 7. Logits may be wider than the vocabulary; special tokens are never text -----------------------------------


@breaks(7, "tests/core/test_bitmask.py::test_apply_masks_all_else_and_the_tail[float32]")
def the_tail_of_numpy_logits_is_left(patch: Patch) -> None:
    from formatter_core import bitmask

    apply = bitmask.apply_inplace
    patch.setattr(bitmask, "apply_inplace", lambda logits, row: apply(logits[..., : 32 * row.shape[-1]], row))


@breaks(7, "tests/core/test_bitmask_torch.py::test_every_width_and_the_tail[cpu]", needs="torch")
def the_tail_of_torch_logits_is_left(patch: Patch) -> None:
    import torch

    from formatter_core.runtime import torch_bitmask

    apply = torch_bitmask.apply

    def short(logits: torch.Tensor, rows: Any) -> torch.Tensor:
        width = 32 * rows.shape[-1]
        return torch.cat([apply(logits[..., :width], rows), logits[..., width:]], dim=-1)

    patch.setattr(torch_bitmask, "apply", short)


@breaks(7, "tests/core/test_formatter.py::TestMasks::test_words_past_the_vocabulary_are_zeroed")
def words_past_the_vocabulary_are_left(patch: Patch) -> None:
    from formatter_core.runtime.sequence_state import SequenceState

    fill = SequenceState.fill

    def short(self: SequenceState, row: np.ndarray) -> None:
        fill(self, row[: self.compiled.vocabulary.words])

    patch.setattr(SequenceState, "fill", short)


@breaks(
    7, "tests/adapters/test_contract.py::TestTransformers::test_logits_wider_than_the_vocabulary[oracle]", needs="torch"
)
def an_adapter_masks_the_vocabulary_alone(patch: Patch) -> None:
    from formatter_core.runtime import torch_bitmask

    apply = torch_bitmask.apply

    def short(logits: Any, rows: Any) -> Any:
        masked = apply(logits, rows)
        masked[:, 303:] = logits[:, 303:]
        return masked

    patch.setattr(torch_bitmask, "apply", short)


@breaks(7, "tests/core/test_contract_sentences.py::test_end_ids_are_never_text_whatever_their_bytes")
def end_ids_are_text_where_they_have_bytes(patch: Patch) -> None:
    from formatter_core.engine import rows

    patch.setattr(rows, "clear_ids", lambda row, token_ids: None)


@breaks(
    7,
    "tests/core/test_vocabulary_huggingface.py::test_special_and_added_tokens[word_piece]",
    needs="tokenizers",
    escapes="InvalidVocabulary",
)
def special_tokens_are_read_as_text(patch: Patch) -> None:
    from formatter_core.vocabulary import huggingface

    read = huggingface.read

    def spelt(tokenizer: Any) -> Any:
        table = read(tokenizer)
        tokens = [
            (tokenizer.id_to_token(token_id) or "").encode() if data is None else data
            for token_id, data in enumerate(table.tokens)
        ]
        return dataclasses.replace(table, tokens=tokens)

    patch.setattr(huggingface, "read", spelt)
