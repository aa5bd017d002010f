"""Checks of the logits processor: it refuses logits of another model, and one of llama.cpp's own grammars beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from formatter_core.errors import InvalidArgument, WrongModel
from formatter_llama_cpp import _compat

__all__ = ["check_caller", "grammar_beside"]


def check_caller(llama: Any, input_ids: NDArray[np.intc], made_for: int, width: int) -> None:
    """Refuse to mask the logits of another model, before anything is written.

    Args:
        llama: the `Llama` that the processor was made for.
        input_ids: the ids that it was called with.
        made_for: how many logits that model has.
        width: how many there are now.

    Raises:
        WrongModel: it is another one.
    """
    found = None
    if width != made_for:
        found = f"one of {width}"
    elif not _compat.are_ids_of(llama, input_ids):
        found = "another Llama"
    if found is not None:
        raise WrongModel(
            "FormatterLogitsProcessor",
            made_for=f"a model of {made_for} logits",
            found=found,
            remedy="create one for each Llama object, and give a loop of your own ids in an array of their own",
        )


def grammar_beside() -> InvalidArgument:
    """Make the error for a call that uses one of llama.cpp's own grammars."""
    return InvalidArgument(
        "the call has a grammar of llama.cpp's own beside this logits processor (grammar=, response_format= or "
        "tools=), and what the two exclude together would abort the process; give one of them: "
        "create_logits_processor takes a LlamaGrammar as well"
    )
