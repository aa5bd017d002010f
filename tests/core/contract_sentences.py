"""What the public names promise, and the tests (file::class::test) that show it."""

from __future__ import annotations

HERE, RESULTS = "tests/core/test_contract_sentences.py", "tests/core/test_contract_results.py"
FORMATTER, FORMATS, CONTRACT = (
    "tests/core/test_formatter.py",
    "tests/core/test_formats.py",
    "tests/adapters/contract.py",
)
EVENTS, SCHEMA, REGEX = "tests/core/test_events.py", "tests/core/test_schema.py", "tests/core/test_regex_rust.py"
TYPES, PARSE = "tests/core/test_python_types.py", "tests/core/test_parse.py"

SENTENCES: dict[str, list[str]] = {
    # The vocabulary
    "a token's index is its id; None is never allowed": [
        f"{FORMATTER}::TestMasks::test_tokens_without_bytes_are_never_allowed"
    ],
    "vocabularies are read from Hugging Face tokenizers": [
        "tests/core/test_vocabulary_huggingface.py::test_round_trip_of_any_text"
    ],
    "… from tiktoken and mistral-common": ["tests/core/test_vocabulary_tiktoken.py::test_mistral_common"],
    "… from SentencePiece": ["tests/core/test_vocabulary_sentencepiece.py"],
    # The compiler
    "the engine is chosen by name, and `auto` takes the best one that is there": [
        f"{HERE}::test_the_engine_is_chosen_by_name"
    ],
    "without a usable grammar engine the error names the remedies": [
        f"{HERE}::test_without_an_engine_the_remedies_are_named"
    ],
    "compiled formats are kept within cache_bytes": [
        f"{HERE}::test_cache_bytes_bound_what_is_kept",
        "tests/core/test_cache.py::test_it_keeps_the_most_recent_within_its_bytes",
    ],
    "`parse` is the same format without tokens": [
        f"{FORMATS}::TestTable::test_texts_of_the_format_parse_to_their_value",
        f"{HERE}::test_parse_takes_text_and_bytes",
    ],
    "`min_bytes` is the length of the shortest complete output": [f"{FORMATTER}::test_min_bytes_and_fingerprint"],
    "`fingerprint` is a stable content hash": [f"{HERE}::test_the_fingerprint_is_the_same_in_every_process"],
    "a request may bring end ids of its own": [
        f"{FORMATTER}::TestEnds::test_a_request_may_have_end_ids_of_its_own",
        f"{CONTRACT}::AdapterContract::test_end_ids_of_the_request",
    ],
    # Masks
    "a row is int32, C-contiguous and writable": [
        f"{FORMATTER}::TestMasks::test_other_rows_are_refused",
        f"{FORMATTER}::TestMasks::test_read_only_rows_are_refused",
    ],
    "a set bit means allowed": [f"{FORMATTER}::TestMasks::test_a_token_is_allowed_iff_it_begins_a_completion"],
    "words past the vocabulary are zeroed": [f"{FORMATTER}::TestMasks::test_words_past_the_vocabulary_are_zeroed"],
    "too short for an allowed id is BitmaskTooNarrow": [
        f"{FORMATTER}::TestMasks::test_a_row_may_be_narrow_as_long_as_the_allowed_tokens_fit"
    ],
    "rows of every width, and wider than the vocabulary": [f"{HERE}::test_rows_of_every_width"],
    "`step` is accept and fill": [
        f"{FORMATTER}::TestMasks::test_step_is_accept_and_fill",
        f"{HERE}::test_step_takes_no_token_for_a_row_it_cannot_write",
    ],
    "`allowed_tokens` is sorted": [f"{HERE}::test_allowed_tokens_are_sorted"],
    "`fill_batch` fills all rows, None for everything": [
        f"{FORMATTER}::TestMasks::test_a_batch_is_filled_at_once",
        "tests/core/test_bitmask.py::test_fill_batch_fails_closed",
    ],
    # Steps
    "a token that is not allowed is TokenRejected and changes nothing": [
        f"{FORMATTER}::TestSteps::test_a_rejected_token_changes_nothing"
    ],
    "bytes may be accepted as well": [
        f"{FORMATTER}::TestSteps::test_rejected_bytes_change_nothing",
        f"{HERE}::test_ids_and_bytes_are_taken_by_their_type",
    ],
    "`accept_tokens` stops before the first id that is not allowed": [
        f"{FORMATTER}::TestSteps::test_accept_tokens_stops_before_the_first_that_is_not_allowed"
    ],
    "`count_valid` takes none": [
        f"{HERE}::test_count_valid_is_accept_tokens_without_taking",
        f"{HERE}::test_count_valid_changes_nothing_where_a_limit_is_hit",
    ],
    "`rollback` counts tokens, end ids included, and un-finishes": [
        f"{FORMATTER}::TestEnds::test_after_the_end_only_ends_count",
        f"{FORMATTER}::TestSteps::test_rollback_undoes_steps",
    ],
    "accept, rollback, fork and count_valid in any order": ["tests/core/test_formatter_machine.py::FormatterMachine"],
    "`fork` is independent": [f"{FORMATTER}::TestSteps::test_a_fork_goes_its_own_way"],
    "copies of a formatter are forks": [f"{RESULTS}::test_copies_of_a_formatter_go_their_own_way"],
    "`reset` begins again": [f"{FORMATTER}::TestSteps::test_reset_begins_again"],
    "`forced_bytes` is the longest common beginning, and may end inside a character": [
        f"{FORMATTER}::TestForcedBytes::test_the_longest_common_beginning"
    ],
    "`forced_bytes` is nothing where the text may end": [
        f"{HERE}::test_forced_bytes_are_what_every_completion_begins_with"
    ],
    "`forced_bytes` gives at most Limits.forced_bytes": [f"{FORMATTER}::TestForcedBytes::test_it_is_bounded"],
    "`explain` says the text so far, what is expected, and where": [
        f"{FORMATTER}::TestExplain::test_it_says_why",
        f"{HERE}::test_explain_names_the_hole_or_the_place_in_the_schema",
    ],
    "`explain` agrees with the mask": [f"{FORMATTER}::TestExplain::test_it_agrees_with_the_mask"],
    "`tokens`, `bytes` and `text` are what was accepted": [f"{HERE}::test_what_was_accepted"],
    # The builder
    "`append` takes text as it is, and returns the builder": [
        f"{FORMATS}::TestBuilder::test_no_literal_needs_escaping",
        f"{RESULTS}::test_every_kind_of_hole",
    ],
    "an f-string works too": [
        f"{FORMATS}::TestBuilder::test_holes_and_literals",
        f"{RESULTS}::test_a_hole_in_an_f_string_belongs_to_its_builder",
    ],
    "every kind of hole, with a name or without": [f"{RESULTS}::test_every_kind_of_hole"],
    "the same hole may stand in several places": [f"{RESULTS}::test_the_same_hole_in_several_places"],
    # Results
    "a result has text, bytes, tokens, ended, is_complete, captures, value, missing": [
        f"{FORMATTER}::TestResult::test_complete_by_an_end_id",
        f"{HERE}::test_what_was_accepted",
    ],
    "a result is short to look at": [f"{RESULTS}::test_a_result_shows_no_grammar"],
    "events open holes, add text, complete values": [
        f"{RESULTS}::test_events_tell_the_whole_story",
        f"{EVENTS}::test_events_come_as_soon_as_they_are_certain",
    ],
    "events tell only what every surviving parse agrees on": [
        f"{EVENTS}::test_nothing_is_told_while_parses_disagree",
        f"{EVENTS}::test_what_is_told_early_is_what_the_parse_says_in_the_end",
    ],
    "after a rollback past something delivered, Retracted": [
        f"{EVENTS}::test_rollback_takes_back_what_was_told",
        f"{EVENTS}::test_rollback_of_what_was_not_told_is_silent",
    ],
    "complete means ended by the format's own rules": [
        f"{FORMATTER}::TestResult::test_a_cut_text_has_no_value_even_where_it_could_have_ended",
        f"{FORMATTER}::TestResult::test_complete_because_nothing_may_follow",
    ],
    "the value of what is not complete says what was missing": [
        f"{FORMATTER}::TestResult::test_a_cut_text_has_no_value_even_where_it_could_have_ended"
    ],
    "each limit is documented, with why it has its default": [f"{RESULTS}::test_each_limit_is_documented"],
    # What compile takes
    "a Format, a builder, a schema as dict, bool or text, a type": [
        f"{FORMATS}::TestWhatCompileTakes::test_shorthands",
        f"{RESULTS}::test_what_compile_takes",
    ],
    "a non-empty dict without a known keyword is InvalidSchema": [
        f"{RESULTS}::test_a_dict_that_is_probably_an_example"
    ],
    "other text is InvalidFormat, and names what to use": [f"{RESULTS}::test_text_that_is_no_schema_names_what_to_use"],
    "examples only through `formats.example`": [f"{TYPES}::test_examples"],
    "formats go to JSON and back, captures included": [
        f"{FORMATS}::TestTable::test_the_format_goes_to_json_and_back",
        f"{RESULTS}::test_captures_go_to_json_and_back",
    ],
    # Threads
    "vocabularies, compilers and compiled formats may be shared": [
        f"{HERE}::test_threads_share_a_compiler",
        f"{FORMATTER}::TestThreads::test_compiled_formats_are_shared",
        "tests/core/test_sharing.py::test_threads_share_one_compile",
    ],
    "overlapping use of a formatter is ConcurrentUse": [
        f"{FORMATTER}::TestThreads::test_overlapping_use_is_noticed",
        f"{HERE}::test_every_method_notices_overlapping_use",
    ],
    # Completion
    "a token is allowed iff some completion begins with the text plus its bytes": [
        f"{FORMATTER}::TestMasks::test_a_token_is_allowed_iff_it_begins_a_completion",
        f"{FORMATTER}::TestMasks::test_a_token_may_end_inside_a_character",
    ],
    "no token and no end is DeadEnd, never an empty mask": [
        f"{FORMATTER}::TestDeadEnd::test_a_vocabulary_that_lacks_the_bytes",
        f"{FORMATTER}::TestDeadEnd::test_no_dead_end_where_the_format_may_end",
    ],
    # End ids
    "end ids are never text, whatever their bytes": [f"{HERE}::test_end_ids_are_never_text_whatever_their_bytes"],
    "tokens with no bytes are never allowed": [f"{FORMATTER}::TestMasks::test_tokens_without_bytes_are_never_allowed"],
    "an end id's bit is set exactly when the text may end": [
        f"{FORMATTER}::TestEnds::test_the_end_is_allowed_exactly_when_the_format_may_end",
        f"{CONTRACT}::AdapterContract::test_every_end_id_is_offered_exactly_when_the_text_may_end",
    ],
    "`must_stop` is `can_stop` and no text token": [
        f"{HERE}::test_must_stop",
        f"{FORMATTER}::TestDeadEnd::test_no_dead_end_where_the_format_may_end",
    ],
    "after an end id the mask is the end ids, and other ids are TokenRejected": [
        f"{FORMATTER}::TestEnds::test_after_the_end_only_ends_count"
    ],
    # Captures
    "captures come from the parse: written order, greedy, left to right": [
        f"{FORMATS}::TestBuilder::test_alternatives_are_preferred_in_written_order",
        f"{PARSE}::test_the_preferred_parse_is_the_first_of_all",
    ],
    "captures map a name to its values in order": [
        f"{EVENTS}::test_a_hole_met_many_times_and_nested_ones",
        f"{RESULTS}::test_the_same_hole_in_several_places",
    ],
    # Errors
    "each error is a FormatterError with its facts as fields": [
        f"{HERE}::test_the_error_tree",
        f"{HERE}::test_errors_carry_their_facts",
    ],
    # Formats
    "JSON Schema: whitespace": [f"{SCHEMA}::test_whitespace", f"{HERE}::test_flexible_whitespace_is_bounded"],
    "JSON Schema: key_order": [
        f"{SCHEMA}::test_free_key_order",
        f"{SCHEMA}::test_key_order_follows_the_walk_of_the_schema",
    ],
    "JSON Schema: string_formats": [f"{SCHEMA}::test_formats_as_annotations"],
    "JSON Schema: on_unsupported": [f"{SCHEMA}::test_dropping_instead_of_refusing_gives_a_superset_and_says_so"],
    "JSON Schema: registry": [f"{SCHEMA}::test_references_into_a_registry"],
    "regex: Rust syntax, whole text, refusals with their position": [
        f"{REGEX}::test_a_pattern_matches_whole_texts",
        f"{REGEX}::test_a_fault_is_named_with_its_position",
    ],
    "choice, substring_of (cut at characters), kbnf, until, sequence, integer, number, string": [
        f"{FORMATS}::TestTable::test_texts_of_the_format_parse_to_their_value"
    ],
    "python_type: generic aliases, unions, callables": [
        f"{TYPES}::test_values_are_instances",
        f"{RESULTS}::test_what_compile_takes",
    ],
    "token by its id": [f"{FORMATTER}::TestTokensById::test_a_special_token_is_allowed_where_the_format_names_it"],
    "until: the end occurs not before, and is not captured": [
        f"{FORMATS}::TestBuilder::test_the_span_of_until_leaves_the_end_out"
    ],
    "reasoning first is sequence(until, json_schema)": [f"{HERE}::test_reasoning_first"],
    # Adapters
    "every adapter offers create_vocabulary(tokenizer, *, model=None, end_ids=None)": [
        f"{HERE}::test_adapters_offer_create_vocabulary"
    ],
}
