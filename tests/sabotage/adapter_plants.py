"""Faults planted in adapters: each undoes what handles one trap of an inference engine."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from formatter_core import bitmask
from tests.sabotage.plants import PLANTS, Patch, after, breaks

__all__ = ["PLANTS"]

LLAMA = "tests/adapters/test_llama_cpp.py::"
PARALLEL = "tests/adapters/test_llama_cpp_parallel.py::"
EXLLAMA = "tests/adapters/test_exllamav3.py::"
EXLLAMAS = "tests/adapters/test_exllama.py::"
EXLLAMAV2 = "tests/adapters/test_exllamav2.py::"
VLLM = "tests/adapters/test_vllm.py::"


def module_of(adapter: str, name: str) -> Callable[[Callable[[Patch, Any], None]], Callable[[Patch], None]]:
    """Of a fault that gets a module of an adapter: plant it each time that the adapter is imported on its stand-ins."""

    def decorate(change: Callable[[Patch, Any], None]) -> Callable[[Patch], None]:
        @functools.wraps(change)
        def plant(patch: Patch) -> None:
            place = importlib.import_module(f"tests.adapters.{adapter}_stand_ins")
            original = getattr(place, f"{adapter}_of")

            @contextmanager
            def changed(*release: Any) -> Iterator[Any]:
                with original(*release) as made:
                    change(patch, importlib.import_module(f"formatter_{adapter}.{name}"))
                    yield made

            patch.setattr(place, f"{adapter}_of", changed)

        return plant

    return decorate


# --- llama.cpp ---------------------------------------------------------------------------------------------------


@breaks(3, f"{LLAMA}test_whatever_goes_wrong_ends_the_sequence_and_is_raised_afterwards[0.3.36-fill_bitmask-1-bug]")
@module_of("llama_cpp", "logits_processor")
def an_error_leaves_a_processor_of_llama_cpp(patch: Patch, module: Any) -> None:
    """llama-cpp-python prints it and goes on unconstrained."""

    def raising(self: Any, error: BaseException) -> None:
        raise error

    patch.setattr(module.Cursor, "fail", raising)


@breaks(3, f"{LLAMA}test_whatever_goes_wrong_ends_the_sequence_and_is_raised_afterwards[0.3.36-step-3-interrupt]")
@module_of("llama_cpp", "logits_processor")
def a_sequence_of_llama_cpp_that_failed_goes_on_unconstrained(patch: Patch, module: Any) -> None:
    patch.setattr(module.FormatterLogitsProcessor, "_leave_only_the_end", lambda self, scores: None)


@breaks(3, f"{LLAMA}test_logit_bias_keeps_the_format[0.3.36-5.0]", escapes="HookNotCalled")
@module_of("llama_cpp", "logits_processor")
def logit_bias_drops_a_processor_of_llama_cpp(patch: Patch, module: Any) -> None:
    patch.setattr(module.FormatterLogitsProcessor, "extend", list.extend)


@breaks(3, f"{LLAMA}test_a_list_around_it_that_was_lost_is_noticed[0.3.36]")
@module_of("llama_cpp", "logits_processor")
def a_processor_of_llama_cpp_that_was_never_called_says_nothing(patch: Patch, module: Any) -> None:
    def careless(self: Any) -> None:
        if self.error is not None:
            raise self.error

    patch.setattr(module.FormatterLogitsProcessor, "raise_error", careless)


@breaks(1, f"{LLAMA}test_drafts_behind_the_kept_tokens_are_not_followed[0.3.36-3]")
@module_of("llama_cpp", "logits_processor")
def drafts_of_llama_cpp_are_taken_for_output(patch: Patch, module: Any) -> None:
    patch.setattr(module._compat, "has_drafts", lambda llama: False)


@breaks(1, f"{LLAMA}test_one_object_serves_one_request_after_the_other[0.3.36]")
@module_of("llama_cpp", "followed")
def a_processor_of_llama_cpp_takes_a_new_prompt_for_output(patch: Patch, module: Any) -> None:
    patch.setattr(module.FollowedSequence, "_continued_by", lambda self, ids: self.cursor.is_used)


@breaks(1, f"{LLAMA}test_a_request_is_told_by_its_sampler")
@module_of("llama_cpp", "logits_processor")
def requests_of_llama_cpp_are_told_by_their_tokens_alone(patch: Patch, module: Any) -> None:
    patch.setattr(module._compat, "generation_of", lambda llama: None)


@breaks(3, f"{LLAMA}test_a_processor_serves_its_own_llama_alone[0.3.36]")
@module_of("llama_cpp", "logits_processor")
def a_processor_of_llama_cpp_serves_any_model(patch: Patch, module: Any) -> None:
    patch.setattr(module._compat, "are_ids_of", lambda llama, ids: True)


@breaks(3, f"{LLAMA}test_a_text_that_contradicts_the_tokens_is_refused[0.3.36]")
@module_of("llama_cpp", "results")
def a_text_that_contradicts_the_tokens_of_llama_cpp_is_believed(patch: Patch, module: Any) -> None:
    patch.setattr(module, "_result_with", lambda formatter, *facts: formatter.result("end"))


@breaks(3, f"{PARALLEL}test_a_scheduler_that_was_interrupted_in_a_step_says_so")
@module_of("llama_cpp", "scheduler")
def a_scheduler_of_llama_cpp_goes_on_after_an_interruption(patch: Patch, module: Any) -> None:
    patch.setattr(module.Scheduler, "_check_whole", lambda self: None)


@breaks(1, f"{PARALLEL}test_a_full_context_changes_no_output[0.3.36-64]")
@module_of("llama_cpp", "admission")
def a_preempted_sample_of_llama_cpp_loses_a_token(patch: Patch, module: Any) -> None:
    after(patch, module.Slots, "preempt", lambda sample, *_: (sample.tokens[-1:] and sample.tokens.pop(), sample)[1])


@breaks(
    3,
    f"{LLAMA}test_where_nothing_is_left_the_sequence_ends_with_the_cause[0.3.36-all forbidden]",
    escapes="TokenRejected",
)
@module_of("llama_cpp", "masks")
def llama_cpp_samples_where_nothing_is_left(patch: Patch, module: Any) -> None:
    def careless(self: Any, formatter: Any, logits: np.ndarray) -> None:
        formatter.fill_bitmask(self._row)
        bitmask.apply_row(logits, self._row)

    patch.setattr(module.Mask, "apply", careless)


@breaks(1, f"{LLAMA}test_outputs_are_in_their_format[0.3.36]", escapes="TokenRejected")
@module_of("llama_cpp", "masks")
def a_copy_of_strided_scores_of_llama_cpp_is_masked(patch: Patch, module: Any) -> None:
    apply = module.Mask.apply
    patch.setattr(
        module.Mask, "apply", lambda self, formatter, logits: apply(self, formatter, np.ascontiguousarray(logits))
    )


@breaks(7, f"{LLAMA}test_tokens_are_read_in_every_generation[0.3.36]")
@module_of("llama_cpp", "_compat_tokens")
def control_tokens_of_llama_cpp_are_text(patch: Patch, module: Any) -> None:
    patch.setattr(module, "is_special", lambda llama: lambda token_id: False)


@breaks(1, f"{LLAMA}test_tokens_are_read_in_every_generation[0.3.36]")
@module_of("llama_cpp", "_compat_tokens")
def a_long_piece_of_llama_cpp_is_cut(patch: Patch, module: Any) -> None:
    piece = module.piece
    patch.setattr(module, "piece", lambda llama: lambda token_id: piece(llama)(token_id)[:64])


@breaks(7, f"{LLAMA}test_tokens_are_read_in_every_generation[0.3.36]")
@module_of("llama_cpp", "_compat_tokens")
def llama_cpp_ends_at_one_id_alone(patch: Patch, module: Any) -> None:
    patch.setattr(module, "is_end", lambda llama: lambda token_id: token_id == 300)


@breaks(1, f"{PARALLEL}test_a_full_context_changes_no_output[0.3.36-64]")
@module_of("llama_cpp", "admission")
def a_context_of_llama_cpp_shares_a_token_too_many(patch: Patch, module: Any) -> None:
    prefix = module.shared_length
    patch.setattr(
        module, "shared_length", lambda first, second: min(prefix(first, second) + 1, len(first), len(second))
    )


@breaks(3, f"{PARALLEL}test_a_decode_without_room_ends_one_sequence")
@module_of("llama_cpp", "context")
def a_decode_that_failed_in_llama_cpp_is_kept(patch: Patch, module: Any) -> None:
    patch.setattr(module.SharedContext, "truncate", lambda self, sequence, length: None)


@breaks(1, f"{PARALLEL}test_events_never_tell_a_part_of_a_stop_string")
def a_part_of_a_stop_string_is_told(patch: Patch) -> None:
    from formatter_core.generation.stopping import TextStream

    patch.setattr(TextStream, "_held_back", lambda self, longest: 0)


# --- vLLM --------------------------------------------------------------------------------------------------------


@breaks(
    3,
    "tests/adapters/test_vllm_structured_outputs.py::TestGrammar::"
    "test_a_model_that_reasons_ends_only_where_the_format_may_be_empty[False]",
    needs="torch",
)
def a_model_of_vllm_may_end_while_it_reasons(patch: Patch) -> None:
    grammar: Any = importlib.import_module("formatter_vllm.backend").FormatterGrammar
    patch.setattr(grammar, "mask_reasoning", lambda self, row: None)


@breaks(3, f"{VLLM}TestFailures::test_a_fault_of_our_own_ends_the_constrained_requests", needs="torch")
@module_of("vllm", "masks")
def a_fault_of_our_own_leaves_the_rows_of_vllm_unconstrained(patch: Patch, module: Any) -> None:
    patch.setattr(module, "end_rows", lambda logits, rows, drafts: None)


@breaks(3, f"{VLLM}TestFailures::test_a_bad_request_that_nobody_checked", needs="torch")
@module_of("vllm", "constraints")
def a_bad_request_of_vllm_has_no_format(patch: Patch, module: Any) -> None:
    def anything(made: Any, constraints: Any, *_: Any) -> Any:
        if made.cursor.error is None:
            return made
        compiled = constraints._compiler.compile('{"regex": "(?s:.)*"}', tuple)
        return module.Constraint(module.Cursor(compiled.formatter()), False)

    after(patch, module.Constraints, "of_request", anything)


@breaks(3, f"{VLLM}TestPerRequest::test_a_fault_of_our_own_leaves_the_end_alone", needs="torch")
@module_of("vllm", "per_request")
def a_fault_in_the_processor_of_an_old_vllm_is_ignored(patch: Patch, module: Any) -> None:
    processor = module.RequestLogitsProcessor
    masked = processor.__call__

    def careless(self: Any, prompt_ids: Any, output_ids: Any, logits: Any) -> Any:
        given = logits.clone()
        made = masked(self, prompt_ids, output_ids, logits)
        return given if (made == 0.0).any() else made

    patch.setattr(processor, "__call__", careless)


# --- ExLlamaV2 ---------------------------------------------------------------------------------------------------


@breaks(3, f"{EXLLAMAS}test_a_filter_that_fails_ends_its_job_alone[exllamav2 0.3.2-True-fill_bitmask]", needs="torch")
@module_of("exllamav2", "filter")
def a_job_of_exllamav2_that_failed_goes_on_unconstrained(patch: Patch, module: Any) -> None:
    def opened(row: np.ndarray, filter: Any) -> np.ndarray:
        if filter.error is not None:
            row.fill(-1)
        return row

    after(patch, module.FormatterFilter, "write_row", opened)


@breaks(3, f"{EXLLAMAV2}test_all_that_is_allowed_is_forbidden_elsewhere", needs="torch")
@module_of("exllamav2", "filter")
def exllamav2_ends_without_a_cause_where_nothing_is_left(patch: Patch, module: Any) -> None:
    patch.setattr(module.FormatterFilter, "fail", lambda self, error: None)


# --- ExLlamaV3 ---------------------------------------------------------------------------------------------------


@breaks(
    3,
    f"{EXLLAMAS}test_a_filter_that_fails_ends_its_job_alone[exllamav3 1.4.1-True-fill_bitmask]",
    needs="torch",
    escapes="LimitExceeded",
)
@module_of("exllamav3", "filter")
def an_error_leaves_a_filter_of_exllamav3(patch: Patch, module: Any) -> None:
    """It would take the loop with all its jobs along."""

    def raising(self: Any, error: BaseException) -> None:
        raise error

    patch.setattr(module.Cursor, "fail", raising)


@breaks(
    3,
    f"{EXLLAMA}test_a_failure_ends_its_job_whatever_else_keeps_it_going[1.4.1-0-False-accept_token]",
    needs="torch",
)
@module_of("exllamav3", "filter")
def a_job_of_exllamav3_that_failed_goes_on_unconstrained(patch: Patch, module: Any) -> None:
    ends = property(lambda self: self._ends_job, lambda self, value: setattr(self, "_ends_job", value))
    active = property(lambda self: self._is_active, lambda self, value: setattr(self, "_is_active", value))
    patch.setattr(module.FormatterFilter, "eos_after_completed", ends)
    patch.setattr(module.FormatterFilter, "is_active", active)


@breaks(
    3,
    f"{EXLLAMAS}test_a_filter_in_two_jobs_at_a_time_ends_both[exllamav3 1.4.1]",
    needs="torch",
    escapes="ConcurrentUse TokenRejected",
)
@module_of("exllamav3", "filter")
def two_jobs_of_exllamav3_share_a_filter(patch: Patch, module: Any) -> None:
    patch.setattr(module._compat, "runs", lambda job: False)


@breaks(3, f"{EXLLAMA}test_a_format_that_is_complete_ends_before_min_new_tokens[1.4.1]", needs="torch")
@module_of("exllamav3", "filter")
def min_new_tokens_of_exllamav3_leaves_nothing(patch: Patch, module: Any) -> None:
    patch.setattr(module._compat, "lift_minimum", lambda job: None)


@breaks(3, f"{EXLLAMA}test_a_banned_string_that_the_format_demands_ends_the_job_with_the_cause", needs="torch")
@module_of("exllamav3", "filter")
def a_banned_string_of_exllamav3_leaves_nothing(patch: Patch, module: Any) -> None:
    patch.setattr(module._compat, "refused_ids", lambda job: [])


@breaks(1, f"{EXLLAMA}test_masks_are_of_the_kind_that_the_release_takes[0.0.5]", needs="torch")
@module_of("exllamav3", "filter")
def old_releases_of_exllamav3_get_packed_masks(patch: Patch, module: Any) -> None:
    patch.setattr(module._compat, "PACKED_MASKS", True)


@breaks(1, f"{EXLLAMA}test_a_rewound_filter_is_as_if_the_tokens_had_never_come[3]", needs="torch")
@module_of("exllamav3", "filter")
def a_filter_of_exllamav3_is_not_rewound(patch: Patch, module: Any) -> None:
    patch.setattr(module.FormatterFilter, "rollback_tokens", lambda self, count: True)


@breaks(7, f"{EXLLAMA}test_ids_without_logits_or_without_a_piece_are_no_tokens[1.4.1]", needs="torch")
@module_of("exllamav3", "vocabulary")
def exllamav3_is_offered_ids_beyond_its_logits(patch: Patch, module: Any) -> None:
    patch.setattr(module._compat, "size", lambda tokenizer, model=None: 64)


@breaks(7, f"{EXLLAMA}test_tokens_are_raw_pieces_and_special_tokens_are_none[1.4.1]", needs="torch")
@module_of("exllamav3", "vocabulary")
def declared_tokens_of_exllamav3_are_not_read(patch: Patch, module: Any) -> None:
    patch.setattr(module._compat, "declared_tokens", lambda tokenizer: ())


@breaks(5, f"{EXLLAMAS}test_one_filter_serves_one_job_after_the_other[exllamav3 1.4.1]", needs="torch")
@module_of("exllamav3", "filter")
def a_filter_of_exllamav3_is_not_reset(patch: Patch, module: Any) -> None:
    patch.setattr(module.FormatterFilter, "reset", lambda self: None)


# --- mlx-lm and SGLang -------------------------------------------------------------------------------------------

CONTRACT = "tests/adapters/test_contract.py::"


@breaks(1, f"{CONTRACT}TestMlxSequence::test_lists_that_shrink")
@module_of("mlx", "sequences")
def drafts_that_mlx_refused_stay_in_the_output(patch: Patch, module: Any) -> None:
    patch.setattr(module.Cursor, "rollback", lambda self, count: None)


@breaks(3, f"{CONTRACT}TestMlxBatch::test_a_token_that_is_not_allowed_ends_its_row_alone")
@module_of("mlx", "sequences")
def a_sequence_of_mlx_that_failed_goes_on_unconstrained(patch: Patch, module: Any) -> None:
    masked = module.Sequence.masked
    patch.setattr(
        module.Sequence, "masked", lambda self, logits: logits if self.cursor.has_failed else masked(self, logits)
    )


@breaks(3, f"{CONTRACT}TestMlxBatch::test_a_hook_that_meets_another_request_says_so")
@module_of("mlx", "logits_processor")
def a_processor_of_mlx_serves_two_calls(patch: Patch, module: Any) -> None:
    patch.setattr(module.Call, "check", lambda self, caller: None)


@breaks(3, f"{CONTRACT}TestMlxSequence::test_logits_narrower_than_the_vocabulary")
@module_of("mlx", "logits_processor")
def a_processor_of_mlx_takes_logits_that_are_too_narrow(patch: Patch, module: Any) -> None:
    patch.setattr(module, "needed_width", lambda vocabulary: 0)
    patch.setattr(module.Sequence, "masked", lambda self, logits: logits)


@breaks(3, f"{CONTRACT}TestSglang::test_a_token_that_is_not_allowed_ends_its_row_alone", needs="torch")
@module_of("sglang", "grammar")
def a_request_of_sglang_that_failed_goes_on_unconstrained(patch: Patch, module: Any) -> None:
    def filled(entries: Any, vocab_mask: Any) -> None:
        for entry in entries:
            if not entry.grammar.cursor.has_failed:
                entry.grammar.fill_vocab_mask(vocab_mask, entry.row)

    patch.setattr(module.FormatterGrammar, "fill_vocab_mask_batched", staticmethod(filled))


@breaks(5, f"{CONTRACT}TestSglang::test_replay_after_preemption", needs="torch")
@module_of("sglang", "grammar")
def requests_of_sglang_share_a_state(patch: Patch, module: Any) -> None:
    patch.setattr(module.FormatterGrammar, "copy", lambda self: self)


@breaks(
    3, "tests/adapters/test_sglang.py::test_a_token_that_is_not_allowed_is_the_error_that_sglang_expects", needs="torch"
)
@module_of("sglang", "grammar")
def a_token_that_sglang_may_not_take_is_taken(patch: Patch, module: Any) -> None:
    patch.setattr(module.FormatterGrammar, "accept_token", lambda self, token: self.cursor.append(token))


@breaks(3, "tests/adapters/test_openai.py::test_an_output_that_leaves_its_format_ends_at_once", needs="openai")
def a_servers_word_is_taken_for_it(patch: Patch) -> None:
    from formatter_openai.answers import Reading

    patch.setattr(Reading, "_accept", lambda self, formatter, text: None)
