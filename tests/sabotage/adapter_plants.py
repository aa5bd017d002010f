"""Faults planted in adapters: each undoes what handles one trap of an inference engine."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tests.sabotage.plants import PLANTS, Patch, after, breaks

__all__ = ["PLANTS"]

LLAMA = "tests/adapters/test_llama_cpp.py::"
PARALLEL = "tests/adapters/test_llama_cpp_parallel.py::"
EXLLAMA = "tests/adapters/test_exllamav3.py::"
EXLLAMAV2 = "tests/adapters/test_exllamav2.py::"
VLLM = "tests/adapters/test_vllm.py::"


def imported(patch: Patch, stand_ins: str, context: str, module: str, change: Callable[[Patch, Any], None]) -> None:
    """Change a module of an adapter each time that the adapter is imported on its stand-ins."""
    place = importlib.import_module(f"tests.adapters.{stand_ins}")
    original = getattr(place, context)

    @contextmanager
    def changed(version: str) -> Iterator[Any]:
        with original(version) as made:
            change(patch, importlib.import_module(module))
            yield made

    patch.setattr(place, context, changed)


def llama_cpp(patch: Patch, module: str, change: Callable[[Patch, Any], None]) -> None:
    imported(patch, "llama_cpp_stand_ins", "llama_cpp_of", f"formatter_llama_cpp.{module}", change)


def exllamav3(patch: Patch, module: str, change: Callable[[Patch, Any], None]) -> None:
    imported(patch, "exllamav3_stand_ins", "exllamav3_of", f"formatter_exllamav3.{module}", change)


def exllamav2(patch: Patch, module: str, change: Callable[[Patch, Any], None]) -> None:
    imported(patch, "exllamav2_stand_ins", "exllamav2_of", f"formatter_exllamav2.{module}", change)


def vllm(patch: Patch, module: str, change: Callable[[Patch, Any], None]) -> None:
    imported(patch, "vllm_stand_ins", "vllm_of", f"formatter_vllm.{module}", change)


# --- llama.cpp ---------------------------------------------------------------------------------------------------


@breaks(3, f"{LLAMA}test_whatever_goes_wrong_ends_the_sequence_and_is_raised_afterwards[0.3.36-fill_bitmask-1-bug]")
def an_error_leaves_a_processor_of_llama_cpp(patch: Patch) -> None:
    """llama-cpp-python prints it and goes on unconstrained."""

    def change(patch: Patch, module: Any) -> None:
        def raising(self: Any, error: BaseException) -> None:
            raise error

        patch.setattr(module.Cursor, "fail", raising)

    llama_cpp(patch, "logits_processor", change)


@breaks(3, f"{LLAMA}test_whatever_goes_wrong_ends_the_sequence_and_is_raised_afterwards[0.3.36-step-3-interrupt]")
def a_sequence_of_llama_cpp_that_failed_goes_on_unconstrained(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        patch.setattr(module.FormatterLogitsProcessor, "_leave_only_the_end", lambda self, scores: None)

    llama_cpp(patch, "logits_processor", change)


@breaks(3, f"{LLAMA}test_logit_bias_keeps_the_format[0.3.36-5.0]", escapes="HookNotCalled")
def logit_bias_drops_a_processor_of_llama_cpp(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        patch.setattr(module.FormatterLogitsProcessor, "extend", list.extend)

    llama_cpp(patch, "logits_processor", change)


@breaks(3, f"{LLAMA}test_a_list_around_it_that_was_lost_is_noticed[0.3.36]")
def a_processor_of_llama_cpp_that_was_never_called_says_nothing(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        def careless(self: Any) -> None:
            if self.error is not None:
                raise self.error

        patch.setattr(module.FormatterLogitsProcessor, "raise_error", careless)

    llama_cpp(patch, "logits_processor", change)


@breaks(1, f"{LLAMA}test_drafts_behind_the_kept_tokens_are_not_followed[0.3.36-3]")
def drafts_of_llama_cpp_are_taken_for_output(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        patch.setattr(module._compat, "has_drafts", lambda llama: False)

    llama_cpp(patch, "logits_processor", change)


@breaks(1, f"{LLAMA}test_one_object_serves_one_request_after_the_other[0.3.36]")
def a_processor_of_llama_cpp_takes_a_new_prompt_for_output(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        patch.setattr(module.FormatterLogitsProcessor, "_continued_by", lambda self, ids: self._cursor.is_used)

    llama_cpp(patch, "logits_processor", change)


@breaks(1, f"{LLAMA}test_a_request_is_told_by_its_sampler")
def requests_of_llama_cpp_are_told_by_their_tokens_alone(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        patch.setattr(module._compat, "generation_of", lambda llama: None)

    llama_cpp(patch, "logits_processor", change)


@breaks(
    3,
    f"{LLAMA}test_where_nothing_is_left_the_sequence_ends_with_the_cause[0.3.36-all forbidden]",
    escapes="TokenRejected",
)
def llama_cpp_samples_where_nothing_is_left(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        def careless(self: Any, formatter: Any, logits: np.ndarray) -> None:
            formatter.fill_bitmask(self._row)
            self._remember(len(logits))
            logits[self._forbidden] = -np.inf

        patch.setattr(module.Mask, "apply", careless)

    llama_cpp(patch, "masks", change)


@breaks(1, f"{LLAMA}test_outputs_are_in_their_format[0.3.36]", escapes="TokenRejected")
def a_copy_of_strided_scores_of_llama_cpp_is_masked(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        apply = module.Mask.apply
        patch.setattr(
            module.Mask, "apply", lambda self, formatter, logits: apply(self, formatter, np.ascontiguousarray(logits))
        )

    llama_cpp(patch, "masks", change)


@breaks(7, f"{LLAMA}test_tokens_are_read_in_every_generation[0.3.36]")
def control_tokens_of_llama_cpp_are_text(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        patch.setattr(module, "is_special", lambda llama: lambda token_id: False)

    llama_cpp(patch, "_compat", change)


@breaks(1, f"{LLAMA}test_tokens_are_read_in_every_generation[0.3.36]")
def a_long_piece_of_llama_cpp_is_cut(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        piece = module.piece
        patch.setattr(module, "piece", lambda llama: lambda token_id: piece(llama)(token_id)[:64])

    llama_cpp(patch, "_compat", change)


@breaks(7, f"{LLAMA}test_tokens_are_read_in_every_generation[0.3.36]")
def llama_cpp_ends_at_one_id_alone(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        patch.setattr(module, "is_end", lambda llama: lambda token_id: token_id == 300)

    llama_cpp(patch, "_compat", change)


@breaks(1, f"{PARALLEL}test_any_mixture_equals_its_solo_runs[16-512-32]")
def a_context_of_llama_cpp_shares_a_token_too_many(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        prefix = module.common_prefix
        patch.setattr(
            module, "common_prefix", lambda first, second: min(prefix(first, second) + 1, len(first), len(second))
        )

    llama_cpp(patch, "scheduler", change)


@breaks(3, f"{PARALLEL}test_a_decode_without_room_ends_one_sequence")
def a_decode_that_failed_in_llama_cpp_is_kept(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        patch.setattr(module.SharedContext, "truncate", lambda self, sequence, length: None)

    llama_cpp(patch, "context", change)


@breaks(1, f"{PARALLEL}test_events_never_tell_a_part_of_a_stop_string")
def a_part_of_a_stop_string_is_told(patch: Patch) -> None:
    from formatter_core.generation.stopping import TextStream

    patch.setattr(TextStream, "_held_back", lambda self, longest: 0)


# --- vLLM --------------------------------------------------------------------------------------------------------


@breaks(3, f"{VLLM}TestFailures::test_a_fault_of_our_own_ends_the_constrained_requests", needs="torch")
def a_fault_of_our_own_leaves_the_rows_of_vllm_unconstrained(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        patch.setattr(module, "end_rows", lambda logits, rows, drafts: None)

    vllm(patch, "masks", change)


@breaks(3, f"{VLLM}TestFailures::test_a_bad_request_that_nobody_checked", needs="torch")
def a_bad_request_of_vllm_has_no_format(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        after(
            patch,
            module.Constraints,
            "of_request",
            lambda made, *_: made if made and made.cursor.error is None else None,
        )

    vllm(patch, "constraints", change)


@breaks(3, f"{VLLM}TestPerRequest::test_a_fault_of_our_own_leaves_the_end_alone", needs="torch")
def a_fault_in_the_processor_of_an_old_vllm_is_ignored(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        processor = module.RequestLogitsProcessor
        masked = processor.__call__

        def careless(self: Any, prompt_ids: Any, output_ids: Any, logits: Any) -> Any:
            given = logits.clone()
            made = masked(self, prompt_ids, output_ids, logits)
            return given if (made == 0.0).any() else made

        patch.setattr(processor, "__call__", careless)

    vllm(patch, "per_request", change)


# --- ExLlamaV2 ---------------------------------------------------------------------------------------------------


@breaks(3, f"{EXLLAMAV2}test_a_filter_that_fails_ends_its_job_alone", needs="torch")
def a_job_of_exllamav2_that_failed_goes_on_unconstrained(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        def opened(row: np.ndarray, filter: Any) -> np.ndarray:
            if filter.error is not None:
                row.fill(-1)
            return row

        after(patch, module.FormatterFilter, "write_row", opened)

    exllamav2(patch, "filter", change)


@breaks(3, f"{EXLLAMAV2}test_all_that_is_allowed_is_forbidden_elsewhere", needs="torch")
def exllamav2_ends_without_a_cause_where_nothing_is_left(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        patch.setattr(module.FormatterFilter, "fail", lambda self, error: None)

    exllamav2(patch, "filter", change)


# --- ExLlamaV3 ---------------------------------------------------------------------------------------------------


@breaks(
    3,
    f"{EXLLAMA}test_a_failure_ends_its_job_alone_and_is_raised_by_result[1.4.1-options0-0-fill_bitmask]",
    needs="torch",
    escapes="LimitExceeded",
)
def an_error_leaves_a_filter_of_exllamav3(patch: Patch) -> None:
    """It would take the loop with all its jobs along."""

    def change(patch: Patch, module: Any) -> None:
        def raising(self: Any, error: BaseException) -> None:
            raise error

        patch.setattr(module.Cursor, "fail", raising)

    exllamav3(patch, "filter", change)


@breaks(
    3,
    f"{EXLLAMA}test_a_failure_ends_its_job_alone_and_is_raised_by_result[1.4.1-options1-0-accept_token]",
    needs="torch",
)
def a_job_of_exllamav3_that_failed_goes_on_unconstrained(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        ends = property(lambda self: self._ends_job, lambda self, value: setattr(self, "_ends_job", value))
        active = property(lambda self: self._is_active, lambda self, value: setattr(self, "_is_active", value))
        patch.setattr(module.FormatterFilter, "eos_after_completed", ends)
        patch.setattr(module.FormatterFilter, "is_active", active)

    exllamav3(patch, "filter", change)


@breaks(
    3,
    f"{EXLLAMA}test_one_filter_for_two_jobs_at_a_time_ends_both[1.4.1]",
    needs="torch",
    escapes="ConcurrentUse TokenRejected",
)
def two_jobs_of_exllamav3_share_a_filter(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        patch.setattr(module._compat, "runs", lambda job: False)

    exllamav3(patch, "filter", change)


@breaks(3, f"{EXLLAMA}test_a_format_that_is_complete_ends_before_min_new_tokens[1.4.1]", needs="torch")
def min_new_tokens_of_exllamav3_leaves_nothing(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        patch.setattr(module._compat, "lift_minimum", lambda job: None)

    exllamav3(patch, "filter", change)


@breaks(3, f"{EXLLAMA}test_a_banned_string_that_the_format_demands_ends_the_job_with_the_cause", needs="torch")
def a_banned_string_of_exllamav3_leaves_nothing(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        patch.setattr(module._compat, "refused_ids", lambda job: [])

    exllamav3(patch, "filter", change)


@breaks(1, f"{EXLLAMA}test_masks_are_of_the_kind_that_the_release_takes[0.0.5]", needs="torch")
def old_releases_of_exllamav3_get_packed_masks(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        patch.setattr(module._compat, "PACKED_MASKS", True)

    exllamav3(patch, "filter", change)


@breaks(1, f"{EXLLAMA}test_a_rewound_filter_is_as_if_the_tokens_had_never_come[3]", needs="torch")
def a_filter_of_exllamav3_is_not_rewound(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        patch.setattr(module.FormatterFilter, "rollback_tokens", lambda self, count: True)

    exllamav3(patch, "filter", change)


@breaks(7, f"{EXLLAMA}test_ids_without_logits_or_without_a_piece_are_no_tokens[1.4.1]", needs="torch")
def exllamav3_is_offered_ids_beyond_its_logits(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        patch.setattr(module._compat, "size", lambda tokenizer, model=None: 64)

    exllamav3(patch, "vocabulary", change)


@breaks(7, f"{EXLLAMA}test_tokens_are_raw_pieces_and_special_tokens_are_none[1.4.1]", needs="torch")
def declared_tokens_of_exllamav3_are_not_read(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        patch.setattr(module._compat, "declared_tokens", lambda tokenizer: ())

    exllamav3(patch, "vocabulary", change)


@breaks(5, f"{EXLLAMA}test_one_filter_serves_one_job_after_the_other[1.4.1]", needs="torch")
def a_filter_of_exllamav3_is_not_reset(patch: Patch) -> None:
    def change(patch: Patch, module: Any) -> None:
        patch.setattr(module.FormatterFilter, "reset", lambda self: None)

    exllamav3(patch, "filter", change)


@breaks(3, "tests/adapters/test_openai.py::test_an_output_that_leaves_its_format_ends_at_once", needs="openai")
def a_servers_word_is_taken_for_it(patch: Patch) -> None:
    from formatter_openai.answers import Reading

    patch.setattr(Reading, "_accept", lambda self, formatter, text: None)
