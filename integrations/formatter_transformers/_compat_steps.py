"""The step of `generate` that calls a logits processor, found by the frames around it."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, TypeAlias

from formatter_core.errors import InvalidArgument
from formatter_transformers._compat import LogitsProcessorList, unsupported

__all__ = [
    "Step",
    "has_beams",
    "is_draft",
    "may_unmask_after",
    "model_of",
    "processors_of",
    "running_step",
    "stop_strings",
    "streamer",
]

#: A running call of a `LogitsProcessorList`: one step of a generation.
Step: TypeAlias = FrameType

_LIST_CALL = LogitsProcessorList.__call__.__code__

#: Modes of `generate` that also take tokens with a score of -inf, and the argument that switches each on.
_UNMASKABLE = {"contrastive_search": "penalty_alpha", "constrained_beam_search": "constraints or force_words_ids"}

_KEEPS_MASKS = ("Warper", "WatermarkLogitsProcessor", "LogitNormalization")


def running_step() -> Step | None:
    """Return the step that the caller is part of; None if no list of processors runs."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not _LIST_CALL:
        frame = frame.f_back
    return frame


def processors_of(step: Step | None) -> Any:
    """Return the list of processors. `generate` makes a new list for each call, which identifies the call."""
    return None if step is None else step.f_locals["self"]


def model_of(step: Step | None) -> Any:
    """Return the model whose `generate` takes this step; None if it is not known."""
    return None if (arguments := _generate_arguments(step)) is None else arguments.get("self")


def has_beams(step: Step | None) -> bool:
    """Tell whether `generate` reorders rows between steps."""
    arguments = _generate_arguments(step)
    return arguments is not None and "beam" in _mode(arguments)


def stop_strings(step: Step | None) -> tuple[str, ...]:
    """Return the texts at which `generate` stops."""
    config = (_generate_arguments(step) or {}).get("generation_config")
    found = getattr(config, "stop_strings", None) or ()
    return (found,) if isinstance(found, str) else tuple(found)


def streamer() -> Any:
    """Return the streamer of the `generate` that the caller is part of.

    Some releases pass it to no function that decodes.
    """
    return (_generate_arguments(sys._getframe(1)) or {}).get("streamer")


def _generate_arguments(step: Step | None) -> dict[str, Any] | None:
    """Return the local names of the innermost `generate` around a step."""
    frame: FrameType | None = step
    while frame is not None and frame.f_code.co_name != "generate":
        frame = frame.f_back
    return None if frame is None else frame.f_locals


def is_draft(step: Step | None) -> bool:
    """Tell whether a draft model takes this step, and not the model whose `generate` was called.

    Raises:
        InvalidArgument: the list of processors was not made by `generate`; or `generate` runs in a mode that also takes
            masked tokens.
        UnsupportedEngineVersion: beam sampling, in a release that cannot sample where few tokens are allowed.
    """
    is_generate, frame = False, step
    while frame is not None and step is not None:
        name = frame.f_code.co_name
        if not is_generate and name == "generate":
            found = [key for key, value in frame.f_locals.items() if value is processors_of(step)]
            is_generate = bool(found) and found != ["logits_processor"]  # which may be a list of the user's
            if is_generate:
                _check_mode(frame.f_locals, step.f_back)
        elif is_generate and name == "get_candidates":
            kinds = type(frame.f_locals.get("self")).__mro__
            if any(kind.__name__ == "CandidateGenerator" for kind in kinds):
                return True
        frame = frame.f_back
    if not is_generate:
        raise InvalidArgument(
            "a logits processor can tell outputs apart only inside model.generate; in a loop of your own, use "
            "compiled.formatter() and formatter_core.runtime.torch_bitmask.apply"
        )
    return False


def may_unmask_after(processor: Any, processors: Any) -> bool:
    """Tell whether a later processor of the list could undo a mask; the ones that `generate` adds itself never do."""
    place = processors.index(processor) + 1 if processor in processors else 0
    return not all(
        type(after).__module__.startswith("transformers.") and type(after).__name__.endswith(_KEEPS_MASKS)
        for after in processors[place:]
    )


def _mode(arguments: dict[str, Any]) -> str:
    mode: str = arguments["generation_config"].get_generation_mode(arguments.get("assistant_model")).value
    return mode


def _check_mode(arguments: dict[str, Any], decoding: FrameType | None) -> None:
    mode = _mode(arguments)
    if mode in _UNMASKABLE:
        raise InvalidArgument(
            f"{mode.replace('_', ' ')} takes tokens that no format allows; drop {_UNMASKABLE[mode]}, and use sampling "
            "or beam search",
            argument=_UNMASKABLE[mode],
        )
    if mode == "beam_sample" and decoding is not None and "beam_scorer" in decoding.f_code.co_varnames:
        raise unsupported("beam sampling under a format", ">= 4.50")
